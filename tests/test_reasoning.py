"""Reasoning in tags is no part of an answer, an extraction or a quote."""

import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI

from briefcontext.chains.model.reply import without_reasoning
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply, faithful

THOUGHT = (
    'Quotes:\n[X] a stray thought.\nConflict: yes\nNO ANSWER: is it? {"relevant": false} Choice: '
    "A.\n"
)
THINKING = {
    "think": f"<think>{THOUGHT}</think>\n\n",
    "unopened": f"{THOUGHT}</think>\n\n",
    "one in the other": f"<think>{THOUGHT}<think>again</think> and on.</think>",
}
ASKED: Any = {"question": QUESTION, "options": {"A": "yes", "B": "no"}}

_names = (f"thinker-{number}" for number in itertools.count())


@pytest.fixture
def chat(server: OpenAIServer) -> ChatOpenAI:
    """A client of a model with a unique name."""
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
def test_reasoning_tags_do_not_change_the_answer(
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
    ("pieces", "expected"),
    [
        (["<think>", "Hm. ", "</think>", "\n\n", "It ", "helps."], [("It ", 1), ("helps.", 1)]),
        (
            ["<", "thi", "nk", ">Hm", ".</", "think", ">\n\nIt", " helps."],
            [("It", 1), (" helps.", 1)],
        ),
        (
            ["Hm. ", "Well.", "</thi", "nk> It ", "helps."],
            [("Hm. ", 1), ("Well.", 1), ("It ", 2), ("helps.", 2)],
        ),
    ],
)
def test_tokens_of_a_thought_are_not_those_of_the_answer(
    pieces: list[str],
    expected: Any,
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
            heard += [(token["text"], token["attempt"]) for token in tokens.read(part)]
        else:
            answer = part.get("answer", {}).get("text")
    assert heard == expected
    assert answer == "".join(text for text, attempt in heard if attempt == heard[-1][1]).strip()


TAGS = ["<think>", "</think>"]
OTHERS = ["<", ">", "/", "th", "ink", "It helps. ", "\n", " ", "a<b", "</document>"]
WORDS = st.lists(st.sampled_from([*TAGS, *OTHERS]), max_size=12).map("".join)


@given(text=WORDS, cuts=st.lists(st.integers(0, 100), max_size=20))
def test_streamed_tokens_equal_the_whole_reply(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    tokens, pieces = (
        AnswerTokens(),
        [AIMessageChunk(text[start:end]) for start, end in itertools.pairwise(places)],
    )
    expected = [token for piece in pieces for token in tokens.read((piece, {"stage": "reduce"}))]
    expected += tokens.read((AIMessage(""), {"stage": "reduce"}))
    said = "".join(
        token["text"] for token in expected if token["attempt"] == expected[-1]["attempt"]
    )
    whole = without_reasoning(text)
    assert said == whole or not whole.strip()
