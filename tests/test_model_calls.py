"""How a model is called: the forms of structured output, retries, time, the ledger and the cache."""

import asyncio
import itertools
import json
import time
import traceback
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model import call
from briefcontext.chains.model.call import MAX_WAIT, Model, Reply, Request
from briefcontext.chains.model.chat_model import model_key, redacted
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget, summarise
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Extraction
from briefcontext.errors import InputError, ModelCallError, ModelError, ModelSetupError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply as Sent, faithful, serve

ASKED = check_question(QUESTION)
DOCUMENTS = assign_keys(QUESTION, make_documents(4, about=0))
FORMS = ["json_schema", "tools", "prompt"]
HELLO = Request("vanilla", [HumanMessage("Hello?")])

_names = (f"model-{number}" for number in itertools.count())


@pytest.fixture
def chat(server: OpenAIServer) -> ChatOpenAI:
    """A client of a model with a name of its own."""
    return ChatOpenAI(
        model=next(_names), base_url=server.url, api_key="none", max_retries=0, stream_usage=True
    )


@pytest.fixture
def budget() -> CallBudget:
    """A budget that loses no time between retries."""
    return CallBudget(retry_wait=0)


@pytest.fixture
def warm(chat: ChatOpenAI, server: OpenAIServer) -> None:
    """The client has called: its first call loads modules, which may take longer than a call may take here."""
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


async def extract_together(chat: BaseChatModel, count: int) -> list[Extraction]:
    """Extract several times at once."""
    reader = LLMReader(chat)
    return await asyncio.gather(
        *(reader.aextract(ASKED, DOCUMENTS, 0, CallBudget(retry_wait=0)) for _ in range(count))
    )


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


def test_the_schema_has_the_letters_of_the_question(chat: ChatOpenAI, server: OpenAIServer) -> None:
    reader = LLMReader(chat)
    for options in ({"A": "yes", "B": "no"}, {}):
        wait_for(reader.aextract(check_question(QUESTION, options), DOCUMENTS, 0, CallBudget()))
    lettered, free = (
        call.body["response_format"]["json_schema"]["schema"] for call in server.calls
    )
    assert lettered["properties"]["choice"]["anyOf"] == [
        {"enum": ["A", "B"], "type": "string"},
        {"type": "null"},
    ]
    assert free["properties"]["choice"]["type"] == "null"
    for schema in (lettered, free):
        assert list(schema["properties"]) == schema["required"]
        assert schema["additionalProperties"] is False
        assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("profile", "form"),
    [
        (None, "json_schema"),
        ({}, "json_schema"),
        ({"structured_output": True}, "json_schema"),
        ({"structured_output": False, "tool_calling": True}, "tools"),
        ({"structured_output": False, "tool_calling": False}, "prompt"),
    ],
)
def test_what_is_asked_for_goes_by_the_models_profile(
    profile: Any, form: str, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = accepting(form)
    extract(chat.model_copy(update={"profile": profile}), budget)
    assert [form_of(call) for call in server.calls] == [form]


def test_a_refusal_leads_to_the_prompt_for_this_model_object(
    chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = accepting("prompt")
    for _ in range(2):
        reader = LLMReader(chat)
        extractions = [wait_for(reader.aextract(ASKED, DOCUMENTS, 0, budget)) for _ in range(3)]
        assert {extraction["status"] for extraction in extractions} == {"evidence"}
    assert [form_of(call) for call in server.calls] == [
        "json_schema",
        "prompt",
        "prompt",
        "prompt",
    ] * 2
    assert [call["status"] for call in budget.calls[:4]] == ["failed", "ok", "ok", "ok"]
    assert summarise(budget.calls, seconds=0)["retries"] == 0


def test_the_branches_of_a_fan_out_wait_for_nobodys_refusal(
    chat: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = accepting("prompt")
    answer = build_graph(model=chat, retriever=disagreeing).invoke({"question": QUESTION})["answer"]
    assert [extraction["status"] for extraction in answer["extractions"]] == ["evidence"] * 4
    refused = sum(form_of(call) != "prompt" for call in server.calls)
    assert 1 <= refused == answer["usage"]["failed_calls"] <= 4
    assert len(server.calls) == refused + 4 + 1


@pytest.mark.parametrize("form", FORMS[:2])
def test_a_form_that_was_decided_is_kept_to(
    form: Any, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = accepting("prompt")
    with pytest.raises(ModelCallError, match="is not supported"):
        wait_for(LLMReader(chat, structured_output=form).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [form_of(call) for call in server.calls] == [form]
    with pytest.raises(ModelSetupError, match="structured_output to auto or prompt"):
        wait_for(
            LLMReader(GenericFakeChatModel(messages=iter([])), structured_output=form).aextract(
                ASKED, DOCUMENTS, 0, budget
            )
        )


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("The input is not acceptable to us", 2),
        ("context_length_exceeded: at most 8192 tokens fit", 1),
    ],
)
def test_a_request_refused_for_another_reason_is_an_error_in_the_providers_words_and_changes_nothing(
    words: str, calls: int, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Sent(words, status=400)
    reader = LLMReader(chat)
    with pytest.raises(ModelCallError, match=words) as caught:
        wait_for(reader.aextract(ASKED, DOCUMENTS, 0, budget))
    assert "\n" not in str(caught.value)
    assert type(caught.value) is ModelCallError
    assert ("Set max_input_tokens" in str(caught.value)) == (calls == 1)
    assert len(server.calls) == calls == len(budget.calls)
    server.script = faithful
    assert wait_for(reader.aextract(ASKED, DOCUMENTS, 0, budget))["status"] == "evidence"
    assert form_of(server.calls[-1]) == "json_schema"


def test_a_call_with_arguments_that_are_not_json_gets_a_repair(
    chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    provider = accepting("tools")
    server.script = lambda call: (
        Sent(arguments='{"relevant": tru') if call.number == 0 else provider(call)
    )
    extraction = wait_for(
        LLMReader(chat, structured_output="tools").aextract(ASKED, DOCUMENTS, 0, budget)
    )
    assert extraction["status"] == "evidence"
    assert [form_of(call) for call in server.calls] == ["tools", "tools"]
    assert '{"relevant": tru' in server.calls[-1].prompt
    assert "could not be read" in server.calls[-1].user


@pytest.mark.parametrize("form", FORMS)
def test_each_form_works_when_messages_are_streamed(
    form: Any, chat: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = accepting(form)
    built = build_graph(reader=LLMReader(chat, structured_output=form), retriever=disagreeing)
    *_, (_, last) = built.stream({"question": QUESTION}, stream_mode=["messages", "values"])
    answer: Any = last["answer"]  # type: ignore[index]
    assert [extraction["status"] for extraction in answer["extractions"]] == ["evidence"] * 4
    assert answer["usage"]["input_tokens"] > 0


class PlainChatModel(GenericFakeChatModel):
    """A chat model whose structured output knows no methods."""

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        """Take a schema and nothing else."""
        if kwargs:
            raise TypeError(f"unexpected {kwargs}")


@pytest.mark.parametrize("kind", [GenericFakeChatModel, PlainChatModel])
def test_a_model_without_structured_output_is_read_as_text(
    kind: type[GenericFakeChatModel], budget: CallBudget
) -> None:
    record = json.dumps({"relevant": True, "quotes": [], "finding": "It does."})
    extraction = extract(kind(messages=iter([AIMessage(record)])), budget)
    assert (extraction["status"], extraction["finding"]) == ("evidence", "It does.")
    assert "not of the form" not in (extraction["error"] or "")


class CountedChatModel(BaseChatModel):
    """A chat model that counts its calls, as people's own may do."""

    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "counted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.calls += 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage("NO ANSWER: nothing."))])


@pytest.mark.parametrize("route", ["map_reduce", "vanilla"])
def test_a_model_of_ones_own_keeps_its_state(route: str, disagreeing: FixedRetriever) -> None:
    chat = CountedChatModel()
    settings = Settings(route=route, max_retries=0)  # type: ignore[arg-type]
    answer = build_graph(model=chat, retriever=disagreeing).invoke(
        {"question": QUESTION}, context=settings
    )["answer"]
    assert chat.calls == answer["usage"]["calls"] > 0


PASSING = {
    "429": Sent(status=429),
    "500": Sent(status=500),
    "503": Sent(status=503),
    "408": Sent(status=408),
    "dropped": Sent(drop=True),
    "half a body": Sent(raw=b'{"id": "1", "cho'),
    "no body": Sent(raw=b""),
    "a page": Sent(raw=b"<html>", headers={"Content-Type": "text/html"}),
    "a list": Sent(raw=b"[]"),
    "no choices": Sent(raw=b'{"id": "1", "choices": null}'),
    "empty choices": Sent(raw=b'{"id": "1", "choices": []}'),
    "no message": Sent(
        raw=b'{"id": "1", "choices": [{"index": 0, "finish_reason": "stop", "message": null}]}'
    ),
    "an error as a success": Sent(raw=b'{"error": {"message": "overloaded"}}'),
    "empty": Sent(""),
    "blank": Sent(" \n"),
}


@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_tried_again_in_the_same_form(
    fault: str, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = first(PASSING[fault], PASSING[fault])
    assert extract(chat, budget)["status"] == "evidence"
    assert [form_of(call) for call in server.calls] == ["json_schema"] * 3
    assert [call["status"] for call in budget.calls] == ["failed", "failed", "ok"]


@pytest.mark.parametrize("fault", PASSING)
def test_what_does_not_pass_is_given_up_with_one_clear_line(
    fault: str, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: PASSING[fault]
    budget = CallBudget(retry_wait=0, max_retries=2)
    with pytest.raises(
        ModelCallError, match=f"{chat.model_name} was called 3 times and failed"
    ) as caught:
        extract(chat, budget)
    assert "\n" not in str(caught.value)
    has_status = PASSING[fault].status != 200
    empty = fault in ("empty", "blank")
    assert (
        has_status
        or empty
        or f"Check that a chat model's server answers at {server.url}" in str(caught.value)
    )
    assert len(server.calls) == 3 == len(budget.calls)


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, "7", 7.0),
        (503, "0.5", 0.5),
        (429, "0", 0.0),
        (503, "-3", 0.0),
        (429, formatdate(0, usegmt=True), 0.0),
        (503, "soon", None),
        (429, "inf", None),
        (503, "", None),
    ],
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


def test_retry_after_may_be_a_date(
    chat: ChatOpenAI, server: OpenAIServer, waits: list[float]
) -> None:
    date = formatdate(time.time() + 200, usegmt=True)
    server.script = first(Sent(status=429, headers={"Retry-After": date}))
    wait_for(Model(chat).ask(HELLO, CallBudget()))
    assert waits == [pytest.approx(200, abs=60)]


def test_a_provider_that_asks_for_hours_is_not_waited_for(
    chat: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = first(Sent(status=429, headers={"Retry-After": "36000"}))
    with pytest.raises(ModelCallError, match="36,000 s"):
        wait_for(Model(chat).ask(HELLO, CallBudget()))
    assert len(server.calls) == 1


def test_waits_double_up_to_a_bound(
    chat: ChatOpenAI, server: OpenAIServer, waits: list[float]
) -> None:
    server.script = lambda call: Sent(status=500)
    with pytest.raises(ModelCallError, match="10 times"):
        wait_for(Model(chat).ask(HELLO, CallBudget(retry_wait=1, max_retries=9)))
    assert len(waits) == 9
    for attempt, wait in enumerate(waits):
        assert 0 <= wait <= min(MAX_WAIT, 2.0**attempt)


@pytest.mark.parametrize("status", [401, 402, 404])
@pytest.mark.parametrize("schema", [False, True])
def test_a_wrong_key_or_model_stops_at_the_first_call(
    schema: bool, status: int, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Sent("There is no such thing", status=status)
    with pytest.raises(ModelSetupError, match="There is no such thing") as caught:
        extract(chat, budget) if schema else wait_for(Model(chat).ask(HELLO, budget))
    assert "\n" not in str(caught.value)
    assert len(server.calls) == 1 == len(budget.calls)


@pytest.mark.parametrize("status", [413, 451])
def test_a_refusal_that_no_other_way_can_change_stops_at_the_first_call(
    status: int, chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Sent("not here", status=status)
    with pytest.raises(ModelCallError, match="not here"):
        extract(chat, budget)
    assert len(server.calls) == 1


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_reply_that_does_not_come_is_given_up_and_asked_for_again(
    asynchronous: bool, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = first(Sent(hold=True), Sent(hold=True))
    budget = CallBudget(timeout=1, max_retries=1, retry_wait=0)
    asked = Model(chat)

    async def ask() -> Reply:
        call = asked.ask(HELLO, budget)
        return await call if asynchronous else await asyncio.to_thread(wait_for, call)

    with pytest.raises(ModelCallError, match="no reply in time; a call may take 1 s"):
        await ask()
    budget.timeout = 30
    assert (await ask()).text == faithful(server.calls[-1]).content
    assert [call["status"] for call in budget.calls] == ["failed", "failed", "ok"]
    assert len(server.calls) == 3


async def test_a_cancelled_call_stands_in_the_ledger(
    chat: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(call: Call) -> Sent:
        loop.call_soon_threadsafe(begun.set)
        return Sent(hold=True)

    server.script = hold
    task = asyncio.create_task(Model(chat).ask(HELLO, budget))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert [call["status"] for call in budget.calls] == ["failed"]


def test_the_ledger_counts_attempts_and_tokens_by_stage_and_model(
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
        } == {
            names[0]: (6, 2, 2),
            names[1]: (1, 0, 0),
        }
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


def test_the_cache_is_a_setting(
    named: str, server: OpenAIServer, disagreeing: FixedRetriever, tmp_path: Path
) -> None:
    context = Settings(model=named, model_arguments={"cache": str(tmp_path / "replies.sqlite")})
    built = build_graph(retriever=disagreeing)
    for expected in (0, 6):
        answer = built.invoke({"question": QUESTION}, context=context)["answer"]
        assert answer["usage"]["cache_hits"] == expected


@pytest.mark.parametrize("form", FORMS)
def test_empty_replies_are_not_cached(
    form: Any, named: str, server: OpenAIServer, budget: CallBudget, tmp_path: Path
) -> None:
    provider = accepting(form)
    empty: list[Call] = []

    def script(call: Call) -> Sent:
        reply = provider(call)
        if reply.status == 200 and not empty:
            empty.append(call)
            return Sent("")
        return reply

    server.script = script
    for _ in range(2):
        reader = LLMReader(
            named, arguments={"cache": str(tmp_path / "replies.sqlite")}, structured_output=form
        )
        assert wait_for(reader.aextract(ASKED, DOCUMENTS, 0, budget))["status"] == "evidence"
    assert len(server.calls) == 2
    assert summarise(budget.calls, seconds=0)["cache_hits"] == 1


def test_the_cache_tells_servers_apart(
    server: OpenAIServer, budget: CallBudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"openai:{next(_names)}"
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve() as other:
        for running, words in ((server, "One says so."), (other, "Two says so.")) * 2:
            monkeypatch.setenv("OPENAI_BASE_URL", running.url)
            running.script = lambda call, words=words: Sent(words)  # type: ignore[misc]
            reader = LLMReader(name, arguments={"cache": str(tmp_path / "replies.sqlite")})
            assert wait_for(reader.aanswer(ASKED, DOCUMENTS, "vanilla", budget))["text"] == words
        assert [len(running.calls) for running in (server, other)] == [1, 1]
    assert [call["status"] for call in budget.calls] == ["ok", "ok", "cached", "cached"]


class AddressedChatModel(GenericFakeChatModel):
    """A chat model with its address in a field, as LangChain's integrations other than OpenAI's have it."""

    anthropic_api_url: str


def test_a_model_is_known_by_its_address_whatever_the_field_is_called() -> None:
    here, there, again = (
        model_key(
            AddressedChatModel(messages=iter([]), anthropic_api_url=f"http://127.0.0.1/{place}")
        )
        for place in ("here", "there", "here")
    )
    assert here == again != there


@pytest.mark.parametrize("place", ["a folder", "no database"])
def test_a_cache_that_cannot_be_opened_is_an_input_error(
    place: str, named: str, tmp_path: Path
) -> None:
    path = tmp_path if place == "a folder" else tmp_path / "text"
    if path != tmp_path:
        path.write_text("This is no database, and long enough to show it. " * 100)
    with pytest.raises(InputError, match="cache of model calls") as caught:
        LLMReader(named, arguments={"cache": str(path)})
    assert "\n" not in str(caught.value)


KEY = "sk-toy-0123456789abcdef"
ECHOES = {
    "the key": KEY,
    "a header": f"headers: {{'Authorization': 'Bearer {KEY}'}}",
    "another key": "Incorrect API key provided: sk-proj-abcdefghijklmnop.",
    "a token": "Bearer 0123-another-token was refused",
}


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
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


def test_a_key_of_no_known_shape_is_not_repeated(server: OpenAIServer) -> None:
    key = "a-key-of-its-own-shape"
    server.script = lambda call: Sent(
        status=401, raw=json.dumps({"error": {"message": key}}).encode()
    )
    chat = ChatOpenAI(
        model=next(_names), base_url=server.url, api_key=SecretStr(key), max_retries=0
    )
    with pytest.raises(ModelError) as raised:
        wait_for(Model(chat).ask(HELLO, CallBudget(retry_wait=0, max_retries=0)))
    assert key not in str(raised.value)


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini-2024-07-18", "claude-sonnet-4-20250514"])
def test_the_name_of_a_model_is_no_key(name: str) -> None:
    assert redacted(name) == name
