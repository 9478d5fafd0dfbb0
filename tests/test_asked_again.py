"""Replies that are no answer: each is asked for once more, and that is said; none is shown as an answer."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import ModelCallError
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import kinds
from tests.openai_server import EVIDENCE, Call, OpenAIServer, Reply, faithful

NO_ANSWERS: dict[str, Callable[[Call], str]] = {
    "a closing tag": lambda call: "</evidence>",
    "a confidence": lambda call: "Confidence: 0.80",
    "both": lambda call: "**Confidence:** 80%\n</document 7K3W>\n",
    "no letter": lambda call: "...",
    "an announcement": lambda call: "Sure! Here is the answer:\n",
    "quotes alone": lambda call: '**Quotes:**\n[7K3W] "It is so."',
    "the question": lambda call: f"Question: {QUESTION}",
    "the instruction": lambda call: call.system,
    "a part of it": lambda call: "\n".join(call.system.splitlines()[1:3]),
    "the documents": lambda call: call.prompt.partition("\n\n")[2],
}
ANSWERS = [
    "Yes.",
    "NO ANSWER: nothing is said of it.",
    "NO ANSWER:",
    "Choice: A",
    "Aspirin does lower the risk of stroke in group 0.",
    "Evidence is thin, and confidence low.",
]


def _ask(chat: ChatOpenAI, route: str, **question: Any) -> dict[str, Any]:
    built = build_graph(model=chat, retriever=FixedRetriever(documents=make_documents(4, about=0)))
    settings = Settings(route=route, max_retries=0)
    answer: dict[str, Any] = built.invoke({"question": QUESTION, **question}, context=settings)[
        "answer"
    ]
    return answer


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
@pytest.mark.parametrize("reply", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_reply_that_is_no_answer_is_asked_for_again(
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


def test_two_replies_that_are_no_answer_are_an_error(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply("Confidence: 0.80")
    with pytest.raises(
        ModelCallError, match="gave no answer, twice; of its last reply: it holds no sentence"
    ):
        _ask(chat_model, "vanilla")
    assert len(server.calls) == 2


def test_who_repeats_that_it_was_no_answer_gives_none(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(call.body["messages"][-1]["content"])
    with pytest.raises(
        ModelCallError, match="gave no answer, twice; of its last reply: it repeats the prompt"
    ):
        _ask(chat_model, "vanilla")


@pytest.mark.parametrize(
    ("reply", "abstained"),
    [
        ("NO ANSWER: it is not in the documents.", True),
        ("Not answered: whether it is safe.", True),
        ("Aspirin helps [{key}].\nNot answered: the dose", False),
        ("I cannot overstate how well it works: it halves mortality.", False),
        ("There is no trial of aspirin in stroke.", False),
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
def test_a_short_answer_is_one(reply: str, chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    server.script = lambda call: Reply(reply)
    _ask(chat_model, "vanilla", options={"A": "yes", "B": "no"})
    assert len(server.calls) == 1


def test_stray_lines_are_taken_out_of_an_answer(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(
        f"So it is [{call.documents[0][0]}].\n</evidence>\nConfidence: 0.80\nMy confidence: high."
    )
    assert _ask(chat_model, "vanilla")["text"] == "So it is [1].\nMy confidence: high."
    assert len(server.calls) == 1


def test_the_second_answers_tokens_take_the_place_of_the_first_ones(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        faithful(call) if len(call.body["messages"]) > 2 else Reply("</evidence>")
    )
    built = build_graph(
        model=chat_model, retriever=FixedRetriever(documents=make_documents(4, about=0))
    )
    settings = Settings(route="vanilla", max_retries=0)
    tokens = AnswerTokens()
    parts: Any = built.stream({"question": QUESTION}, context=settings, stream_mode="messages")
    told = [token for part in parts for token in tokens.read(part)]
    last = "".join(token["text"] for token in told if token["attempt"] == told[-1]["attempt"])
    assert told[-1]["attempt"] == 2
    assert last.startswith("Point holds [")
    assert "</evidence>" not in last
