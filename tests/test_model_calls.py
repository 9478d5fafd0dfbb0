"""Calls of a model: structured output, retries, timeouts, usage and the cache."""

import asyncio
import itertools
import json
import traceback
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model import call
from briefcontext.chains.model.call import Model, Reply, Request
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Extraction
from briefcontext.errors import ModelCallError, ModelError, ModelSetupError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply as Sent, faithful

ASKED = check_question(QUESTION)
DOCUMENTS = assign_keys(QUESTION, make_documents(4, about=0))
FORMS = ["json_schema", "tools", "prompt"]
HELLO = Request("vanilla", [HumanMessage("Hello?")])

_names = (f"model-{number}" for number in itertools.count())


@pytest.fixture
def chat(server: OpenAIServer) -> ChatOpenAI:
    """A client of a model with a unique name."""
    return ChatOpenAI(
        model=next(_names), base_url=server.url, api_key="none", max_retries=0, stream_usage=True
    )


@pytest.fixture
def budget() -> CallBudget:
    """A budget that loses no time between retries."""
    return CallBudget(retry_wait=0)


@pytest.fixture
def warm(chat: ChatOpenAI, server: OpenAIServer) -> None:
    """Call the client once: its first call loads modules, which can exceed the timeout."""
    wait_for(Model(chat).ask(HELLO, CallBudget()))
    server.calls.clear()


def form_of(call: Call) -> str:
    """Return the form in which a request asks for a record."""
    return (
        "tools"
        if "tools" in call.body
        else call.body.get("response_format", {}).get("type", "prompt")
    )


def accepting(form: str) -> Callable[[Call], Sent]:
    """Be a provider that knows one form of structured output, and text."""

    def script(call: Call) -> Sent:
        asked = form_of(call)
        if asked not in (form, "prompt"):
            return Sent(f"{asked} is not supported", status=400)
        reply = faithful(call)
        return Sent(arguments=reply.content) if asked == "tools" else reply

    return script


def first(*replies: Sent) -> Callable[[Call], Sent]:
    """Send these replies, one a call, and faithful ones after them."""
    return lambda call: replies[call.number] if call.number < len(replies) else faithful(call)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited before a call is made again; no time passes."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(call, "sleep", note)
    return waits


def extract(chat: BaseChatModel, budget: CallBudget) -> Extraction:
    """Extract from four documents."""
    return wait_for(LLMReader(chat).aextract(ASKED, DOCUMENTS, 0, budget))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_structured_output_works(
    form: Any, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = accepting(form)
    reader = LLMReader(chat, structured_output=form)
    for _ in range(2):
        extraction = wait_for(reader.aextract(ASKED, DOCUMENTS, 0, budget))
        assert (extraction["status"], len(extraction["quotes"]), extraction["error"]) == (
            "evidence",
            4,
            None,
        )
    assert [form_of(call) for call in server.calls] == [form] * 2
    assert [call["status"] for call in budget.calls] == ["ok"] * 2


PASSING = {
    "429": Sent(status=429),
    "503": Sent(status=503),
    "dropped": Sent(drop=True),
    "half a body": Sent(raw=b'{"id": "1", "cho'),
    "a page": Sent(raw=b"<html>", headers={"Content-Type": "text/html"}),
    "no choices": Sent(raw=b'{"id": "1", "choices": null}'),
    "empty": Sent(""),
}


@pytest.mark.parametrize("fault", PASSING)
def test_transient_faults_are_retried_in_the_same_form(
    fault: str, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = first(PASSING[fault], PASSING[fault])
    assert extract(chat, budget)["status"] == "evidence"
    assert [form_of(call) for call in server.calls] == ["json_schema"] * 3
    assert [call["status"] for call in budget.calls] == ["failed", "failed", "ok"]


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [(429, "7", 7.0), (429, formatdate(0, usegmt=True), 0.0), (503, "soon", None)],
)
def test_retry_after_is_honoured(
    status: int,
    header: str,
    seconds: Any,
    chat: ChatOpenAI,
    server: OpenAIServer,
    waits: list[float],
) -> None:
    server.script = first(Sent(status=status, headers={"Retry-After": header}))
    wait_for(Model(chat).ask(HELLO, CallBudget(retry_wait=2)))
    assert len(server.calls) == 2
    if seconds is None:
        assert len(waits) == 1
        assert 0 <= waits[0] <= 2
    else:
        assert waits == [seconds]


@pytest.mark.parametrize("status", [401, 404])
@pytest.mark.parametrize("schema", [False, True])
def test_a_wrong_key_or_model_stops_at_the_first_call(
    schema: bool, status: int, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Sent("There is no such thing", status=status)
    with pytest.raises(ModelSetupError, match="There is no such thing") as caught:
        extract(chat, budget) if schema else wait_for(Model(chat).ask(HELLO, budget))
    assert "\n" not in str(caught.value)
    assert len(server.calls) == 1 == len(budget.calls)


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_call_without_a_reply_times_out_and_is_retried(
    asynchronous: bool, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = first(Sent(hold=True), Sent(hold=True))
    budget = CallBudget(timeout=1, max_retries=1, retry_wait=0)
    asked = Model(chat)

    async def ask() -> Reply:
        call = asked.ask(HELLO, budget)
        return await call if asynchronous else await asyncio.to_thread(wait_for, call)

    with pytest.raises(ModelCallError, match="no reply in time"):
        await ask()
    budget.timeout = 30
    assert (await ask()).text == faithful(server.calls[-1]).content
    assert [call["status"] for call in budget.calls] == ["failed", "failed", "ok"]
    assert len(server.calls) == 3


def test_usage_counts_attempts_and_tokens_by_stage_and_model(
    server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    large, small = (
        ChatOpenAI(
            model=f"{size}-{next(_names)}", base_url=server.url, api_key="none", max_retries=0
        )
        for size in ("large", "small")
    )
    lost: list[Call] = []

    def script(call: Call) -> Sent:
        if "Vitamin number 4 " in call.prompt and len(lost) < 2:
            lost.append(call)
            return Sent(status=500)
        reply = faithful(call)
        reply.cached_tokens = 100 if call.stage == "extract" else 3
        return reply

    server.script = script
    built = build_graph(reader=LLMReader(large, extract_model=small), retriever=disagreeing)
    usage = built.invoke({"question": QUESTION}, context=Settings(verify=False))["answer"]["usage"]
    answered = [call for call in server.calls if call not in lost]
    assert (usage["calls"], usage["failed_calls"], usage["retries"], usage["cache_hits"]) == (
        7,
        2,
        2,
        0,
    )
    assert usage["input_tokens"] == sum(len(call.prompt) // 4 for call in answered)
    assert usage["output_tokens"] == sum(len(faithful(call).content) // 4 for call in answered)
    assert usage["cached_input_tokens"] == 403
    for sums, names in (
        (usage["stages"], ("extract", "reduce")),
        (usage["models"], (small.model_name, large.model_name)),
    ):
        assert {
            name: (part["calls"], part["failed_calls"], part["retries"])
            for name, part in sums.items()
        } == {names[0]: (6, 2, 2), names[1]: (1, 0, 0)}
        assert sum(part["input_tokens"] for part in sums.values()) == usage["input_tokens"]
        assert [sums[name]["cached_input_tokens"] for name in names] == [400, 3]


@pytest.fixture
def named(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a model on the server, for opening it by name."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return f"openai:{next(_names)}"


def test_with_a_cache_the_same_calls_are_not_made_again(
    named: str, server: OpenAIServer, disagreeing: FixedRetriever, tmp_path: Path
) -> None:
    usages = []
    for _ in range(2):
        reader = LLMReader(named, arguments={"cache": str(tmp_path / "made" / "replies.sqlite")})
        built = build_graph(reader=reader, retriever=disagreeing)
        answer = built.invoke({"question": QUESTION}, context=Settings(verify=False))["answer"]
        assert len(answer["citations"]) == 16
        usages.append(answer["usage"])
    assert len(server.calls) == 5
    assert [(usage["calls"], usage["cache_hits"]) for usage in usages] == [(5, 0), (0, 5)]
    assert usages[0]["input_tokens"] > 0
    assert usages[1]["input_tokens"] == usages[1]["output_tokens"] == 0


KEY = "sk-toy-0123456789abcdef"
ECHOES = {
    "the key": KEY,
    "a header": f"headers: {{'Authorization': 'Bearer {KEY}'}}",
    "another key": "Incorrect API key provided: sk-proj-abcdefghijklmnop.",
    "a token": "Bearer 0123-another-token was refused",
}


@pytest.mark.parametrize("status", [401, 500])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_in_a_servers_error_is_not_repeated(
    echo: str, status: int, server: OpenAIServer
) -> None:
    body = json.dumps({"error": {"message": f"No: {ECHOES[echo]}"}}).encode()
    server.script = lambda call: Sent(status=status, raw=body)
    chat = ChatOpenAI(
        model=next(_names), base_url=server.url, api_key=SecretStr(KEY), max_retries=0
    )
    with pytest.raises(ModelError) as raised:
        wait_for(Model(chat).ask(HELLO, CallBudget(retry_wait=0, max_retries=1)))
    shown = "".join(traceback.format_exception(raised.value))
    assert "[key]" in str(raised.value)
    assert not any(secret in shown for secret in (KEY, "abcdefghijklmnop", "0123-another"))
