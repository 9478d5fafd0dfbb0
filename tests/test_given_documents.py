"""Documents of the caller: the graph answers over them in their order, without a search."""

import re
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer

MAPPED = Settings(route="map_reduce", partition_size=2, max_retries=0)


def asked(documents: Any, **more: Any) -> Any:
    return {"question": QUESTION, "documents": documents, **more}


def shown(call: Call) -> list[str]:
    """The numbers of the documents that a call reads."""
    return [re.search(r"(?:group|number) (\d)", text)[1] for _, text in call.documents]


class UnusedRetriever(FixedRetriever):
    """Fails when it is asked."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        raise AssertionError("the retriever was asked")


@pytest.fixture
def built(chat_model: ChatOpenAI) -> Any:
    return build_graph(model=chat_model, retriever=UnusedRetriever(documents=[]))


def test_they_are_read_in_their_order_with_keys_and_ranks(built: Any, server: OpenAIServer) -> None:
    documents = list(reversed(make_documents(5, about=3)))
    state = built.invoke(asked(documents), context=MAPPED, output_keys=["ranking", "answer"])
    mapped = sorted(shown(call) for call in server.calls if call.stage == "extract")
    assert mapped == [["0"], ["2", "1"], ["4", "3"]]
    assert [document.metadata["rank"] for document in state["ranking"]] == [1, 2, 3, 4, 5]
    assert all(document.metadata["key"] for document in state["ranking"])
    for citation in state["answer"]["citations"]:
        place = int(citation["document_id"].removeprefix("doc-"))
        assert citation["source_id"] == f"src-{place}"
        assert citation["quote"] in documents[4 - place].page_content


async def test_they_may_be_mappings_as_json_has_them(built: Any) -> None:
    documents = [
        {"page_content": document.page_content, "metadata": document.metadata, "id": document.id}
        for document in make_documents(3, about=0)
    ]
    answer = (await built.ainvoke(asked(documents), context=MAPPED))["answer"]
    assert answer["citations"][0]["document_id"] == "doc-0"
    bare = (
        await built.ainvoke(
            asked([{"page_content": "Aspirin lowers the risk of stroke."}]), context=MAPPED
        )
    )["answer"]
    assert bare["citations"][0]["quote"] == "Aspirin lowers the risk of stroke."


def test_the_preflight_compares_their_order_with_bm25s(
    built: Any, disagreeing: FixedRetriever
) -> None:
    preflight = built.invoke(asked(disagreeing.documents))["answer"]["preflight"]
    assert preflight["dense_top"] == ["doc-0", "doc-1", "doc-2"]
    assert preflight["bm25_top"] == ["doc-8", "doc-9", "doc-10"]
    assert preflight["iou"] == 0


def test_retracted_ones_are_left_out_and_counted(built: Any) -> None:
    documents = make_documents(4, about=0)
    documents[2].metadata["retracted"] = True
    answer = built.invoke(asked(documents), context=MAPPED)["answer"]
    assert messages(answer, "retracted_left_out") == ["Retracted articles were left out: src-2."]
    gone = built.invoke(asked(documents[2:3]))["answer"]
    assert gone["text"].startswith(
        "All documents given with this question are retracted articles (1)"
    )


def test_an_empty_list_of_documents_is_an_abstention(built: Any, server: OpenAIServer) -> None:
    answer = built.invoke(asked([]))["answer"]
    assert (answer["route"], answer["abstained"]) == ("abstain", True)
    assert answer["text"].startswith("No document was given")
    assert server.calls == []


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ("Aspirin helps.", "must be a list of documents, best first, not str"),
        (
            [{"page_content": "Aspirin helps."}, {"text": "x"}],
            "Document 2 cannot be used: it needs a text",
        ),
        ([Document(page_content=" \n")], "a text that is not blank"),
        ([Document(page_content="x")] * 1025, "1,025 documents are given, and at most 1,024"),
    ],
)
def test_malformed_documents_are_refused(built: Any, documents: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        built.invoke(asked(documents))
