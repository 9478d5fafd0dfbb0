"""Replies that are cut off or have no answer."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys, document_key
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.reply import cut_off
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.errors import ModelCallError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import kinds, messages
from tests.openai_server import EVIDENCE, Call, OpenAIServer, Reply, faithful

ASKED = check_question(QUESTION)
DOCUMENTS = assign_keys(QUESTION, make_documents(4, about=0))
KEY = document_key(DOCUMENTS[0])
WORDS = "Aspirin does lower the risk of stroke in group 0"
WHOLE = json.dumps(
    {"relevant": True, "quotes": [{"key": KEY, "quote": WORDS}], "finding": "It does."}
)
FINISHES = {"length": "the token limit", "content_filter": "a content filter"}
STRUCTURED = {"response_format", "tools"}
_names = (f"cut-{number}" for number in itertools.count())


@pytest.fixture
def chat(server: OpenAIServer) -> ChatOpenAI:
    """A client of a model with a unique name."""
    return ChatOpenAI(model=next(_names), base_url=server.url, api_key="none", max_retries=0)


def replying(server: OpenAIServer, *replies: Reply, text_only: bool = True) -> None:
    """Send these, one a call, and the last for ever; a provider of text only refuses all else."""
    sent = itertools.chain(replies, itertools.repeat(replies[-1]))

    def script(call: Call) -> Reply:
        return (
            Reply("no", status=400) if text_only and call.body.keys() & STRUCTURED else next(sent)
        )

    server.script = script


@pytest.mark.parametrize(
    ("metadata", "cut"),
    [
        ({"finish_reason": "stop"}, None),
        ({"finish_reason": "tool_calls"}, None),
        ({"finish_reason": "length"}, "the token limit"),
        ({"finish_reason": "content_filter"}, "a content filter"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "the token limit",
        ),
        ({"stop_reason": "max_tokens"}, "the token limit"),
        ({"stop_reason": "refusal"}, "a content filter"),
        ({"finish_reason": "MAX_TOKENS"}, "the token limit"),
        ({"finish_reason": "SAFETY"}, "a content filter"),
        ({"done_reason": "length"}, "the token limit"),
        ({"stopReason": "max_tokens"}, "the token limit"),
        ({"stopReason": "guardrail_intervened"}, "a content filter"),
        ({"finish_reason": "ERROR_TOXIC"}, "a content filter"),
        ({"model_provider": "openai"}, "a broken connection"),
        ({}, None),
    ],
)
def test_the_reasons_of_the_usual_providers_are_known(
    metadata: dict[str, Any], cut: str | None
) -> None:
    assert cut_off(AIMessage("Aspirin", response_metadata=metadata)) == cut


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
@pytest.mark.parametrize("finish", FINISHES)
def test_a_cut_off_answer_has_a_note(
    finish: str,
    route: Any,
    streamed: bool,
    chat: ChatOpenAI,
    server: OpenAIServer,
    disagreeing: FixedRetriever,
) -> None:
    server.script = lambda call: (
        faithful(call) if call.stage == "extract" else Reply("It must never", finish=finish)
    )
    built = build_graph(model=chat, retriever=disagreeing)
    context = Settings(route=route)
    if streamed:
        *_, last = built.stream({"question": QUESTION}, context=context)
        (update,) = last.values()
        answer = update["answer"]
    else:
        answer = built.invoke({"question": QUESTION}, context=context)["answer"]
    assert answer["text"] == "It must never"
    (warning,) = messages(answer, "cut_off")
    assert warning.startswith(
        f"The answer was cut off by {FINISHES[finish]}, so that its end is missing. "
    )
    assert ("max_tokens" if finish == "length" else "filter") in warning.partition("missing.")[2]


@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("text_only", [False, True])
@pytest.mark.parametrize("until", [len(WHOLE) // 2, len(WHOLE) - 1])
def test_an_extraction_that_was_cut_off_gets_one_repair(
    until: int, text_only: bool, finish: str, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    replying(server, Reply(WHOLE[:until], finish=finish), Reply(WHOLE), text_only=text_only)
    budget = CallBudget(retry_wait=0)
    extraction = wait_for(LLMReader(chat).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [quote["text"] for quote in extraction["quotes"]] == [WORDS]
    assert extraction["error"] is None
    assert f"it was cut off by {FINISHES[finish]}, and has to be shorter" in server.calls[-1].user
    assert [call["status"] for call in budget.calls] == ["failed"] * text_only + ["ok"] * 2
    assert all(call["output_tokens"] for call in budget.calls[-2:]), "it was paid for"


@pytest.mark.parametrize("thought", ["", "<think>Let me see. There are many"])
def test_an_empty_cut_off_reply_is_reported_once(
    thought: str, chat: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: (
        Reply(thought, finish="length") if "Vitamin number 5 " in call.prompt else faithful(call)
    )
    built = build_graph(model=chat, retriever=disagreeing)
    answer = built.invoke({"question": QUESTION})["answer"]
    (warning,) = messages(answer, "partition_failed")
    assert warning.startswith("Partition 2 was not read (doc-4")
    assert "was cut off by the token limit" in warning
    assert "max_tokens" in warning
    assert sum("Vitamin number 5 " in call.prompt for call in server.calls) == 2
    with pytest.raises(ModelCallError, match=r"cut off by the token limit.*max_tokens") as caught:
        built.invoke({"question": QUESTION}, context=Settings(route="vanilla"))
    assert "\n" not in str(caught.value)
    assert sum("Vitamin number 5 " in call.prompt for call in server.calls) == 3


NO_ANSWERS: dict[str, Callable[[Call], str]] = {
    "a closing tag": lambda call: "</evidence>",
    "a confidence": lambda call: "Confidence: 0.80",
    "an announcement": lambda call: "Sure! Here is the answer:\n",
    "quotes alone": lambda call: '**Quotes:**\n[7K3W] "It is so."',
    "the question": lambda call: f"Question: {QUESTION}",
    "the instruction": lambda call: call.system,
}
ANSWERS = ["Yes.", "NO ANSWER:", "Aspirin does lower the risk of stroke in group 0."]


def _ask(chat: ChatOpenAI, route: str, **question: Any) -> dict[str, Any]:
    built = build_graph(model=chat, retriever=FixedRetriever(documents=make_documents(4, about=0)))
    settings = Settings(route=route, max_retries=0)
    answer: dict[str, Any] = built.invoke({"question": QUESTION, **question}, context=settings)[
        "answer"
    ]
    return answer


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
@pytest.mark.parametrize("reply", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_reply_without_an_answer_is_asked_for_again(
    reply: Callable[[Call], str], route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        if call.stage == "extract":
            return faithful(call)
        keys = [key for key, _ in call.documents] or EVIDENCE.findall(call.prompt)
        first = len(call.body["messages"]) == 2
        return Reply(reply(call) if first else f"Point holds [{keys[0]}].")

    server.script = script
    answer = _ask(chat_model, route)
    assert answer["text"].startswith("Point holds [1].")
    assert "asked_again" in kinds(answer, "info")
    last = server.calls[-1].body["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    assert last[-1]["content"].startswith("That reply is not an answer: it ")


def test_two_replies_without_an_answer_are_an_error(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply("Confidence: 0.80")
    with pytest.raises(ModelCallError, match="gave no answer, twice"):
        _ask(chat_model, "vanilla")
    assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("reply", "abstained"),
    [
        ("NO ANSWER: it is not in the documents.", True),
        ("Not answered: whether it is safe.", True),
        ("Aspirin helps [{key}].\nNot answered: the dose", False),
        ("I cannot overstate how well it works: it halves mortality.", False),
    ],
)
@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_only_labels_make_an_abstention(
    reply: str, abstained: bool, route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        keys = [key for key, _ in call.documents] or EVIDENCE.findall(call.prompt)
        return faithful(call) if call.stage == "extract" else Reply(reply.format(key=keys[0]))

    server.script = script
    answer = _ask(chat_model, route)
    assert answer["abstained"] == abstained
    assert not (abstained and {"uncited", "supported"} & set(kinds(answer)))


@pytest.mark.parametrize("reply", ANSWERS)
def test_a_short_answer_is_accepted(
    reply: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(reply)
    _ask(chat_model, "vanilla", options={"A": "yes", "B": "no"})
    assert len(server.calls) == 1
