"""Partitions read in parts: failed parts are named, and the others are kept."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.nodes import IN_PARTS
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.notes import kinds, messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

WINDOW = 1500
"""Tokens; with the instructions, a part holds two of the documents below."""

FAILURES = {
    "broken": Reply(status=500),
    "too many": Reply("content policy", status=403),
    "silent": Reply(""),
}


def make_documents(count: int, *, sentences: int = 20) -> list[Document]:
    """Make documents of which few fit into the window at once."""
    return [
        Document(
            id=f"doc-{place}",
            page_content=f"Aspirin lowers the risk of stroke in group {place}. "
            + " ".join(
                f"Patient {place}.{number} took part in the trial to its end."
                for number in range(sentences)
            ),
            metadata={"source_id": f"src-{place}", "title": f"Title {place}"},
        )
        for place in range(count)
    ]


def failing(words: str, failure: Reply) -> Any:
    """Fail to extract from what has certain words."""
    return lambda call: (
        failure if call.stage == "extract" and words in call.prompt else faithful(call)
    )


def parts(server: OpenAIServer) -> list[Call]:
    """Return the calls that read a part."""
    return [call for call in server.calls if call.stage == "extract"]


def read_ids(calls: list[Call]) -> set[str]:
    """Return the ids of the documents that calls read."""
    return {f"doc-{text[6]}" for call in calls for _, text in call.documents}


def ask(reader: Any, documents: list[Document], **settings: Any) -> Answer:
    """Ask the question over documents in one partition, which exceeds the window."""
    built = build_graph(reader=reader, retriever=FixedRetriever(documents=documents))
    context = Settings(
        **{
            "route": "map_reduce",
            "partition_size": 6,
            "max_input_tokens": WINDOW,
            "max_retries": 0,
            **settings,
        }
    )
    answer: Answer = built.invoke({"question": QUESTION}, context=context)["answer"]
    return answer


@pytest.mark.parametrize(
    ("failure", "route"),
    [("broken", "vanilla"), ("too many", "order_preserving"), ("silent", "map_reduce")],
)
def test_a_part_that_fails_is_named_and_the_others_are_kept(
    failure: str, route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = failing("in group 5", FAILURES[failure])
    answer = ask(chat_model, make_documents(6), route=route)
    (failed,) = [
        extraction for extraction in answer["extractions"] if extraction["status"] == "failed"
    ]
    lost = {*failed["document_ids"]}
    assert lost == read_ids([call for call in parts(server) if "in group 5" in call.prompt])
    assert 0 < len(lost) < 6
    (caution,) = messages(answer, "partition_failed")
    assert caution.startswith(
        f"Partition {failed['index'] + 1} was not read ({', '.join(sorted(lost))}): "
    )
    assert {citation["document_id"] for citation in answer["citations"]} == {
        f"doc-{n}" for n in range(6)
    } - lost
    assert answer["usage"]["calls"] == len(server.all_calls)


def test_an_abstention_names_unread_parts(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    def script(call: Call) -> Reply:
        return Reply(status=500) if "in group 5" in call.prompt else Reply('{"relevant": false}')

    server.script = script
    answer = ask(chat_model, make_documents(6))
    assert answer["abstained"]
    count = len(answer["extractions"])
    assert f"of {count} partitions 1 could not be read" in answer["text"]
    assert any("doc-5" in message for message in messages(answer, "partition_failed"))


@pytest.mark.parametrize(
    ("route", "read"), [("order_preserving", "543210"), ("vanilla", "012345"), ("auto", "543210")]
)
def test_parts_keep_the_order_of_the_call_that_they_replace(
    route: str, read: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = make_documents(6)
    for place, document in enumerate(documents):
        document.metadata |= {"source_id": "one", "start": 100 - place}
        document.page_content = "aspirin stroke " * (6 - place) + document.page_content
    answer = ask(chat_model, documents, route=route, fallback="order_preserving", iou_threshold=0.0)
    assert answer["route"] == "map_reduce"
    assert [id for extraction in answer["extractions"] for id in extraction["document_ids"]] == [
        f"doc-{place}" for place in read
    ]
    assert kinds(answer).count(IN_PARTS) == 1
