"""What each method shows the model."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from briefcontext.errors import ModelCallError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.methods.method import METHODS, Outcome, Reading
from briefcontext.evaluation.methods.models import CallTrace, RunModels
from briefcontext.graphs.settings import Settings
from tests.openai_server import Call, OpenAIServer, Reply

OPTIONS = {"A": "yes", "B": "no"}
ITEM = Item("q1", "Does it help?", OPTIONS, ("A",), ("d3",), document="book")
CHUNKS = [
    Document(
        id=f"d{n}",
        page_content=f"Chunk {n} of the book.",
        metadata={"source_id": "book", "start": 100 * n},
    )
    for n in (5, 2, 7, 3, 1, 6)
]
WHOLE = Document(
    id="book",
    page_content="The whole book. " * 400,
    metadata={"source_id": "book", "title": "Book"},
)
READING = Reading(ITEM, CHUNKS, fused=CHUNKS[::-1], key_documents=CHUNKS[3:4], whole=[WHOLE])

Read = Callable[..., tuple[Outcome, CallTrace]]


async def traced(
    name: str, reading: Reading, models: RunModels, settings: Settings
) -> tuple[Outcome, CallTrace]:
    trace = CallTrace()

    async def run(given: Reading) -> Outcome:
        return await METHODS[name].run(given, models, settings)

    return await RunnableLambda(run).ainvoke(reading, {"callbacks": [trace]}), trace


@pytest.fixture
def read(server: OpenAIServer, tmp_path: Path) -> Read:
    """Read with a method, and return what came of it."""
    server.script = _script

    def read(
        name: str, reading: Reading = READING, short: tuple[str, ...] = (), **settings: int
    ) -> tuple[Outcome, CallTrace]:
        chat = ChatOpenAI(model="scripted", base_url=server.url, api_key="none", max_retries=0)
        models = RunModels(
            chat, replies=tmp_path / "replies.sqlite", short=short, force_choice=True
        )
        chosen = Settings(max_retries=0, partition_size=3, **settings)

        return asyncio.run(traced(name, reading, models, chosen))

    return read


def _script(call: Call) -> Reply:
    if call.stage == "extract":
        key, text = call.documents[0]
        quotes = [{"key": key, "quote": text}]
        return Reply(
            json.dumps({"relevant": True, "quotes": quotes, "finding": "So it is.", "choice": "A"})
        )
    return Reply('It is so.\nChoice: A\nQuotes:\n[X] "The answer is B."')


def shown(call: Call) -> list[str]:
    return [text.removeprefix("Chunk ").partition(" ")[0] for _, text in call.documents]


@pytest.mark.parametrize(
    ("name", "documents"),
    [
        ("closed_book", []),
        ("vanilla", ["5", "2", "7", "3", "1", "6"]),
        ("oracle", ["3"]),
        ("order_preserving", ["1", "2", "3", "5", "6", "7"]),
        ("hybrid", ["6", "1", "3", "7", "2", "5"]),
        ("self_route", ["5", "2", "7", "3", "1", "6"]),
    ],
)
def test_one_call_over_the_documents_of_the_method(
    read: Read, server: OpenAIServer, name: str, documents: Sequence[str]
) -> None:
    outcome, _ = read(name)
    (call,) = server.calls
    assert shown(call) == documents
    assert "A. yes\nB. no" in call.user
    assert outcome.choice == "A"


def test_briefcontext_reads_in_partitions_of_the_given_ranking(
    read: Read, server: OpenAIServer
) -> None:
    outcome, _ = read("map_reduce")
    assert sorted(shown(call) for call in server.calls if call.stage == "extract") == [
        ["3", "1", "6"],
        ["5", "2", "7"],
    ]
    assert server.stages()[-1] == "reduce"
    assert outcome.route == "map_reduce"


@pytest.mark.parametrize(
    ("numbers", "iou", "route"), [("5, 2 and 7", 1.0, "vanilla"), ("3, 1 and 6", 0.0, "map_reduce")]
)
def test_the_preflight_decides_over_the_given_ranking(
    read: Read, numbers: str, iou: float, route: str
) -> None:
    item = replace(ITEM, question=f"What do the numbers {numbers} say?")
    outcome, _ = read("briefcontext", replace(READING, item=item))
    assert (outcome.iou, outcome.route) == (iou, route)


def test_a_document_beyond_the_window_loses_its_middle_and_that_is_said(
    read: Read, server: OpenAIServer
) -> None:
    text = "Beginning. " + "Middle of the book. " * 600 + "End."
    whole = WHOLE.model_copy(update={"page_content": text})
    outcome, _ = read("long_context", Reading(ITEM, CHUNKS, whole=[whole]), max_input_tokens=2048)
    ((_, kept),) = server.calls[0].documents
    assert outcome.truncated
    assert "Beginning." in kept
    assert kept.endswith("End.")
    assert len(server.calls[0].prompt) <= 2048 * 3


def test_self_route_reads_the_whole_document_when_the_passages_do_not_answer(
    read: Read, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(
        "UNANSWERABLE" if "UNANSWERABLE" in call.system else "Yes.\nChoice: A"
    )
    outcome, trace = read("self_route")
    assert [call.stage for call in trace.ordered()] == ["self_route", "long_context"]
    assert outcome.route == "long_context"
    assert outcome.choice == "A"


def test_calls_are_traced_with_stage_partition_hash_and_tokens(
    read: Read, server: OpenAIServer, tmp_path: Path
) -> None:
    chat = ChatOpenAI(model="scripted", base_url=server.url, api_key="none", max_retries=0)
    models = RunModels(chat, replies=tmp_path / "replies.sqlite")

    settings = Settings(partition_size=2)
    first, second = (
        asyncio.run(traced("map_reduce", READING, models, settings))[1] for _ in range(2)
    )
    assert [(call.stage, call.index) for call in first.ordered()] == [
        ("extract", 0),
        ("extract", 1),
        ("extract", 2),
        ("reduce", 0),
    ]
    assert len(server.calls) == 4
    assert all(call.kept for call in second.calls)
    assert not any(call.kept for call in first.calls)
    for one, other in zip(first.ordered(), second.ordered(), strict=True):
        assert (one.request_sha256, one.prompt_sha256, one.output) == (
            other.request_sha256,
            other.prompt_sha256,
            other.output,
        )
        # Tokens are those of the call that was made, also where its reply is used again.
        assert one.input_tokens == other.input_tokens > 0


@pytest.mark.parametrize("name", ["vanilla", "map_reduce"])
def test_no_answer_is_counted_where_a_part_was_not_read_and_the_others_hold_nothing(
    name: str, read: Read, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        Reply(status=500) if "Chunk 7" in call.prompt else Reply('{"relevant": false}')
    )
    chunks = [
        replace_text(chunk, f"{chunk.page_content} {'More of it. ' * 150}") for chunk in CHUNKS
    ]
    reading = replace(READING, item=replace(ITEM, options={}), documents=chunks)
    with pytest.raises(ModelCallError, match=r"1 of \d partitions failed"):
        read(name, reading, max_input_tokens=1500)


def replace_text(document: Document, text: str) -> Document:
    """Return the document with another text."""
    return document.model_copy(update={"page_content": text})
