"""The retrievers: documents with rank and score, best first, for any number asked for."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.knowledge_base import (
    BM25Retriever,
    DenseRetriever,
    HybridRetriever,
    MedCPTRetriever,
    RerankingRetriever,
)
from briefcontext.retrievers.ranking_retriever import RankingRetriever, WrappedRetriever

QUESTION = "Does aspirin lower the risk of stroke?"
TOPICS = ["stroke", "fever", "sepsis", "asthma", "gout", "migraine"]
DOCUMENTS = [
    Document(
        id=f"d{i}",
        page_content=f"Aspirin was tried in {topic}{' and stroke' * (i % 2)}.",
        metadata={
            "source_id": f"d{i}",
            "title": f"Trial {i}",
            "kind": "abstract",
            "year": 2000 + i,
        },
    )
    for i, topic in enumerate(TOPICS)
]


def build(folder: Path, documents: Sequence[Document], name: str = "letters") -> KnowledgeBase:
    encoder = EmbeddingsEncoder(DeterministicFakeEmbedding(size=8), name=name)
    build_knowledge_base(documents, folder, encoder=encoder)
    return KnowledgeBase.open(folder, encoder=encoder)


@pytest.fixture(scope="module")
def knowledge_base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with build(tmp_path_factory.mktemp("base") / "kb", DOCUMENTS) as base:
        yield base


class LengthScorer:
    """Prefers short passages."""

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return np.array([-len(text) for _, text in passages], dtype=np.float32)


class ListRetriever(BaseRetriever):
    """Returns its documents, however many."""

    documents: list[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.documents


def vector_store() -> InMemoryVectorStore:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(DOCUMENTS)
    return store


Maker = Callable[..., RankingRetriever]
MAKERS: dict[str, Callable[[KnowledgeBase], Maker]] = {
    "dense": lambda base: lambda **k: DenseRetriever(knowledge_base=base, **k),
    "bm25": lambda base: lambda **k: BM25Retriever(knowledge_base=base, **k),
    "bm25 from documents": lambda base: lambda **k: BM25Retriever.from_documents(DOCUMENTS, **k),
    "hybrid": lambda base: (
        lambda **k: HybridRetriever(
            retrievers=[DenseRetriever(knowledge_base=base), BM25Retriever(knowledge_base=base)],
            **k,
        )
    ),
    "wrapped": lambda base: (
        lambda **k: WrappedRetriever(retriever=ListRetriever(documents=DOCUMENTS), **k)
    ),
    "vector store": lambda base: lambda **k: WrappedRetriever.from_vectorstore(vector_store(), **k),
    "reranking": lambda base: (
        lambda **k: RerankingRetriever(
            retriever=DenseRetriever(knowledge_base=base), scorer=LengthScorer(), **k
        )
    ),
}


@pytest.fixture(params=list(MAKERS))
def maker(request: pytest.FixtureRequest, knowledge_base: KnowledgeBase) -> Maker:
    return MAKERS[request.param](knowledge_base)


def ids(documents: Sequence[Document]) -> list[str]:
    return [str(document.id) for document in documents]


def test_every_document_carries_rank_and_falling_score(maker: Maker) -> None:
    found = maker().invoke(QUESTION)
    assert [document.metadata["rank"] for document in found] == list(range(1, len(TOPICS) + 1))
    scores = [document.metadata["score"] for document in found]
    assert all(type(score) is float for score in scores)
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("k", [4, 50])
def test_k_is_set_for_the_retriever_or_for_one_call(maker: Maker, k: int) -> None:
    everything = ids(maker(k=100).invoke(QUESTION))
    assert len(everything) == len(TOPICS)
    assert ids(maker(k=k).invoke(QUESTION)) == ids(maker().invoke(QUESTION, k=k)) == everything[:k]


@pytest.mark.parametrize("k", [0])
async def test_a_bad_k_is_refused(maker: Maker, k: int) -> None:
    with pytest.raises(InputError, match=f"not {k}"):
        maker(k=k)
    with pytest.raises(InputError, match=f"not {k}"):
        maker().invoke(QUESTION, k=k)
    with pytest.raises(InputError, match=f"not {k}"):
        await maker().ainvoke(QUESTION, k=k)


class TestDenseRetrieverIsStandard(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with_base(self, knowledge_base: KnowledgeBase) -> None:
        self.base = knowledge_base

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return DenseRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"knowledge_base": self.base}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestBM25RetrieverIsStandard(TestDenseRetrieverIsStandard):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return BM25Retriever


class TestHybridRetrieverIsStandard(TestDenseRetrieverIsStandard):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HybridRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {
            "retrievers": [
                DenseRetriever(knowledge_base=self.base),
                BM25Retriever(knowledge_base=self.base),
            ]
        }


class TestWrappedRetrieverIsStandard(TestDenseRetrieverIsStandard):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return WrappedRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": vector_store().as_retriever()}


class TestRerankingRetrieverIsStandard(TestDenseRetrieverIsStandard):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return RerankingRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": DenseRetriever(knowledge_base=self.base), "scorer": LengthScorer()}


# Dense


def test_medcpt_refuses_a_base_of_another_encoder(knowledge_base: KnowledgeBase) -> None:
    with pytest.raises(KnowledgeBaseError, match="'letters'"):
        MedCPTRetriever(knowledge_base=knowledge_base)


# BM25


def test_bm25_finds_terms_and_leaves_the_rest_out(knowledge_base: KnowledgeBase) -> None:
    for retriever in (
        BM25Retriever(knowledge_base=knowledge_base),
        BM25Retriever.from_documents(DOCUMENTS),
    ):
        found = retriever.invoke("gout, or migraine")
        assert ids(found) == ["d4", "d5"]
        assert retriever.invoke("the") == []


# Hybrid


def listed(*names: str) -> ListRetriever:
    return ListRetriever(documents=[Document(id=name, page_content=name) for name in names])


def test_hybrid_fuses_any_retrievers() -> None:
    hybrid = HybridRetriever(retrievers=[listed("a", "b", "c"), listed("c", "d", "b")])
    found = hybrid.invoke(QUESTION)
    assert ids(found) == ["c", "b", "a", "d"]
    assert found[0].metadata["score"] == pytest.approx(1 / 61 + 1 / 63)


# Reranking


def test_reranking_puts_the_scorers_best_first() -> None:
    reranking = RerankingRetriever(
        retriever=listed("long one", "b", "mid", "c"), scorer=LengthScorer(), k=3
    )
    found = reranking.invoke(QUESTION)
    assert ids(found) == ["b", "c", "mid"]
    assert [document.metadata["score"] for document in found] == [-1, -1, -3]
