"""Follow-ups: the model rewrites them into complete questions."""

from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from starlette.testclient import TestClient

from briefcontext.errors import InputError, ModelCallError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.page.app import create_app
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import OpenAIServer, Reply, faithful

WHOLE = "Does aspirin lower the risk of stroke in children?"
FOLLOW_UP: Any = {"question": "And in children?", "earlier": [QUESTION]}
SETTINGS = Settings(route="vanilla", max_retries=0)


def rewriting(reply: str) -> Any:
    return lambda call: Reply(reply) if "You rewrite a follow-up" in call.system else faithful(call)


@pytest.mark.parametrize(
    "reply",
    [
        WHOLE,
        f"Question: {WHOLE}\n",
        f"Here is the rewritten question:\n\n{WHOLE}",
        f"I cannot give more than the question.\n{WHOLE}",
    ],
)
def test_a_follow_up_is_answered_as_the_rewritten_question(
    reply: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = rewriting(reply)
    graph = build_graph(
        model=chat_model, retriever=FixedRetriever(documents=make_documents(4, about=0))
    )
    parts = list(graph.stream(FOLLOW_UP, context=SETTINGS, stream_mode=["custom", "values"]))
    assert ("custom", {"event": "rewritten", "question": WHOLE}) in parts
    rewrite, answer = server.calls
    assert f"- {QUESTION}\n\nFollow-up: And in children?" in rewrite.user
    assert f"Question: {WHOLE}" in answer.user
    assert "And in children?" not in answer.user
    last: Any = parts[-1][1]
    assert last["answer"]["usage"]["calls"] == 3
    assert set(last["answer"]["usage"]["stages"]) == {"follow_up", "vanilla", "verify"}


def test_a_follow_up_on_a_thread_knows_what_was_asked_there(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = rewriting(WHOLE)
    documents = FixedRetriever(documents=make_documents(4, about=0))
    graph = build_graph(model=chat_model, retriever=documents, checkpointer=InMemorySaver())
    threads: list[Any] = [{"configurable": {"thread_id": thread}} for thread in "12"]
    for question, follow_up in (
        (QUESTION, False),
        ("And in children?", True),
        ("And in Europe?", True),
        (WHOLE, None),
    ):
        asked: Any = {"question": question, "follow_up": follow_up}
        answer = graph.invoke(asked, threads[0], context=SETTINGS)["answer"]
        assert answer["question"] == (WHOLE if follow_up else question)
    rewrites = [
        call.user for call in server.calls if call.stage == "answer" and "Follow-up:" in call.user
    ]
    assert [QUESTION in rewrites[0], WHOLE in rewrites[1], len(rewrites)] == [True, True, 2]
    with pytest.raises(InputError, match="Nothing was asked"):
        graph.invoke(
            {"question": "And in children?", "follow_up": True}, threads[1], context=SETTINGS
        )


@pytest.mark.parametrize(
    "reply", ["Here is the question:", "I cannot rewrite this. As an AI, I only help."]
)
def test_a_model_that_writes_no_question_is_an_error(
    reply: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = rewriting(reply)
    graph = build_graph(
        model=chat_model, retriever=FixedRetriever(documents=make_documents(4, about=0))
    )
    with pytest.raises(ModelCallError, match="did not rewrite"):
        graph.invoke(FOLLOW_UP, context=SETTINGS)


@pytest.mark.parametrize("earlier", ["x", [""], ["x"] * 9])
def test_earlier_questions_are_checked(
    earlier: Any, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    graph = build_graph(
        model=chat_model, retriever=FixedRetriever(documents=make_documents(4, about=0))
    )
    with pytest.raises(InputError):
        graph.invoke({"question": QUESTION, "earlier": earlier}, context=SETTINGS)
    page = TestClient(
        create_app(SETTINGS, graph=graph), client=("127.0.0.1", 1), base_url="http://127.0.0.1"
    )
    assert page.post("/api/ask", json={"question": QUESTION, "earlier": earlier}).status_code == 400
    assert server.calls == []
