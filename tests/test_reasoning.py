"""Models that think aloud, in tags, before they answer: nothing of it is an answer, an extraction or a quote."""

import itertools
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.reply import without_reasoning
from briefcontext.chains.model.reply_cache import ReplyCache
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.errors import ModelCallError
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply, faithful

THOUGHT = 'Quotes:\n[X] a stray thought.\nConflict: yes\nNO ANSWER: is it? {"relevant": false} Choice: A.\n'
THINKING = {
    "think": f"<think>{THOUGHT}</think>\n\n",
    "unopened": f"{THOUGHT}</think>\n\n",
    "twice": f"<think>{THOUGHT}</think><think>{THOUGHT}</think>",
    "one in the other": f"<think>{THOUGHT}<think>again</think> and on.</think>",
    "after a line": f"\n<think>{THOUGHT}</think>",
    "empty": "<think>\n\n</think>\n\n",
}
DOCUMENTS = assign_keys(QUESTION, make_documents(4, about=0))
ASKED: Any = {"question": QUESTION, "options": {"A": "yes", "B": "no"}}

_names = (f"thinker-{number}" for number in itertools.count())


@pytest.fixture
def chat(server: OpenAIServer) -> ChatOpenAI:
    """A client of a model with a name of its own."""
    return ChatOpenAI(model=next(_names), base_url=server.url, api_key="none", max_retries=0)


def thinking(thought: str) -> Any:
    """Be a model that thinks, then replies as usual; a provider that takes text only."""

    def script(call: Call) -> Reply:
        if call.body.keys() & {"response_format", "tools"}:
            return Reply("not supported", status=400)
        reply = faithful(call)
        body, *quotes = reply.content.split("\nQuotes:")
        choice = "" if call.stage == "extract" else "\nChoice: B"
        return Reply("\nQuotes:".join([thought + body + choice, *quotes]))

    return script


@pytest.mark.parametrize("route", ["map_reduce", "vanilla"])
@pytest.mark.parametrize("thought", THINKING)
def test_a_model_that_thinks_aloud_gives_the_answer_of_one_that_does_not(
    thought: str, route: Any, chat: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    answers, calls = [], []
    for said in ("", THINKING[thought]):
        server.script = thinking(said)
        server.calls.clear()
        built = build_graph(model=chat, retriever=disagreeing)
        answers.append(built.invoke(ASKED, context=Settings(route=route, max_retries=0))["answer"])
        calls.append(
            [call for call in server.calls if not call.body.keys() & {"response_format", "tools"}]
        )
    plain, thought_over = answers
    assert plain["choice"] == "B"
    assert len(plain["citations"]) == 16
    for field in ("text", "choice", "abstained", "citations", "conflict", "extractions", "notes"):
        assert thought_over[field] == plain[field], field
    assert len(calls[0]) == len(calls[1]), "no repair was paid for"
    assert not any("stray thought" in call.prompt for call in calls[1])


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (["<think>", "Hm. ", "</think>", "\n\n", "It ", "helps."], [("It ", 1), ("helps.", 1)]),
        (
            ["<", "thi", "nk", ">Hm", ".</", "think", ">\n\nIt", " helps."],
            [("It", 1), (" helps.", 1)],
        ),
        (["It <", "b>helps</", "b>."], [("It ", 1), ("<b>helps", 1), ("</b>.", 1)]),
        (["p <", " 0.05 it helps"], [("p ", 1), ("< 0.05 it helps", 1)]),
        (
            ["Hm. ", "Well.", "</thi", "nk> It ", "helps."],
            [("Hm. ", 1), ("Well.", 1), ("It ", 2), ("helps.", 2)],
        ),
    ],
)
def test_tokens_of_a_thought_are_not_those_of_the_answer(
    pieces: list[str],
    told: Any,
    chat: ChatOpenAI,
    server: OpenAIServer,
    disagreeing: FixedRetriever,
) -> None:
    server.script = lambda call: Reply(pieces=pieces)
    built = build_graph(model=chat, retriever=disagreeing)
    tokens, heard, answer = AnswerTokens(), [], ""
    for mode, part in built.stream(
        ASKED, context=Settings(route="vanilla"), stream_mode=["messages", "values"]
    ):
        if mode == "messages":
            heard += [(token["text"], token["attempt"]) for token in tokens.read(part)]  # type: ignore[arg-type]
        else:
            answer = part.get("answer", {}).get("text")  # type: ignore[union-attr]
    assert heard == told
    assert answer == "".join(text for text, attempt in heard if attempt == heard[-1][1]).strip()


@pytest.mark.parametrize("method", ["answer", "extract"])
def test_a_reply_that_is_nothing_but_a_thought_is_an_empty_one(
    method: str, chat: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply("<think>Let me see")
    reader, budget = LLMReader(chat), CallBudget(max_retries=1, retry_wait=0)
    calls: dict[str, Any] = {
        "answer": partial(reader.aanswer, stage="vanilla"),
        "extract": partial(reader.aextract, index=0),
    }
    with pytest.raises(ModelCallError, match=r"called 2 times .* the reply was empty"):
        wait_for(calls[method](check_question(QUESTION), DOCUMENTS, budget=budget))
    assert len(server.calls) == 2 == len(budget.calls)
    assert {call["status"] for call in budget.calls} == {"failed"}


TAGS = ["<think>", "</think>"]
OTHERS = ["<", ">", "/", "th", "ink", "It helps. ", "\n", " ", "a<b", "</document>"]
WORDS = st.lists(st.sampled_from([*TAGS, *OTHERS]), max_size=12).map("".join)


@given(text=WORDS, cuts=st.lists(st.integers(0, 100), max_size=20))
def test_what_is_told_in_pieces_is_what_the_whole_reply_says(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    tokens, pieces = (
        AnswerTokens(),
        [AIMessageChunk(text[start:end]) for start, end in itertools.pairwise(places)],
    )
    told = [token for piece in pieces for token in tokens.read((piece, {"stage": "reduce"}))]
    told += tokens.read((AIMessage(""), {"stage": "reduce"}))
    said = "".join(token["text"] for token in told if token["attempt"] == told[-1]["attempt"])
    whole = without_reasoning(text)
    assert said == whole or not whole.strip()


@given(text=WORDS)
def test_a_reply_without_tags_is_left_as_it_is(text: str) -> None:
    plain = text.replace("<", "(")
    assert without_reasoning(plain) == plain


def test_a_thought_alone_is_not_kept_in_the_cache(tmp_path: Any) -> None:
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration

    cache = ReplyCache(tmp_path / "replies.sqlite")
    for said, kept in (("<think>Well", False), ("<think>Well</think>Yes.", True)):
        cache.update(said, "model", [ChatGeneration(message=AIMessage(said))])
        assert (cache.lookup(said, "model") is not None) == kept
