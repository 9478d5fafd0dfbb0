"""What a run tells while it works, and that it never hangs, however it is streamed."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import ConfigDict, TypeAdapter, with_config

from briefcontext.chains.reader import Reader, extraction_of
from briefcontext.errors import ModelCallError
from briefcontext.graphs import events as typed
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.forked_python import run_forked
from tests.openai_server import Call, OpenAIServer, Reply, faithful, serve

ASKED: Any = {"question": QUESTION}
NO_RETRIES = Settings(max_retries=0)
NOTHING_ELSE = dict.fromkeys(("partly", "contradicted", "not_stated"), 0)
LABELS = typed.Event.__args__

Collect = Callable[[Any, Settings], list[Any]]


def _stream(built: Any, context: Settings) -> list[Any]:
    return list(built.stream(ASKED, context=context, stream_mode="custom"))


def _astream(built: Any, context: Settings) -> list[Any]:
    async def collect() -> list[Any]:
        return [
            event async for event in built.astream(ASKED, context=context, stream_mode="custom")
        ]

    return asyncio.run(collect())


@pytest.fixture(params=[_stream, _astream], ids=["stream", "astream"])
def collect(request: pytest.FixtureRequest) -> Collect:
    """Stream a run, either way, and return its events; each is checked against its type and is JSON."""
    adapters = {
        label.__name__: TypeAdapter(with_config(ConfigDict(extra="forbid", strict=True))(label))
        for label in LABELS
    }

    def collected(built: Any, context: Settings) -> list[Any]:
        found: list[Any] = request.param(built, context)
        for event in found:
            name = "".join(word.capitalize() for word in event["event"].split("_"))
            assert adapters[name].validate_python(event) == event
            assert json.loads(json.dumps(event)) == event
        return found

    return collected


def _of_partitions(found: list[Any]) -> list[Any]:
    return sorted(
        (e for e in found if e["event"].startswith("partition_")),
        key=lambda e: (e["index"], e["event"] != "partition_started"),
    )


@pytest.mark.parametrize("route", ["vanilla", "order_preserving"])
def test_one_call_tells_of_documents_route_and_answer(
    route: Any, collect: Collect, chat_model: ChatOpenAI, agreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=agreeing)
    assert collect(built, Settings(fallback=route)) == [
        {"event": "retrieved", "documents": 16},
        {
            "event": "route_decided",
            "route": route,
            "reason": "the overlap of the two top 3 is 1.00, above 0.20: the rankings agree",
            "iou": 1.0,
        },
        {"event": "answering", "documents": 16},
        {"event": "verifying", "sentences": 16},
        {"event": "verified", "sentences": 16, "supported": 16, **NOTHING_ELSE},
        {"event": "answered", "abstained": False, "citations": 16, "calls": 2},
    ]


def test_nothing_retrieved_tells_of_an_abstention(collect: Collect, chat_model: ChatOpenAI) -> None:
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=[]))
    assert collect(built, Settings()) == [
        {"event": "retrieved", "documents": 0},
        {
            "event": "route_decided",
            "route": "abstain",
            "reason": "nothing was retrieved",
            "iou": None,
        },
        {"event": "answered", "abstained": True, "citations": 0, "calls": 0},
    ]


def test_map_and_reduce_tell_of_every_partition(
    collect: Collect, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    def mixed(call: Call) -> Reply:
        if call.stage == "extract" and "number 4 " in call.prompt:
            return Reply(json.dumps({"relevant": False}))
        if call.stage == "extract" and "number 12 " in call.prompt:
            return Reply("no longer", status=500)
        return faithful(call)

    server.script = mixed
    disagreeing.documents = disagreeing.documents[:14]
    found = collect(build_graph(model=chat_model, retriever=disagreeing), NO_RETRIES)
    assert found[:2] == [
        {"event": "retrieved", "documents": 14},
        {
            "event": "route_decided",
            "route": "map_reduce",
            "reason": "the overlap of the two top 3 is 0.00, not above 0.20: the rankings disagree",
            "iou": 0.0,
        },
    ]
    assert found[-4:] == [
        {"event": "reducing", "evidence": 2},
        {"event": "verifying", "sentences": 8},
        {"event": "verified", "sentences": 8, "supported": 8, **NOTHING_ELSE},
        {"event": "answered", "abstained": False, "citations": 8, "calls": 6},
    ]
    started = {"event": "partition_started", "partitions": 4}
    done = {"event": "partition_done", "partitions": 4}
    *others, last = _of_partitions(found)
    assert others == [
        {**started, "index": 0, "documents": 4},
        {**done, "index": 0, "status": "evidence", "quotes": 4},
        {**started, "index": 1, "documents": 4},
        {**done, "index": 1, "status": "none", "quotes": 0},
        {**started, "index": 2, "documents": 4},
        {**done, "index": 2, "status": "evidence", "quotes": 4},
        {**started, "index": 3, "documents": 2},
    ]
    assert "no longer" in last.pop("error")
    assert last == {"event": "partition_failed", "index": 3, "partitions": 4}
    assert len(found) == 14
    order = [(event["event"], event.get("index")) for event in found]
    for index, end in enumerate(
        ["partition_done", "partition_done", "partition_done", "partition_failed"]
    ):
        assert order.index(("partition_started", index)) < order.index((end, index))


def test_every_partition_starts_before_any_is_done(
    collect: Collect, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.together = 4
    found = collect(build_graph(model=chat_model, retriever=disagreeing), NO_RETRIES)
    names = [event["event"] for event in found]
    assert names[2:-4] == ["partition_started"] * 4 + ["partition_done"] * 4


class SilentReader(Reader):
    """Reads, and finds nothing."""

    name = "silent"

    async def aextract(self, question: Any, documents: Any, index: int, budget: Any) -> Any:
        return extraction_of(index, documents, "none")

    def vanilla_characters(self, question: Any, documents: Any) -> None:
        return None


def test_nothing_relevant_is_answered_without_reducing(
    collect: Collect, disagreeing: FixedRetriever
) -> None:
    reader = SilentReader()  # type: ignore[abstract]
    found = collect(build_graph(reader=reader, retriever=disagreeing), Settings())
    assert [event["event"] for event in found[-2:]] == ["partition_done", "answered"]
    assert found[-1] == {"event": "answered", "abstained": True, "citations": 0, "calls": 0}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failure_that_stops_the_run_comes_after_what_was_told(
    asynchronous: bool, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply(status=500)
    built = build_graph(model=chat_model, retriever=disagreeing)
    context = Settings(max_retries=0)
    told: list[Any] = []

    async def listen() -> None:
        async for event in built.astream(ASKED, context=context, stream_mode="custom"):
            told.append(event)

    def wait() -> None:
        for event in built.stream(ASKED, context=context, stream_mode="custom"):
            told.append(event)

    with pytest.raises(ModelCallError):
        asyncio.run(listen()) if asynchronous else wait()
    names = [event["event"] for event in told]
    assert names[:3] == ["retrieved", "route_decided", "partition_started"]
    assert "answered" not in names


MODES: list[Any] = [
    *(["values"], ["updates"], ["custom"], ["messages"], ["debug"], ["tasks"]),
    *(
        ["custom", "updates"],
        ["values", "messages", "custom"],
        ["values", "updates", "custom", "messages", "debug", "tasks"],
    ),
]
IN_FLIGHT = [1, 2, 32]
PARTITIONS = [1, 4, 64]
# Every two values of any two parameters meet in one of these.
COMBINATIONS = [
    (bool((i + j) % 2), MODES[i], IN_FLIGHT[j], PARTITIONS[(i + j) % 3])
    for i, j in itertools.product(range(len(MODES)), range(len(IN_FLIGHT)))
]


def test_the_combinations_cover_every_pair() -> None:
    parameters: list[list[Any]] = [[False, True], MODES, IN_FLIGHT, PARTITIONS]
    for a, b in itertools.combinations(range(4), 2):
        pairs = [[combination[a], combination[b]] for combination in COMBINATIONS]
        assert all([x, y] in pairs for x, y in itertools.product(parameters[a], parameters[b]))


def _short(call: Call) -> Reply:
    return Reply("So it is.") if call.stage == "reduce" else faithful(call)


@pytest.fixture(scope="module")
def streamed() -> Iterator[list[Any]]:
    """What each combination streamed, up to the first that hung."""
    with serve() as server:
        server.script = _short
        done = run_forked(["-m", "tests.streamed_runs", server.url, json.dumps(COMBINATIONS)])
        yield [*map(json.loads, done.stdout.splitlines()), done.stderr[-4000:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", range(len(COMBINATIONS)), ids=lambda place: str(COMBINATIONS[place])
)
def test_no_way_to_stream_hangs(place: int, streamed: list[Any]) -> None:
    _, modes, _, partitions = COMBINATIONS[place]
    *summaries, errors = streamed
    assert place < len(summaries), errors
    summary = summaries[place]
    assert set(summary["parts"]) == set(modes)
    if "custom" in modes:
        assert summary["events"] == {
            **dict.fromkeys(["retrieved", "route_decided", "reducing", "answered"], 1),
            **dict.fromkeys(["partition_started", "partition_done"], partitions),
        }
    if "updates" in modes:
        assert summary["updates"] == {
            **dict.fromkeys(["retrieve", "preflight", "map_fanout", "reduce", "verify"], 1),
            "extract": partitions,
        }
    if "messages" in modes:
        assert summary["text"] == "So it is."
    if "values" in modes:
        assert summary["extractions"] == partitions
