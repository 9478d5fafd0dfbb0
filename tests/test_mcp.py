"""The MCP server, spoken to by the SDK's own client over stdio and over HTTP."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from briefcontext.graphs.graph import graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.store.filters import WIDEN
from briefcontext.mcp_server import build_server
from tests.command_line import command_line
from tests.forked_python import ForkedPython, run_forked
from tests.loopback import PATIENCE
from tests.openai_server import OpenAIServer, Reply, faithful
from tests.studio_server import clean_environment

QUESTION = "Which drug is first choice for type 2 diabetes?"
COMMAND = ["-m", "briefcontext", "mcp"]

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def _over_stdio(*options: str, **environment: str) -> AsyncIterator[Client]:
    arguments = [*COMMAND, *options]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=clean_environment(**environment)
    )
    async with Client(server) as client:
        yield client


@contextmanager
def _serving(*options: str, **environment: str) -> Iterator[str]:
    """Run the HTTP server, and yield its URL, which it says on standard error."""
    command = [*COMMAND, "--http", "--port", "0", *options]
    with ForkedPython(command, env=clean_environment(**environment)) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        found = re.fullmatch(r"MCP at (http://127\.0\.0\.1:\d+/mcp)\n", said)
        assert found, said + server.stderr.read()
        yield found[1]
        server.terminate()
        server.wait(PATIENCE)


@asynccontextmanager
async def _over_http(*options: str, **environment: str) -> AsyncIterator[Client]:
    with _serving(*options, **environment) as url:
        async with Client(url) as client:
            yield client


@pytest.fixture(params=[_over_stdio, _over_http], ids=["stdio", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    found: Connect = request.param
    return found


def _text(result: Any) -> str:
    [content] = result.content
    return str(content.text)


async def test_a_long_document_is_answered_from_and_fetched_in_pages(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text(
        "Report\n\n" + "Zinc lozenges shortened a common cold by about a day in this report. " * 60
    )
    async with Client(
        build_server(Settings(document=str(path), route="order_preserving"))
    ) as client:
        answered = await client.call_tool("ask", {"question": "Does zinc shorten the common cold?"})
        answer: Any = answered.structured_content
        source = answer["citations"][0]["source_id"]
        pages: list[Any] = []
        while not pages or pages[-1]["left_out"]:
            first = sum(len(page["passages"]) for page in pages)
            asked = {"source_id": source, "first": first, "limit": 2}
            pages.append((await client.call_tool("fetch_source", asked)).structured_content)
    assert answer["route"] == "order_preserving"
    assert len(pages) > 2
    assert (
        "".join(passage["text"] for page in pages for passage in page["passages"])
        == path.read_text()
    )


@pytest.mark.slow
async def test_a_session(connect: Connect) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with connect("--route", "map_reduce", "--top-k", "8") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answered = await client.call_tool("ask", {"question": QUESTION}, progress_callback=tell)
        found = await client.call_tool("search", {"query": QUESTION, "top_k": 3})
        fetched = await client.call_tool("fetch_source", {"source_id": "demo-type-2-diabetes-01"})

    assert sorted(tools) == ["ask", "fetch_source", "search"]
    assert all(tool.description and tool.output_schema for tool in tools.values())
    assert tools["ask"].input_schema["required"] == ["question"]
    assert "description" in tools["ask"].input_schema["properties"]["question"]

    answer: Any = answered.structured_content
    assert set(answer) == set(graph.invoke({"question": QUESTION})["answer"])
    assert answer["route"] == "map_reduce"
    assert [extraction["index"] for extraction in answer["extractions"]] == [0, 1]
    assert _text(answered).startswith(answer["text"])
    assert "Sources:\n[1] " in _text(answered)

    assert [progress for progress, _, _ in told] == list(range(1, 9))
    assert all(message for _, _, message in told)

    passages: Any = found.structured_content
    assert [passage["rank"] for passage in passages["passages"]] == [1, 2, 3]
    assert "demo-type-2-diabetes-01" in [passage["source_id"] for passage in passages["passages"]]

    whole: Any = fetched.structured_content
    [passage] = whole["passages"]
    assert passage["text"].startswith("Metformin is the usual first-choice drug")
    assert (passage["start"], passage["end"]) == (0, len(passage["text"]))
    assert passage["text"] in _text(fetched)
    assert all(
        each["notes"] == ["Demonstration text, not literature"] for each in passages["passages"]
    )
    assert _text(found).count("Demonstration text, not literature") == len(passages["passages"])
    assert "Demonstration text, not literature" in _text(fetched)
    quotes = [c for c in answer["citations"] if c["source_id"] == passage["source_id"]]
    assert all(passage["text"][c["source_start"] : c["source_end"]] == c["quote"] for c in quotes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("ask", {"question": "  "}, "The question is empty. Ask one"),
        ("ask", {"question": QUESTION, "options": {"A": "yes"}}, "at least two options"),
        (
            "ask",
            {"question": QUESTION, "options": {"A": "yes" * 4_000, "B": "no" * 4_001}},
            "20,002 characters",
        ),
        (
            "ask",
            {},
            "The arguments cannot be used: question: Field required. Call the tool again with "
            "others.",
        ),
        (
            "search",
            {"query": "x" * 20_001},
            "The arguments cannot be used: query: String should have at most",
        ),
        ("search", {"query": QUESTION, "top_k": 0}, "greater than or equal to 1"),
        ("search", {"query": QUESTION, "filters": {"years": "then"}}, "years"),
        ("ask", {"question": QUESTION, "filters": {"years": "then"}}, "years"),
        ("fetch_source", {"source_id": "no-such"}, "holds no source 'no-such': check the id."),
    ],
)
async def test_an_error_says_what_is_wrong(
    tool: str, arguments: dict[str, Any], message: str, served: str
) -> None:
    async with Client(served) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert message in _text(result)
    assert "\n" not in _text(result)


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with _serving() as url:
        yield url


async def test_a_client_may_ask_and_search_by_filters(tmp_path: Path) -> None:
    rows = [
        {"id": f"{year}", "text": "Aspirin helps in stroke.", "year": year}
        for year in range(2000, 2012)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    kb = tmp_path / "kb"
    build_knowledge_base(open_sources(tmp_path / "rows.jsonl"), kb, encoder=load_encoder("minilm"))
    asked = {"filters": {"years": "2003-2005"}}
    async with Client(build_server(Settings(knowledge_base=str(kb)))) as client:
        found = await client.call_tool("search", {"query": "aspirin", "top_k": 5, **asked})
        answered = await client.call_tool(
            "ask", {"question": "Does aspirin help in stroke?", **asked}
        )
        none = await client.call_tool("search", {"query": "aspirin", "filters": {"years": "1990"}})
    assert _text(none) == f"No passage fulfils the filters (year 1990). {WIDEN}"
    years = {"2003", "2004", "2005"}
    assert {passage["id"] for passage in found.structured_content["passages"]} == years  # type: ignore[index]
    assert (
        set()
        < {citation["source_id"] for citation in answered.structured_content["citations"]}
        <= years
    )  # type: ignore[index]


@pytest.mark.parametrize(
    ("tool", "arguments", "unknown"),
    [
        ("ask", {"question": QUESTION, "years": "2015-"}, "'years' of ask"),
        ("search", {"query": QUESTION, "filters": {"year": 2015}}, "filters.year"),
        ("fetch_source", {"source_id": "1", "page": 2}, "'page' of fetch_source"),
    ],
)
async def test_unknown_arguments_are_refused(
    tool: str, arguments: dict[str, Any], unknown: str
) -> None:
    async with Client(build_server(Settings())) as client:
        refused = await client.call_tool(tool, arguments)
        tools = (await client.list_tools()).tools
    assert refused.is_error
    assert unknown in _text(refused)
    assert [each.input_schema["additionalProperties"] for each in tools] == [False] * 3


async def test_numbers_are_taken_for_ids_and_years_and_null_for_empty_lists() -> None:
    async with Client(build_server(Settings())) as client:
        fetched = await client.call_tool("fetch_source", {"source_id": 123})
        none = await client.call_tool(
            "search", {"query": "metformin", "filters": {"years": 1990, "mesh": None}}
        )
        found = await client.call_tool(
            "search", {"query": "metformin", "filters": {"journals": None, "mesh": None}}
        )
    assert "no source '123'" in _text(fetched)
    assert "year 1990" in _text(none)
    assert found.structured_content["passages"]  # type: ignore[index]


async def test_a_model_answers_and_its_failure_is_told(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings = Settings(model="openai:scripted", route="vanilla", top_k=2)
    async with Client(build_server(settings)) as client:
        answered = await client.call_tool("ask", {"question": QUESTION})
        server.script = lambda call: Reply("no such model", status=404)
        failed = await client.call_tool("ask", {"question": QUESTION})
    answer: Any = answered.structured_content
    assert answer["usage"]["calls"] == 2
    assert answer["text"].startswith("Point holds [1].")
    assert failed.is_error
    assert "no such model" in _text(failed)
    assert faithful(server.calls[0]).status == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-k", "0"], "Error: --top-k 0: "),
        (["--kb", "nowhere"], "Error: There is no knowledge base at nowhere: build one with "),
        (["--document", "nowhere.txt"], "Error: There is no file nowhere.txt."),
        (["--model", "nobody"], "Error: Model 'nobody' does not name its provider."),
        (["--http", "--host", "192.0.2.1"], "Error: 192.0.2.1:8765 cannot be listened on"),
    ],
)
def test_bad_options_end_with_one_line(options: list[str], message: str) -> None:
    done = run_forked([*COMMAND, *options], env=clean_environment())
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.slow
def test_standard_output_carries_nothing_but_the_protocol() -> None:
    command, environment = [sys.executable, *COMMAND], clean_environment()
    done = subprocess.run(
        command,
        input="",
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == ""


def test_a_missing_package_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mcp", None)
    code, out, err = command_line(monkeypatch, capsys)("mcp")
    assert (code, out) == (2, "")
    assert "pip install 'briefcontext[mcp]'" in err


@pytest.mark.slow
async def test_another_sites_page_cannot_call_it(served: str) -> None:
    import httpx

    async with httpx.AsyncClient(trust_env=False) as client:
        answered = await client.post(
            served, json={}, headers={"Host": "evil.example", "Origin": "http://evil.example"}
        )
    assert answered.status_code in (403, 421)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_id", "method", "params"),
    [
        (2, "tools/call", {"name": "ask", "arguments": {"question": "Is it \ud800 so?"}}),
        (2, "tools/call", {"name": "search", "arguments": {"query": "\udfff dose"}}),
        (2, "tools/\ud800", {}),
        ("2\ud800", "tools/list", {}),
    ],
)
def test_a_request_with_a_lone_surrogate_gets_a_reply(
    request_id: Any, method: str, params: dict[str, Any]
) -> None:
    about = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    requests = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **about}},
        {"method": "notifications/initialized"},
        {"id": request_id, "method": method, "params": params},
    ]
    server = Popen(
        [sys.executable, "-m", "briefcontext", "mcp"], stdin=PIPE, stdout=PIPE, text=True
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        for request in requests:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
        server.stdin.flush()
        replies = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.kill()
    assert str(replies[1]["id"]).startswith("2")
