"""One list of attacks on the three servers, and what came of each: `python -m tests.doors` prints the table."""

import asyncio
import json
import re
import sys
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from subprocess import STDOUT
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit
from zipfile import ZIP_DEFLATED, ZipFile

import httpx

from tests.forked_python import ForkedPython
from tests.openai_server import Call, OpenAIServer, Reply, faithful, serve
from tests.paths import PATHS, SECRET, fifo_was_opened, lay_traps
from tests.studio_server import clean_environment, langgraph_dev

TOKEN = "correct-horse-battery-staple"
QUESTION = "Which drug is first choice for type 2 diabetes?"
HOLD = "Take your time."
"""A question with these words gets no reply of the model before the client hangs up."""
MAPPED = {"route": "map_reduce", "top_k": 8, "partition_size": 4}
CALLS = 3
"""Of the model for such a question: two extractions, and the answer."""
LEAKS = (SECRET, "root:x:0:", "PYTHONPATH=", "BRIEFCONTEXT_CACHE=")
"""What stands in a reply only when a file of the server was opened for it."""
FIELDS = (
    *("document", "knowledge_base", "prompts", "preflight", "cross_encoder"),
    *("model_arguments", "model", "extract_model"),
)
"""The settings that name files, folders or models."""
PATIENCE = 400.0
"""Seconds."""


@dataclass
class Outcome:
    """What came of an attack: what happened, and whether the door held."""

    happened: str
    held: bool


@dataclass(eq=False)
class Door:
    """A server that is up, without a token at `url` and with one at `locked`."""

    url: str
    locked: str
    folder: Path
    """Of the documents, with traps in it; the servers run in the folder above."""
    model: OpenAIServer
    held: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released for each call that the model holds."""

    name: ClassVar[str]
    routes: ClassVar[tuple[str, ...]]
    """What nobody reaches without the token."""
    files: ClassVar[str] = ""
    """Where a file of the client's own is taken, if one is."""

    def __post_init__(self) -> None:
        self.model.script = self._reply
        self.client = httpx.Client(trust_env=False, timeout=PATIENCE)

    def _reply(self, call: Call) -> Reply:
        if HOLD not in call.prompt:
            return faithful(call)
        self.held.release()
        return Reply(hold=True)

    def question(self, text: str = QUESTION, **settings: Any) -> tuple[str, dict[str, Any]]:
        """Return the path and the JSON of a question."""
        raise NotImplementedError

    def post(self, path: str, body: Any = None, *, url: str = "", **more: Any) -> httpx.Response:
        """Send JSON, or `content` as it is."""
        headers = {"Accept": "application/json, text/event-stream", **more.pop("headers", {})}
        given = {} if body is None else {"json": body}
        return self.client.post(f"{url or self.url}{path}", headers=headers, **given, **more)

    def ask(
        self, text: str = QUESTION, *, url: str = "", headers: Any = None, **settings: Any
    ) -> httpx.Response:
        """Ask a question."""
        path, body = self.question(text, **settings)
        return self.post(path, body, url=url, headers=headers or {})

    def answered(self, **settings: Any) -> bool:
        """Return whether a question is answered now."""
        reply = self.ask(**{**MAPPED, **settings})
        return reply.is_success and "holds [1]" in reply.text

    def name_path(self, path: str) -> Iterator[httpx.Response]:
        """Name a path wherever a client may name anything."""
        raise NotImplementedError


class Page(Door):
    """The page, as `briefcontext serve` starts it."""

    name = "page"
    routes = (
        "/api/about",
        "/api/ask",
        "/api/ask/file",
        "/api/count",
        "/api/source",
        "/api/nothing",
    )
    files = "/api/ask/file"

    def question(self, text: str = QUESTION, **settings: Any) -> tuple[str, dict[str, Any]]:
        return "/api/ask", {"question": text, "settings": settings}

    def name_path(self, path: str) -> Iterator[httpx.Response]:
        yield self.ask(**dict.fromkeys(FIELDS, path))
        yield self.post("/api/count", {"settings": dict.fromkeys(FIELDS, path)})
        yield self.post("/api/source", {"source_id": path})
        file = {"name": path, "content": ""}
        yield self.post(
            self.files,
            {"question": QUESTION, "file": file, "settings": dict.fromkeys(FIELDS, path)},
        )
        yield self.post(self.files, {"question": QUESTION, "file": file})


class LangGraph(Door):
    """LangGraph's API with the project's configuration."""

    name = "LangGraph API"
    routes = (
        *(
            "/assistants/search",
            "/runs/wait",
            "/runs/stream",
            "/runs",
            "/runs/batch",
            "/threads",
            "/threads/search",
        ),
        *(
            "/info",
            "/docs",
            "/openapi.json",
            "/metrics",
            "/store/items",
            "/ui/briefcontext",
            "/internal/truncate",
        ),
        *("/page/api/about", "/page/api/ask", "/page/api/count", "/page/api/source", "/nothing"),
    )

    def question(self, text: str = QUESTION, **settings: Any) -> tuple[str, dict[str, Any]]:
        graph = "long_document" if "document" in settings else "briefcontext"
        run = {"assistant_id": graph, "input": {"question": text}, "context": settings}
        return "/runs/wait", {**run, "on_disconnect": "continue"}

    def name_path(self, path: str) -> Iterator[httpx.Response]:
        yield self.ask(document=path)
        yield self.ask(**{name: path for name in FIELDS if name != "document"})


class MCP(Door):
    """MCP over HTTP, as `briefcontext mcp --http` starts it."""

    name = "MCP over HTTP"
    routes = ("/mcp", "/mcp/", "/nothing")

    def question(self, text: str = QUESTION, **settings: Any) -> tuple[str, dict[str, Any]]:
        return self.tool("ask", question=text)

    @staticmethod
    def tool(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Return the path and the JSON of a tool's call."""
        called = {"name": name, "arguments": arguments}
        return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}

    def name_path(self, path: str) -> Iterator[httpx.Response]:
        yield self.post(*self.tool("fetch_source", source_id=path))
        yield self.post(*self.tool("search", query=QUESTION, filters=dict.fromkeys(FIELDS, path)))


DOORS: tuple[type[Door], ...] = (Page, LangGraph, MCP)


@contextmanager
def open_doors(folder: Path) -> Iterator[list[Door]]:
    """Start the three servers, each once without and once with a token."""
    documents = folder / "documents"
    documents.mkdir()
    lay_traps(documents)
    with ExitStack() as stack:
        models = [stack.enter_context(serve()) for _ in DOORS]
        starting = ThreadPoolExecutor(6)
        starts = {Page: _start_page, LangGraph: _start_langgraph, MCP: _start_mcp}
        running = []
        for kind, model in zip(DOORS, models, strict=True):
            keys = {
                "OPENAI_BASE_URL": model.url,
                "OPENAI_API_KEY": "none",
                "BRIEFCONTEXT_MODELS": "openai:scripted",
            }
            plain = {**keys, "BRIEFCONTEXT_DOCUMENTS": str(documents)}
            locked = {**plain, "BRIEFCONTEXT_TOKEN": TOKEN}
            for place, given in (("open", plain), ("locked", locked)):
                home = folder / f"{kind.__name__}-{place}"
                home.mkdir()
                server = starts[kind](home, clean_environment(**given))
                running.append(starting.submit(stack.enter_context, server))
        urls = [server.result() for server in running]
        starting.shutdown()
        doors = [
            kind(*urls[2 * n : 2 * n + 2], documents, models[n]) for n, kind in enumerate(DOORS)
        ]
        for door in doors:
            stack.enter_context(door.client)
        yield doors


@contextmanager
def _start(home: Path, environment: dict[str, str], *command: str) -> Iterator[str]:
    """Run a command that says its address, and yield that."""
    log = (home / "server.log").open("w+")
    arguments = ["-m", "briefcontext", *command, "--model", "openai:scripted", "--port", "0"]
    server = ForkedPython(arguments, cwd=home, env=environment, stderr=STDOUT)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            log.write(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            raise AssertionError(f"{command} did not start: {(home / 'server.log').read_text()}")
        reading = threading.Thread(target=lambda: log.writelines(server.stdout or []), daemon=True)
        reading.start()
        yield found[0]
    finally:
        server.terminate()
        server.wait(timeout=30)
        reading.join(timeout=30)
        server.stdout.close()
        log.close()


def _start_page(home: Path, environment: dict[str, str]) -> Any:
    return _start(home, environment, "serve", "--uploads")


def _start_mcp(home: Path, environment: dict[str, str]) -> Any:
    return _start(home, environment, "mcp", "--http", "--route", "map_reduce", "--top-k", "8")


def _start_langgraph(home: Path, environment: dict[str, str]) -> Any:
    return langgraph_dev(home, environment, "--n-jobs-per-worker", "10")


def _counted(statuses: Iterable[int]) -> str:
    return ", ".join(
        f"{status} ×{count}" if count > 1 else str(status)
        for status, count in Counter(statuses).items()
    )


def _refused(statuses: list[int], *expected: int) -> Outcome:
    return Outcome(_counted(statuses), bool(statuses) and set(statuses) <= set(expected))


def _headers(*given: dict[str, str]) -> Callable[[Door], Outcome]:
    """Ask with each of some headers."""

    def ask(door: Door) -> Outcome:
        return _refused([door.ask(headers=headers).status_code for headers in given], 403, 421)

    return ask


def _content(kind: str, content: bytes, status: int) -> Callable[[Door], Outcome]:
    """Send a body that is no JSON, and without an Origin."""

    def send(door: Door) -> Outcome:
        path, body = door.question()
        sent = content or json.dumps(body).encode()
        headers = {"Content-Type": kind} if kind else {}
        return _refused([door.post(path, content=sent, headers=headers).status_code], status)

    return send


def asked_properly(door: Door) -> Outcome:
    """No attack: somebody at this machine asks."""
    before = door.model.arrived
    held = door.answered()
    return Outcome(f"answered, {door.model.arrived - before} model calls", held)


def without_token(door: Door) -> Outcome:
    """Reach for every route without the token, with wrong ones, and with the right one where it does not count."""
    wrong = [
        {},
        *(
            {"Authorization": value}
            for value in ("", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}")
        ),
        *(
            {"Authorization": value}
            for value in (TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.upper()}")
        ),
        *({name: TOKEN} for name in ("Cookie", "X-Api-Key", "X-Auth-Token")),
        {"X-Auth-Scheme": "langsmith", "X-Api-Key": TOKEN},
    ]
    statuses = []
    for path in door.routes:
        url = f"{door.locked}{path}"
        statuses += [door.client.get(url, headers=headers).status_code for headers in wrong]
        statuses += [
            door.client.post(url, headers=headers, json={}).status_code for headers in wrong
        ]
        statuses += [
            door.client.delete(url).status_code,
            door.client.get(url, params={"token": TOKEN}).status_code,
        ]
    return _refused(statuses, 401)


def with_token(door: Door) -> Outcome:
    """No attack: somebody with the token, from wherever, asks nothing."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "elsewhere.example"}
    reply = door.ask("", url=door.locked, headers=headers)
    return Outcome(
        f"let in: {reply.status_code}, the question is empty", "The question is empty" in reply.text
    )


def paths(door: Door) -> Outcome:
    """Name each path that must not open, in whatever takes a name, and as an address."""
    files = {*door.folder.parent.rglob("*")}
    with ThreadPoolExecutor(8) as pool:
        replies = [
            reply
            for found in pool.map(lambda path: [*door.name_path(path)], PATHS)
            for reply in found
        ]
    opened = [
        reply for reply in replies if '"answer": {' in reply.text or '"answer":{' in reply.text
    ]
    addresses = asyncio.run(_all_raw(door, [f"GET /{quote(path)} HTTP/1.1" for path in PATHS]))
    leaks = [
        text
        for text in [*(reply.text for reply in replies), *addresses]
        for leak in LEAKS
        if leak in text
    ]
    made = [
        file
        for file in {*door.folder.parent.rglob("*")} - files
        if ".langgraph_api" not in file.parts
    ]
    piped = fifo_was_opened(door.folder)
    told = f"{len(PATHS)} paths, {len(replies) + len(addresses)} tries: {len(opened)} answered, {len(leaks)} told of, "
    return Outcome(f"{told}{len(made)} files made", not (opened or leaks or made or piped))


async def _raw(door: Door, head: str, body: bytes = b"", *, more: str = "", host: str = "") -> str:
    """Send a request as it is, and return the reply."""
    place = urlsplit(door.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    lines = f"{head}\r\nHost: {host or place.netloc}\r\nConnection: close\r\n{length}{more}\r\n"
    try:
        writer.write(lines.encode() + body)
        return (await asyncio.wait_for(reader.read(), PATIENCE)).decode(errors="replace")
    except ConnectionError:
        return ""
    finally:
        writer.close()


async def _all_raw(door: Door, heads: list[str], body: bytes = b"", *, more: str = "") -> list[str]:
    return await asyncio.gather(*(_raw(door, head, body, more=more) for head in heads))


def _posted(door: Door, text: str = QUESTION, **settings: Any) -> tuple[str, bytes, str]:
    """Return the head, the body and the headers of a question, to be sent raw."""
    path, body = door.question(text, **settings)
    headers = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    return f"POST {path} HTTP/1.1", json.dumps(body).encode(), headers


def large_bodies(door: Door) -> Outcome:
    """Send more than is taken: with its length told, and without."""
    asked, _ = door.question()
    kind = {"Content-Type": "application/json"}
    statuses = []
    for path, size in ((asked, 3 * 1024**2), (door.files or asked, 12 * 1024**2)):
        large = b'{"question": "' + b"x" * size + b'"}'
        for content in (
            large,
            (large[start : start + 65536] for start in range(0, len(large), 65536)),
        ):
            try:
                statuses.append(door.post(path, content=content, headers=kind).status_code)
            except httpx.TransportError:  # The server answered and hung up before all was sent.
                statuses.append(413)
    return _refused(statuses, 413)


def hostile_files(door: Door) -> Outcome:
    """Send files that would grow, that are none, and more at once than are taken; then a file to answer from."""
    if not door.files:
        return Outcome("takes no files", True)

    def send(name: str, content: bytes) -> httpx.Response:
        file = {"name": name, "content": b64encode(content).decode()}
        return door.post(door.files, {"question": QUESTION, "file": file})

    bomb = BytesIO()
    with ZipFile(bomb, "w", ZIP_DEFLATED) as parts:
        parts.writestr("word/document.xml", bytes(100 * 1024**2))
    entities = "".join(f'<!ENTITY {b} "{f"&{a};" * 100}">' for a, b in pairwise("abcdefghijklmz"))
    grows = f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{entities}]><x>&z;</x>'.encode()
    hostile = [
        ("a.docx", bomb.getvalue()),
        ("a.xml", grows),
        ("a.pdf", b"%PDF-1.7\n" + b"1 0 obj" * 10_000),
    ]
    statuses = [send(*file).status_code for file in hostile]
    with ThreadPoolExecutor(24) as pool:
        at_once = [reply.status_code for reply in pool.map(lambda _: send(*hostile[2]), range(24))]
    answered = "holds [1]" in send("trial.txt", b"Metformin is the first choice.").text
    told = f"{_counted(statuses)}; at once {_counted(sorted(at_once))}; then {'' if answered else 'not '}answered"
    return Outcome(told, {*statuses} == {400} and {*at_once} == {400} and answered)


def large_questions(door: Door) -> Outcome:
    """Ask at greater length than is taken, and for more documents."""
    before = door.model.arrived
    told = door.ask("x" * 20_001).text
    many = (
        door.post(*door.tool("search", query="x", top_k=129))
        if isinstance(door, MCP)
        else door.ask(top_k=129)
    )
    held = (
        "20,001" in told and re.search("at most 128|less than or equal to 1", many.text) is not None
    )
    return Outcome(
        f"both refused, {door.model.arrived - before} model calls",
        held and door.model.arrived == before,
    )


def connections(door: Door) -> Outcome:
    """Ask over 200 connections at once; then once more."""
    head, body, more = _posted(door, **MAPPED)
    replies = asyncio.run(_all_raw(door, [head] * 200, body, more=more))
    statuses = [int(reply.split()[1]) if reply else 0 for reply in replies]
    after = door.answered()
    told = f"{_counted(sorted(statuses))}; then {'answered' if after else 'not answered'}"
    return Outcome(told, {*statuses} == {200} and after)


def leaving(door: Door) -> Outcome:
    """Leave while the model is at work on every partition."""
    assert (
        door.answered()
    )  # The first call of a process finds out how the model is asked, and others wait for it.
    before = door.model.arrived
    head, body, more = _posted(door, f"{QUESTION} {HOLD}", **MAPPED)

    async def leave() -> None:
        place = urlsplit(door.url)
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        lines = f"{head}\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        writer.write(lines.encode() + body)
        await writer.drain()
        for _ in range(CALLS - 1):
            assert await asyncio.to_thread(door.held.acquire, timeout=PATIENCE), (
                "the model was not asked"
            )
        writer.close()

    asyncio.run(leave())
    dropped = sum(door.model.hung_up.acquire(timeout=PATIENCE / 2) for _ in range(CALLS - 1))
    again = door.answered()
    more_calls = (
        door.model.arrived - before - (CALLS - 1) - CALLS - 1
    )  # The last verifies the answer.
    told = f"{dropped} of {CALLS - 1} calls dropped, {more_calls} more made"
    return Outcome(told, again and dropped == CALLS - 1 and more_calls == 0)


def slow_bodies(door: Door) -> Outcome:
    """Send half of a question over 100 connections, and no more."""
    head, body, more = _posted(door)
    half = f"{more}Content-Length: {2 * len(body)}\r\n"

    async def hold() -> bool:
        place = urlsplit(door.url)
        streams = [await asyncio.open_connection(place.hostname, place.port) for _ in range(100)]
        for _, writer in streams:
            writer.write(f"{head}\r\nHost: {place.netloc}\r\n{half}\r\n".encode() + body)
            await writer.drain()
        answered = await asyncio.to_thread(door.answered)
        for _, writer in streams:
            writer.close()
        return answered

    meanwhile = asyncio.run(hold())
    return Outcome(
        "another is answered meanwhile" if meanwhile else "no other is answered", meanwhile
    )


def silent(door: Door) -> Outcome:
    """Hold 1,100 connections that say nothing; ask after a while."""

    async def hold() -> bool:
        place = urlsplit(door.url)
        streams = [await asyncio.open_connection(place.hostname, place.port) for _ in range(1100)]
        await asyncio.sleep(6)
        answered = await asyncio.to_thread(door.answered)
        for _, writer in streams:
            writer.close()
        return answered

    answered = asyncio.run(hold())
    return Outcome("another is answered" if answered else "no other is answered", answered)


def large_head(door: Door) -> Outcome:
    """Send one header of 200 MB."""

    async def send() -> int:
        place = urlsplit(door.url)
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: {place.netloc}\r\nX-Large: ".encode())
        sent = 0
        try:
            while sent < 200:
                writer.write(b"x" * 1024**2)
                await writer.drain()
                sent += 1
        except ConnectionError:
            pass
        writer.close()
        return sent

    sent = asyncio.run(send())
    answered = door.answered()
    held = answered and (sent < 100 or isinstance(door, LangGraph))
    return Outcome(f"cut off after {sent} MB; then {'' if answered else 'not '}answered", held)


UNSERVED = (
    *(
        "/internal/truncate",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/store/items",
        "/ui/briefcontext",
    ),
    *("/threads/prune", "/runs/crons", "/runs/cancel", "/mcp", "/a2a/x", "/noauth/ok", "/nothing"),
)


def unserved(door: Door) -> Outcome:
    """Reach for routes that are not served, in every spelling."""
    if not isinstance(door, LangGraph):
        return Outcome("has no such routes", True)
    heads = []
    for path in UNSERVED:
        encoded = "/" + "".join(f"%{ord(letter):02x}" for letter in path[1:])
        spellings = (
            path,
            f"{path}/",
            path.upper(),
            encoded,
            f"/{path}",
            f"/.{path}",
            f"/ok/..{path}",
            f"{path}?x=1",
        )
        heads += [f"{way} {spelling} HTTP/1.1" for spelling in spellings for way in ("GET", "POST")]
    more = "Content-Type: application/json\r\n"
    replies = asyncio.run(_all_raw(door, heads, b"{}", more=more))
    return _refused([int(reply.split()[1]) if reply else 0 for reply in replies], 403)


def slow_heads(door: Door) -> Outcome:
    """Hold 100 connections with half a header on each, and some that ask and never read."""
    head, body, more = _posted(door)

    async def hold() -> bool:
        place = urlsplit(door.url)
        streams = [
            await asyncio.open_connection(place.hostname, place.port, limit=1) for _ in range(104)
        ]
        for number, (_, writer) in enumerate(streams):
            start = f"{head}\r\nHost: {place.netloc}\r\n"
            rest = (
                f"Content-Length: {len(body)}\r\n{more}\r\n".encode() + body
                if number < 4
                else b"X-Slow: "
            )
            writer.write(start.encode() + rest)
            await writer.drain()
        answered = await asyncio.to_thread(door.answered)
        for _, writer in streams:
            writer.close()
        return answered

    meanwhile = asyncio.run(hold())
    return Outcome(
        "another is answered meanwhile" if meanwhile else "nobody else is answered", meanwhile
    )


def no_websocket(door: Door) -> Outcome:
    """Ask for a WebSocket, which no browser keeps from other sites."""
    upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    reply = asyncio.run(_upgrade(door, f"Connection: Upgrade\r\n{upgrade}"))
    return _refused([int(reply.split()[1])], 400, 403, 404, 426)


async def _upgrade(door: Door, headers: str) -> str:
    place = urlsplit(door.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    path = f"/threads/{'0' * 8}-0000-4000-8000-{'0' * 12}/stream/events"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n{headers}\r\n".encode())
    reply = (await asyncio.wait_for(reader.readline(), PATIENCE)).decode()
    writer.close()
    return reply


HOSTS = (
    "attacker.example",
    "127.0.0.1.attacker.example",
    "localhost.attacker.example",
    "192.168.1.5:8000",
    "[",
    "0.0.0.0",
)
ORIGINS = (
    "https://attacker.example",
    "null",
    "http://127.0.0.1:1",
    "https://localhost.attacker.example",
    "file://",
)
ATTACKS: dict[str, Callable[[Door], Outcome]] = {
    "none: asked properly": asked_properly,
    "foreign Host": _headers(*({"Host": host} for host in HOSTS)),
    "foreign Origin": _headers(*({"Origin": origin} for origin in ORIGINS)),
    "another site's page": _headers(
        *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site"))
    ),
    "through a proxy": _headers({"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}),
    "text/plain without Origin": _content("text/plain", b"", 415),
    "a form without Origin": _content("application/x-www-form-urlencoded", b"question=x", 415),
    "no type without Origin": _content("", b"", 415),
    "a WebSocket": no_websocket,
    "no token, and wrong ones": without_token,
    "none: with the token": with_token,
    "paths that must not open": paths,
    "bodies too large": large_bodies,
    "hostile files": hostile_files,
    "questions too large": large_questions,
    "200 connections at once": connections,
    "a client that leaves": leaving,
    "slow bodies": slow_bodies,
    "slow heads, slow readers": slow_heads,
    "1,100 silent connections": silent,
    "a header of 200 MB": large_head,
    "routes that are not served": unserved,
}
"""By name, what is done to a door; those that begin with "none" are no attacks, and must get through."""


def attack(name: str, doors: list[Door]) -> dict[str, Outcome]:
    """Try one attack on all doors at the same time, and return what came of it by door."""
    with ThreadPoolExecutor(len(doors)) as pool:
        return dict(zip([door.name for door in doors], pool.map(ATTACKS[name], doors), strict=True))


def main() -> None:
    """Print door by attack by result; exit with 1 if one did not hold."""
    failed = False
    with TemporaryDirectory() as folder, open_doors(Path(folder)) as doors:
        sys.stdout.write(
            f"| attack | {' | '.join(door.name for door in doors)} |\n|---|{'---|' * len(doors)}\n"
        )
        for name in ATTACKS:
            outcomes = attack(name, doors).values()
            told = " | ".join(
                f"{'' if outcome.held else 'NOT HELD: '}{outcome.happened}" for outcome in outcomes
            )
            sys.stdout.write(f"| {name} | {told} |\n")
            sys.stdout.flush()
            failed |= not all(outcome.held for outcome in outcomes)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
