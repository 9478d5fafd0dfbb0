"""The page, LangGraph's API and MCP over HTTP under attack, each with and without a token."""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from subprocess import STDOUT
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests.forked_python import ForkedPython
from tests.loopback import PATIENCE
from tests.openai_server import serve
from tests.paths import PATHS, SECRET, fifo_was_opened, lay_traps
from tests.studio_server import clean_environment, langgraph_dev

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery-staple"
QUESTION = "Which drug is first choice for type 2 diabetes?"
MAPPED = {"route": "map_reduce", "top_k": 8, "partition_size": 4}
LEAKS = (SECRET, "root:x:0:", "PYTHONPATH=", "BRIEFCONTEXT_CACHE=")
"""Texts of files that a client must not read."""
FIELDS = ("document", "knowledge_base", "prompts", "model_arguments", "model", "extract_model")
"""Settings that name files, folders or models."""
JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Server:
    """A server without a token at `url`, and with one at `locked`."""

    command: ClassVar[tuple[str, ...]]
    routes: ClassVar[tuple[str, ...]]
    """Routes that need the token."""

    def __init__(self, url: str, locked: str, documents: Path) -> None:
        self.url, self.locked, self.documents = url, locked, documents
        self.client = httpx.Client(trust_env=False, timeout=PATIENCE, headers=JSON)

    def question(self, text: str, **settings: Any) -> tuple[str, Any]:
        """Return the path and the JSON of a question."""
        raise NotImplementedError

    def ask(self, text: str = QUESTION, *, url: str = "", **headers: str) -> httpx.Response:
        path, body = self.question(text, **MAPPED)
        return self.client.post(f"{url or self.url}{path}", json=body, headers=headers)

    def named(self, path: str) -> list[tuple[str, Any]]:
        """Return requests that name a path wherever a client may name anything."""
        raise NotImplementedError


class Page(Server):
    command = ("serve", "--uploads")
    routes = ("/api/about", "/api/ask", "/api/ask/file", "/api/count", "/api/source", "/api/none")

    def question(self, text: str, **settings: Any) -> tuple[str, Any]:
        return "/api/ask", {"question": text, "settings": settings}

    def named(self, path: str) -> list[tuple[str, Any]]:
        settings = dict.fromkeys(FIELDS, path)
        file = {"name": path, "content": ""}
        return [
            self.question(QUESTION, **settings),
            ("/api/count", {"settings": settings}),
            ("/api/source", {"source_id": path}),
            ("/api/ask/file", {"question": QUESTION, "file": file}),
        ]


class LangGraph(Server):
    command = ()
    routes = (
        *("/assistants/search", "/runs/wait", "/runs/stream", "/runs", "/runs/batch", "/threads"),
        *("/info", "/docs", "/openapi.json", "/metrics", "/store/items", "/internal/truncate"),
        *("/page/api/about", "/page/api/ask", "/nothing"),
    )

    def question(self, text: str, **settings: Any) -> tuple[str, Any]:
        graph = "long_document" if "document" in settings else "briefcontext"
        run = {"assistant_id": graph, "input": {"question": text}, "context": settings}
        return "/runs/wait", {**run, "on_disconnect": "continue"}

    def named(self, path: str) -> list[tuple[str, Any]]:
        return [self.question(QUESTION, **{name: path}) for name in FIELDS]


class MCP(Server):
    command = ("mcp", "--http", "--route", "map_reduce", "--top-k", "8")
    routes = ("/mcp", "/mcp/", "/nothing")

    def question(self, text: str, **settings: Any) -> tuple[str, Any]:
        return self.tool("ask", question=text)

    @staticmethod
    def tool(name: str, **arguments: Any) -> tuple[str, Any]:
        called = {"name": name, "arguments": arguments}
        return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}

    def named(self, path: str) -> list[tuple[str, Any]]:
        filters = dict.fromkeys(FIELDS, path)
        return [
            self.tool("fetch_source", source_id=path),
            self.tool("search", query=QUESTION, filters=filters),
        ]


@contextmanager
def _started(command: tuple[str, ...], home: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a command that prints its address; yield the address."""
    home.mkdir()
    if not command:
        with langgraph_dev(home, environment, "--n-jobs-per-worker", "10") as url:
            yield url
        return
    arguments = ["-m", "briefcontext", *command, "--model", "openai:scripted", "--port", "0"]
    with ForkedPython(arguments, cwd=home, env=environment, stderr=STDOUT) as server:
        assert server.stdout is not None
        found = next(filter(None, (re.search(r"http://[\d.:]+", line) for line in server.stdout)))
        reading = threading.Thread(target=server.stdout.read, daemon=True)
        reading.start()
        yield found[0]
        server.terminate()
        server.wait(PATIENCE)
        reading.join(PATIENCE)


@pytest.fixture(scope="module", params=[Page, LangGraph, MCP], ids=["page", "langgraph", "mcp"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    kind, folder = request.param, tmp_path_factory.mktemp("servers")
    documents = folder / "documents"
    documents.mkdir()
    lay_traps(documents)
    with ExitStack() as stack:
        model = stack.enter_context(serve())
        keys = {
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "none",
            "BRIEFCONTEXT_MODELS": "openai:scripted",
            "BRIEFCONTEXT_DOCUMENTS": str(documents),
        }
        urls = [
            stack.enter_context(
                _started(kind.command, folder / name, clean_environment(**keys, **more))
            )
            for name, more in {"open": {}, "locked": {"BRIEFCONTEXT_TOKEN": TOKEN}}.items()
        ]
        running: Server = kind(*urls, documents)
        stack.enter_context(running.client)
        yield running


FOREIGN = [
    {"Host": "attacker.example"},
    {"Host": "127.0.0.1.attacker.example"},
    {"Origin": "https://attacker.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"X-Forwarded-For": "127.0.0.1"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda headers: ": ".join(*headers.items()))
def test_requests_from_elsewhere_are_refused(headers: dict[str, str], server: Server) -> None:
    assert server.ask(**headers).status_code in (403, 421)


def test_no_route_opens_without_the_token(server: Server) -> None:
    wrong = [
        {},
        *({"Authorization": value} for value in ("Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}")),
        *({name: TOKEN} for name in ("Authorization", "Cookie", "X-Api-Key")),
        {"X-Auth-Scheme": "langsmith", "X-Api-Key": TOKEN},
    ]
    for route in server.routes:
        url = f"{server.locked}{route}"
        for headers in wrong:
            assert server.client.get(url, headers=headers).status_code == 401, (route, headers)
            assert server.client.post(url, headers=headers, json={}).status_code == 401
        assert server.client.get(url, params={"token": TOKEN}).status_code == 401


def test_the_token_opens_from_any_host(server: Server) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "elsewhere.example"}
    assert "The question is empty" in server.ask("", url=server.locked, **headers).text


def test_no_name_opens_a_file(server: Server) -> None:
    files = {*server.documents.parent.rglob("*")}
    requests = [request for path in PATHS for request in server.named(path)]
    with ThreadPoolExecutor(8) as pool:
        replies = [
            reply.text
            for reply in pool.map(
                lambda request: server.client.post(f"{server.url}{request[0]}", json=request[1]),
                requests,
            )
        ]
    assert not any(re.search('"answer": ?{', reply) for reply in replies)
    for path in PATHS:
        with closing(HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)) as raw:
            raw.request("GET", quote(f"/{path}"))
            replies.append(raw.getresponse().read().decode(errors="replace"))
    assert not [reply for reply in replies if any(leak in reply for leak in LEAKS)]
    made = {*server.documents.parent.rglob("*")} - files
    assert [file for file in made if ".langgraph_api" not in file.parts] == []
    assert not fifo_was_opened(server.documents)


@pytest.mark.parametrize("stated", [True, False], ids=["stated length", "no length"])
def test_a_large_body_is_refused(stated: bool, server: Server) -> None:
    path, _ = server.question(QUESTION)
    large = b'{"question": "' + b"x" * 3 * 1024**2 + b'"}'
    pieces = (large[start : start + 65536] for start in range(0, len(large), 65536))
    try:
        reply = server.client.post(f"{server.url}{path}", content=large if stated else pieces)
    except httpx.TransportError:  # The server answered and closed before all was sent.
        return
    assert reply.status_code == 413


def test_many_questions_at_once_are_answered(server: Server) -> None:
    path, body = server.question(QUESTION, **MAPPED)

    async def ask_all() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(
            base_url=server.url, trust_env=False, timeout=PATIENCE, headers=JSON, limits=limits
        ) as client:
            return await asyncio.gather(*(client.post(path, json=body) for _ in range(60)))

    for reply in asyncio.run(ask_all()):
        assert reply.status_code == 200
        assert "holds [1]" in reply.text
