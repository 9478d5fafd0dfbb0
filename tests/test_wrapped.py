"""Retrievers and documents from elsewhere: asked for k, and completed."""

from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from briefcontext.errors import InputError
from briefcontext.retrievers.ranking_retriever import WrappedRetriever, as_passages

QUESTION = "Does aspirin lower the risk of stroke?"
DOCUMENTS = [
    Document(id=f"d{i}", page_content=f"Aspirin, trial {i}.", metadata={"year": 2000 + i})
    for i in range(6)
]


def ids(documents: list[Document]) -> list[str]:
    return [str(document.id) for document in documents]


class ListRetriever(BaseRetriever):
    """Returns its documents, however many."""

    documents: list[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.documents


class FieldRetriever(ListRetriever):
    """Returns the number of documents that it is configured for."""

    top_k: int = 2

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.documents[: self.top_k]


@pytest.mark.parametrize(
    ("retriever", "expected"),
    [
        (ListRetriever(documents=DOCUMENTS), ["d0", "d1", "d2", "d3"]),
        (FieldRetriever(documents=DOCUMENTS), ["d0", "d1"]),
        (FieldRetriever(documents=DOCUMENTS, top_k=9), ["d0", "d1", "d2", "d3"]),
        (RunnableLambda(lambda query: list(DOCUMENTS)), ["d0", "d1", "d2", "d3"]),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_the_first_k_documents_of_a_retriever_are_kept(
    retriever: Any, expected: list[str]
) -> None:
    wrapped = WrappedRetriever(retriever=retriever, k=4)
    assert ids(wrapped.invoke(QUESTION)) == ids(await wrapped.ainvoke(QUESTION)) == expected


def test_a_vector_store_is_asked_for_k_documents() -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(id=str(n), page_content=f"Text {n}.") for n in range(9)])
    retriever = store.as_retriever()
    assert len(WrappedRetriever(retriever=retriever, k=7).invoke(QUESTION)) == 7
    assert retriever.search_kwargs == {}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.9, np.float32(0.5), 0.5], [0.9, 0.5, 0.5]),
        ([0.1, 0.5, 0.9], [1, 1 / 2, 1 / 3]),
        ([0.9, None, 0.5], [1, 1 / 2, 1 / 3]),
        (["high", "mid", "low"], [1, 1 / 2, 1 / 3]),
    ],
    ids=["similarities", "distances", "one missing", "words"],
)
def test_scores_are_kept_when_they_can_be_scores(scores: list[Any], expected: list[float]) -> None:
    documents = [
        Document(id=str(place), page_content="text", metadata={"score": score})
        for place, score in enumerate(scores)
    ]
    found = WrappedRetriever(retriever=ListRetriever(documents=documents)).invoke(QUESTION)
    assert [document.metadata["score"] for document in found] == pytest.approx(expected)


@pytest.mark.parametrize("result", ["an answer", ["a", "b"], None])
def test_a_result_other_than_documents_is_refused(result: object) -> None:
    with pytest.raises(InputError, match="RunnableLambda"):
        WrappedRetriever(retriever=RunnableLambda(lambda query: result)).invoke(QUESTION)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            Document(
                id="u1", page_content="text", metadata={"source": "guide.pdf", "start_index": 40}
            ),
            {
                "source_id": "guide.pdf",
                "title": "",
                "kind": "document",
                "chunk_index": 0,
                "start": 40,
                "end": 44,
            },
        ),
        (
            Document(page_content="text", metadata={"source": "a.csv", "row": 3, "pmid": 31}),
            {"source_id": "31"},
        ),
        (
            Document(
                page_content="text",
                metadata={
                    "uid": "31",
                    "Title": "Bees",
                    "Published": "2011-5-3",
                    "Copyright Information": "",
                },
            ),
            {
                **{"source_id": "31", "pmid": "31", "title": "Bees", "year": "2011-5-3"},
                "url": "https://pubmed.ncbi.nlm.nih.gov/31/",
            },
        ),
        (
            Document(id="u1", page_content="text", metadata={"source_id": "31", "source": "x"}),
            {"source_id": "31"},
        ),
    ],
)
def test_documents_from_elsewhere_become_passages(
    document: Document, expected: dict[str, Any]
) -> None:
    (passage,) = as_passages([document])
    assert passage.id
    assert passage.page_content == document.page_content
    assert expected.items() <= passage.metadata.items()


def test_ids_are_unique_and_the_same_every_time() -> None:
    documents = [
        Document(page_content="one"),
        Document(page_content="two"),
        Document(page_content="one"),
        Document(id="x", page_content="one"),
        Document(id="x", page_content="two"),
        Document(id="x", page_content="two"),
        Document(page_content="one", metadata={"source": "a.txt"}),
    ]
    passages = as_passages(documents)
    assert [passage.page_content for passage in passages] == ["one", "two", "one", "two", "one"]
    assert len(set(ids(passages))) == 5
    assert ids(as_passages(documents)) == ids(passages)
    assert as_passages(passages) == passages
