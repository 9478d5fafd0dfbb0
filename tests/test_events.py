"""The events that a run streams."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import ConfigDict, TypeAdapter, with_config

from briefcontext.errors import ModelCallError
from briefcontext.graphs import events as typed
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply, faithful

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
    """Stream a run and return its events, each valid for its type and as JSON."""
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
def test_one_call_streams_documents_route_and_answer(
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


def test_the_map_streams_events_of_each_partition(
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
    assert [event["event"] for event in found[:2]] == ["retrieved", "route_decided"]
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


@pytest.mark.parametrize("asynchronous", [False, True])
def test_events_before_a_failure_are_streamed(
    asynchronous: bool, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply(status=500)
    built = build_graph(model=chat_model, retriever=disagreeing)
    context = Settings(max_retries=0)
    received: list[Any] = []

    async def listen() -> None:
        async for event in built.astream(ASKED, context=context, stream_mode="custom"):
            received.append(event)

    def wait() -> None:
        for event in built.stream(ASKED, context=context, stream_mode="custom"):
            received.append(event)

    with pytest.raises(ModelCallError):
        asyncio.run(listen()) if asynchronous else wait()
    names = [event["event"] for event in received]
    assert names[:3] == ["retrieved", "route_decided", "partition_started"]
    assert "answered" not in names
