"""The MCP server, spoken to by the SDK's own client over stdio and over HTTP."""

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from briefcontext.graphs.graph import graph
from briefcontext.graphs.settings import Settings
from briefcontext.mcp_server import build_server
from tests.command_line import command_line
from tests.forked_python import ForkedPython
from tests.loopback import PATIENCE
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


@pytest.mark.slow
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
    progress_calls: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        progress_calls.append((progress, total, message))

    async with connect("--route", "map_reduce", "--top-k", "8") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answered = await client.call_tool("ask", {"question": QUESTION}, progress_callback=tell)
        found = await client.call_tool("search", {"query": QUESTION, "top_k": 3})
        fetched = await client.call_tool("fetch_source", {"source_id": "demo-type-2-diabetes-01"})

    assert sorted(tools) == ["ask", "fetch_source", "search"]
    assert all(tool.description and tool.output_schema for tool in tools.values())

    answer: Any = answered.structured_content
    assert set(answer) == set(graph.invoke({"question": QUESTION})["answer"])
    assert answer["route"] == "map_reduce"
    assert "Sources:\n[1] " in _text(answered)

    assert [progress for progress, _, _ in progress_calls] == list(range(1, 9))
    assert all(message for _, _, message in progress_calls)

    passages: Any = found.structured_content
    assert [passage["rank"] for passage in passages["passages"]] == [1, 2, 3]
    assert "demo-type-2-diabetes-01" in [passage["source_id"] for passage in passages["passages"]]

    whole: Any = fetched.structured_content
    [passage] = whole["passages"]
    assert passage["text"].startswith("Metformin is the usual first-choice drug")
    assert "Demonstration text, not literature" in _text(fetched)
    quotes = [c for c in answer["citations"] if c["source_id"] == passage["source_id"]]
    assert all(passage["text"][c["source_start"] : c["source_end"]] == c["quote"] for c in quotes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("ask", {"question": "  "}, "empty"),
        (
            "ask",
            {},
            "question: Field required",
        ),
        ("search", {"query": QUESTION, "top_k": 0}, "greater than or equal to 1"),
        ("search", {"query": QUESTION, "filters": {"years": "then"}}, "years"),
        ("fetch_source", {"source_id": "no-such"}, "no source 'no-such'"),
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


def test_a_missing_package_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mcp", None)
    code, out, err = command_line(monkeypatch, capsys)("mcp")
    assert (code, out) == (2, "")
    assert "pip install 'briefcontext[mcp]'" in err
