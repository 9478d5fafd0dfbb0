"""Replies that end at a token limit or a content filter: never taken for whole, never lost without a word."""

import itertools
import json
from pathlib import Path
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
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

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
    """A client of a model with a name of its own."""
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
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "a content filter",
        ),
        ({"status": "completed", "incomplete_details": None}, None),
        ({"stop_reason": "end_turn", "stop_sequence": None}, None),
        ({"stop_reason": "max_tokens"}, "the token limit"),
        ({"stop_reason": "model_context_window_exceeded"}, "the token limit"),
        ({"stop_reason": "refusal"}, "a content filter"),
        ({"finish_reason": "STOP"}, None),
        ({"finish_reason": "MAX_TOKENS"}, "the token limit"),
        ({"finish_reason": "SAFETY"}, "a content filter"),
        ({"finish_reason": "PROHIBITED_CONTENT"}, "a content filter"),
        ({"done_reason": "stop"}, None),
        ({"done_reason": "length"}, "the token limit"),
        ({"stopReason": "end_turn"}, None),
        ({"stopReason": "max_tokens"}, "the token limit"),
        ({"stopReason": "guardrail_intervened"}, "a content filter"),
        ({"finish_reason": "COMPLETE"}, None),
        ({"finish_reason": "ERROR_TOXIC"}, "a content filter"),
        ({"finish_reason": "model_length"}, "the token limit"),
        ({"finish_reason": "lengthlength"}, "the token limit"),
        ({"finish_reason": None}, None),
        ({"model_provider": "openai"}, "a broken connection"),
        ({}, None),
    ],
)
def test_the_reasons_of_the_usual_providers_are_known(
    metadata: dict[str, Any], cut: str | None
) -> None:
    assert cut_off(AIMessage("Aspirin", response_metadata=metadata)) == cut


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("route", ["vanilla", "order_preserving", "map_reduce"])
@pytest.mark.parametrize("finish", FINISHES)
def test_an_answer_that_was_cut_off_says_so_and_how_to_mend_it(
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


def test_a_streamed_answer_that_ends_without_saying_why_has_a_caution(
    chat: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply("It must never", finish=None)
    built = build_graph(model=chat, retriever=disagreeing)
    asked = {"question": QUESTION}
    *_, last = built.stream(
        asked, context=Settings(route="vanilla"), stream_mode=["messages", "values"]
    )
    (caution,) = messages(last[1]["answer"], "cut_off")  # type: ignore[index]
    assert (
        caution
        == "The answer was cut off by a broken connection, so that its end is missing. Ask again."
    )


@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("text_only", [False, True])
@pytest.mark.parametrize("until", [len(WHOLE) // 2, WHOLE.index('"finding"'), len(WHOLE) - 1])
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


@pytest.mark.parametrize("text_only", [False, True])
def test_an_extraction_that_is_cut_off_twice_is_a_finding_without_quotes(
    text_only: bool, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    cut = WHOLE[: WHOLE.index('"finding"')]
    replying(server, Reply(cut, finish="length"), text_only=text_only)
    extraction = wait_for(LLMReader(chat).aextract(ASKED, DOCUMENTS, 0, CallBudget(retry_wait=0)))
    assert (extraction["status"], extraction["quotes"], extraction["finding"]) == (
        "evidence",
        [],
        cut.strip(),
    )
    assert "cut off by the token limit" in (extraction["error"] or "")
    assert (
        len([call for call in server.calls if not text_only or not call.body.keys() & STRUCTURED])
        == 2
    )


@pytest.mark.parametrize(
    "cut",
    [
        f'{{"relevant": false}} says that there is nothing. {WHOLE[:60]}',
        f"[{WHOLE}, {WHOLE[:60]}",
        f"{WHOLE}\n{WHOLE[:60]}",
        f'{{"record": {WHOLE}',
    ],
)
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_what_stands_whole_before_the_cut_is_not_taken_for_the_record(
    finish: str, cut: str, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    replying(server, Reply(cut, finish=finish), Reply(WHOLE))
    extraction = wait_for(LLMReader(chat).aextract(ASKED, DOCUMENTS, 0, CallBudget(retry_wait=0)))
    assert [quote["text"] for quote in extraction["quotes"]] == [WORDS]
    assert len([call for call in server.calls if not call.body.keys() & STRUCTURED]) == 2


def test_a_whole_record_with_nothing_but_blanks_up_to_the_limit_is_whole(
    chat: ChatOpenAI, server: OpenAIServer
) -> None:
    replying(server, Reply(WHOLE + "\n" * 40, finish="length"))
    assert wait_for(LLMReader(chat).aextract(ASKED, DOCUMENTS, 0, CallBudget()))["error"] is None
    assert len(server.calls) == 2


@pytest.mark.parametrize("thought", ["", "<think>Let me see. There are many"])
def test_a_reply_that_is_cut_off_before_it_says_anything_is_reported_and_not_tried_over_and_over(
    thought: str, chat: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: (
        Reply(thought, finish="length") if "Vitamin number 5 " in call.prompt else faithful(call)
    )
    built = build_graph(model=chat, retriever=disagreeing)
    answer = built.invoke({"question": QUESTION})["answer"]
    (warning,) = messages(answer, "partition_failed")
    assert warning.startswith("Partition 2 was not read (doc-4, doc-5, doc-6, doc-7): ")
    assert "was cut off by the token limit" in warning
    assert "max_tokens" in warning
    assert sum("Vitamin number 5 " in call.prompt for call in server.calls) == 2
    with pytest.raises(ModelCallError, match=r"cut off by the token limit.*max_tokens") as caught:
        built.invoke({"question": QUESTION}, context=Settings(route="vanilla"))
    assert "\n" not in str(caught.value)
    assert sum("Vitamin number 5 " in call.prompt for call in server.calls) == 3


def test_replies_that_were_cut_off_are_not_kept_in_the_cache(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    replying(
        server, Reply("It must never", finish="length"), Reply("It must never be."), text_only=False
    )
    budget, cache = CallBudget(), str(tmp_path / "replies.sqlite")
    texts = [
        wait_for(
            LLMReader("openai:scripted", arguments={"cache": cache}).aanswer(
                ASKED, DOCUMENTS, "vanilla", budget
            )
        )["text"]
        for _ in range(3)
    ]
    assert texts == ["It must never", "It must never be.", "It must never be."]
    assert [call["status"] for call in budget.calls] == ["ok", "ok", "cached"]
