"""What the answer says when there is none: no more than is true."""

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.knowledge_base import BM25Retriever
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply

ASKED: Any = {"question": QUESTION}
INVENTED = {
    "relevant": True,
    "quotes": [{"key": "2A2A", "quote": "Nobody ever wrote these words."}],
    "finding": "Yes.",
}


def _abstention(chat: ChatOpenAI, documents: list[Document]) -> str:
    built = build_graph(model=chat, retriever=FixedRetriever(documents=documents))
    answer = built.invoke(ASKED, context=Settings(route="map_reduce", max_retries=0))["answer"]
    assert answer["abstained"]
    return answer["text"]


def _first_fails(call: Call) -> Reply:
    return Reply(status=500) if "Title 0" in call.user else Reply('{"relevant": false}')


def _first_invents(call: Call) -> Reply:
    return Reply(json.dumps(INVENTED) if "Title 0" in call.user else '{"relevant": false}')


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (lambda call: Reply('{"relevant": false}'), "none of them contains evidence"),
        (_first_fails, "of 2 partitions 1 could not be read"),
        (_first_invents, "1 gave only quotes that are not in them"),
    ],
    ids=["nothing relevant", "a partition failed", "quotes invented"],
)
def test_the_reason_tells_what_was_not_read_or_not_used(
    script: Any, reason: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = script
    text = _abstention(chat_model, make_documents(8, about=0))
    assert reason in text
    assert ("They may contain evidence" in text) == ("none of them" not in text)


def test_documents_that_are_all_retracted_were_found(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = make_documents(3, about=0)
    for document in documents:
        document.metadata["retracted"] = True
    assert "retracted articles (3)" in _abstention(chat_model, documents)
    assert "No document was retrieved" in _abstention(chat_model, [])
    assert server.calls == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((name, "openai:other") for name in ("model", "extract_model", "prompts")),
        ("model_arguments", {"top_p": 1}),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_settings_that_a_graphs_own_reader_would_not_hear_are_refused(
    setting: str, value: Any, asynchronous: bool, chat_model: ChatOpenAI, disagreeing: BaseRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing)
    context = Settings(**{setting: value})
    with pytest.raises(InputError, match=setting):
        _ = (
            await built.ainvoke(ASKED, context=context)
            if asynchronous
            else built.invoke(ASKED, context=context)
        )


def test_bm25_is_not_compared_with_itself(chat_model: ChatOpenAI) -> None:
    built = build_graph(
        model=chat_model, retriever=BM25Retriever.from_documents(make_documents(8, about=0))
    )
    answer = built.invoke(ASKED)["answer"]
    assert answer["route"] == "map_reduce"
    assert "no second ranking" in answer["preflight"]["reason"]
    assert built.invoke(ASKED, context=Settings(route="vanilla"))["answer"]["route"] == "vanilla"
