"""Finding out how a model takes requests for structured output, in the first fan-out of a process."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model import call
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.errors import ModelCallError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply, faithful

WAYS = ["json_schema", "function_calling", "json_mode", "text"]
DOCUMENTS = assign_keys(QUESTION, make_documents(4, about=0))
ASKED: Any = {"question": QUESTION}

_names = (f"new-{number}" for number in itertools.count())


@pytest.fixture
def chat(server: OpenAIServer) -> ChatOpenAI:
    """A client of a model that no other test has learned anything about."""
    return ChatOpenAI(model=next(_names), base_url=server.url, api_key="none", max_retries=0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have calls wait for the one that learns as long as a busy machine may take."""
    monkeypatch.setattr(call, "LESSON_SECONDS", 60.0)
    yield
    assert call._lessons == call._tried == {}, "whatever happened, the lesson is over"


def way_of(call: Call) -> str:
    """Return the way to structured output that a request takes."""
    if "tools" in call.body:
        return "function_calling"
    kind = call.body.get("response_format", {}).get("type", "text")
    return "json_mode" if kind == "json_object" else str(kind)


def refused(call: Call) -> bool:
    """Return whether a provider that takes text only refuses this."""
    return way_of(call) != "text"


def text_only(call: Call) -> Reply:
    """Be such a provider."""
    return Reply("not supported", status=400) if refused(call) else faithful(call)


def read(reader: LLMReader, budget: CallBudget) -> Any:
    """Extract from four documents."""
    return reader.extract(check_question(QUESTION), DOCUMENTS, 0, budget)


async def aread(reader: LLMReader, budget: CallBudget) -> Any:
    """Do as `read` does, in an event loop."""
    return await reader.aextract(check_question(QUESTION), DOCUMENTS, 0, budget)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_branch_of_the_first_fan_out_is_refused_and_the_others_are_not(
    asynchronous: bool, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = text_only
    built = build_graph(reader=chat, retriever=FixedRetriever(documents=make_documents(16, about=8)))
    context = Settings(route="map_reduce", partition_size=2)
    result = (
        asyncio.run(built.ainvoke(ASKED, context=context)) if asynchronous else built.invoke(ASKED, context=context)
    )
    assert [extraction["status"] for extraction in result["answer"]["extractions"]] == ["evidence"] * 8
    assert [way_of(call) for call in server.calls if refused(call)] == WAYS[:3]
    assert result["answer"]["usage"]["failed_calls"] == 3
    assert result["answer"]["usage"]["calls"] == len(server.calls) == 3 + 8 + 1


@pytest.mark.usefixtures("patient")
def test_threads_and_event_loops_learn_from_the_same_call(chat: ChatOpenAI, server: OpenAIServer) -> None:
    server.script = text_only
    reader = LLMReader(chat)

    async def read_together() -> None:
        await asyncio.gather(*(aread(reader, CallBudget()) for _ in range(3)))

    with ThreadPoolExecutor(6) as pool:
        ends = [pool.submit(read, reader, CallBudget()) for _ in range(4)]
        ends += [pool.submit(asyncio.run, read_together()) for _ in range(2)]
        for end in ends:
            end.result()
    assert sum(map(refused, server.calls)) == 3
    assert len(server.calls) == 3 + 10


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_fails_before_it_has_learned_anything_lets_the_others_go(
    asynchronous: bool, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    lost: list[Call] = []

    def script(call: Call) -> Reply:
        if not lost:
            lost.append(call)
            return Reply(status=500)
        return faithful(call)

    server.script = script
    built = build_graph(reader=chat, retriever=FixedRetriever(documents=make_documents(16, about=8)))
    context = Settings(route="map_reduce", max_retries=0)
    result = (
        asyncio.run(built.ainvoke(ASKED, context=context)) if asynchronous else built.invoke(ASKED, context=context)
    )
    found = sorted(extraction["status"] for extraction in result["answer"]["extractions"])
    assert found == ["evidence"] * 3 + ["failed"]


class Held:
    """A provider that refuses one way, and keeps the reply to the next until it is told to go on."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.others = threading.Event()

    def __call__(self, call: Call) -> Reply:
        """Reply; the first call in the second way gets none."""
        if way_of(call) == "json_schema":
            return Reply("not supported", status=400)
        if not self.arrived.is_set():
            self.arrived.set()
            return Reply(hold=True)
        reply = faithful(call)
        return Reply(arguments=reply.content) if way_of(call) == "function_calling" else reply


def test_a_reply_that_takes_its_time_holds_up_nobody_and_its_way_is_taken(
    chat: ChatOpenAI, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "LESSON_SECONDS", 0.05)
    provider = server.script = Held()
    reader, slow = LLMReader(chat), CallBudget(timeout=30, max_retries=0)
    with ThreadPoolExecutor(1) as pool:
        learner = pool.submit(read, reader, slow)
        assert provider.arrived.wait(30)
        assert read(reader, CallBudget())["status"] == "evidence"
        assert not learner.done()
        server.hang_up(None)
        with pytest.raises(ModelCallError):
            learner.result()
    assert [way_of(call) for call in server.calls] == ["json_schema", "function_calling", "function_calling"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_wait_ends_with_the_deadline(
    asynchronous: bool, chat: ChatOpenAI, server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider = server.script = Held()
    reader = LLMReader(chat)
    with ThreadPoolExecutor(1) as pool:
        learner = pool.submit(read, reader, CallBudget(timeout=30, max_retries=0))
        assert provider.arrived.wait(30)
        waiting = CallBudget(deadline=time.time() + 0.2)
        with pytest.raises(ModelCallError, match="deadline"):
            asyncio.run(aread(reader, waiting)) if asynchronous else read(reader, waiting)
        assert not waiting.calls
        server.hang_up(None)
        learner.exception()
    assert len(server.calls) == 2
    assert "concurrent.futures" not in {record.name for record in caplog.records}, "its loop is closed by now"


@pytest.mark.usefixtures("patient")
async def test_a_cancelled_call_and_one_in_the_way_of_its_loop_hold_up_nobody(
    chat: ChatOpenAI, server: OpenAIServer
) -> None:
    provider = server.script = Held()
    reader = LLMReader(chat)
    learner = asyncio.create_task(aread(reader, CallBudget()))
    await asyncio.to_thread(provider.arrived.wait, 30)
    # In the loop's own thread: were it to wait for the task, neither would ever go on.
    assert read(reader, CallBudget())["status"] == "evidence"
    learner.cancel()
    await asyncio.wait([learner])
    assert (await aread(reader, CallBudget()))["status"] == "evidence"
