"""The retrievers: documents with rank and score, best first, for any number asked for."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
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


@pytest.fixture(scope="module")
def medcpt_base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with build(tmp_path_factory.mktemp("medcpt") / "kb", DOCUMENTS, name="medcpt:/weights") as base:
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


def test_every_document_carries_its_metadata(maker: Maker) -> None:
    originals = {document.id: document for document in DOCUMENTS}
    for document in maker().invoke(QUESTION):
        original = originals[document.id]
        assert document.page_content == original.page_content
        assert original.metadata.items() <= document.metadata.items()


@pytest.mark.parametrize("k", [1, 4, 6, 50])
def test_k_is_set_for_the_retriever_or_for_one_call(maker: Maker, k: int) -> None:
    everything = ids(maker(k=100).invoke(QUESTION))
    assert len(everything) == len(TOPICS)
    assert ids(maker(k=k).invoke(QUESTION)) == ids(maker().invoke(QUESTION, k=k)) == everything[:k]


async def test_async_finds_what_sync_finds(maker: Maker) -> None:
    assert await maker().ainvoke(QUESTION) == maker().invoke(QUESTION)
    assert await maker().ainvoke(QUESTION, k=2) == maker().invoke(QUESTION, k=2)


@pytest.mark.parametrize("k", [0, -3])
async def test_a_bad_k_is_refused(maker: Maker, k: int) -> None:
    with pytest.raises(InputError, match=f"not {k}"):
        maker(k=k)
    with pytest.raises(InputError, match=f"not {k}"):
        maker().invoke(QUESTION, k=k)
    with pytest.raises(InputError, match=f"not {k}"):
        await maker().ainvoke(QUESTION, k=k)


def test_an_unknown_option_is_refused(maker: Maker) -> None:
    with pytest.raises((InputError, TypeError), match="top_n"):
        maker(top_n=3)


async def test_filters_that_are_none_are_refused(maker: Maker) -> None:
    with pytest.raises(InputError, match=r"filters are Filters\(.*not {'years': '2015-'}"):
        maker().invoke(QUESTION, filters={"years": "2015-"})
    with pytest.raises(InputError, match=r"filters are Filters"):
        await maker().ainvoke(QUESTION, filters={"years": "2015-"})


@pytest.mark.parametrize("kind", [DenseRetriever, BM25Retriever])
def test_a_base_may_be_named_by_its_folder(kind: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    build(folder, DOCUMENTS)
    retriever = kind(knowledge_base=str(folder))
    assert (
        retriever.knowledge_base.path == kind(knowledge_base=folder).knowledge_base.path == folder
    )
    with pytest.raises(KnowledgeBaseError, match="no knowledge base at nope"):
        kind(knowledge_base="nope")
    with pytest.raises(InputError, match=f"{kind.__name__} cannot be made: knowledge_base"):
        kind(knowledge_base=None)


def test_retrieving_leaves_the_documents_as_they_were(maker: Maker) -> None:
    before = [document.model_copy(deep=True) for document in DOCUMENTS]
    first = maker().invoke(QUESTION)
    first[0].metadata["title"] = "changed"
    assert before == DOCUMENTS
    assert maker().invoke(QUESTION)[0].metadata["title"] != "changed"


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


class TestMedCPTRetrieverIsStandard(TestDenseRetrieverIsStandard):
    @pytest.fixture(autouse=True)
    def _with_base(self, medcpt_base: KnowledgeBase) -> None:
        self.base = medcpt_base

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return MedCPTRetriever


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


def test_the_dense_ranking_is_the_knowledge_bases(knowledge_base: KnowledgeBase) -> None:
    assert DenseRetriever(knowledge_base=knowledge_base, k=3).invoke(
        QUESTION
    ) == knowledge_base.search(QUESTION, 3)


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


def test_bm25_scores_documents_as_it_scores_a_base(knowledge_base: KnowledgeBase) -> None:
    base = BM25Retriever(knowledge_base=knowledge_base).invoke(QUESTION)
    pool = BM25Retriever.from_documents(DOCUMENTS).invoke(QUESTION)
    assert ids(base) == ids(pool)
    assert [d.metadata["score"] for d in base] == pytest.approx(
        [d.metadata["score"] for d in pool], abs=1e-4
    )


def test_an_empty_base_has_nothing_to_find(tmp_path: Path) -> None:
    assert BM25Retriever.from_documents([]).invoke(QUESTION) == []
    with build(tmp_path / "kb", []) as base:
        assert DenseRetriever(knowledge_base=base).invoke(QUESTION) == []
        assert BM25Retriever(knowledge_base=base).invoke(QUESTION) == []


# Hybrid


def listed(*names: str) -> ListRetriever:
    return ListRetriever(documents=[Document(id=name, page_content=name) for name in names])


def test_hybrid_fuses_any_retrievers() -> None:
    hybrid = HybridRetriever(retrievers=[listed("a", "b", "c"), listed("c", "d", "b")])
    found = hybrid.invoke(QUESTION)
    assert ids(found) == ["c", "b", "a", "d"]
    assert found[0].metadata["score"] == pytest.approx(1 / 61 + 1 / 63)


def test_hybrid_looks_below_k_for_what_both_retrievers_found() -> None:
    hybrid = HybridRetriever(retrievers=[listed("a", "x"), listed("b", "x")], k=1)
    assert ids(hybrid.invoke(QUESTION)) == ["x"]
    assert ids(hybrid.model_copy(update={"fetch_k": 1}).invoke(QUESTION)) == ["a"]


def test_hybrid_takes_a_document_from_the_first_retriever_that_found_it() -> None:
    first, second = (
        ListRetriever(documents=[Document(id="a", page_content="text", metadata={"from": place})])
        for place in (1, 2)
    )
    assert HybridRetriever(retrievers=[first, second]).invoke(QUESTION)[0].metadata["from"] == 1


@pytest.mark.parametrize("options", [{"retrievers": []}, {"rrf_k": -1}])
def test_a_bad_hybrid_is_refused_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        HybridRetriever(**{"retrievers": [listed("a"), listed("b")], **options})


# Reranking


def test_reranking_puts_the_scorers_best_first() -> None:
    reranking = RerankingRetriever(
        retriever=listed("long one", "b", "mid", "c"), scorer=LengthScorer(), k=3
    )
    found = reranking.invoke(QUESTION)
    assert ids(found) == ["b", "c", "mid"]
    assert [document.metadata["score"] for document in found] == [-1, -1, -3]


def test_only_fetch_k_candidates_are_scored() -> None:
    reranking = RerankingRetriever(
        retriever=listed("aaa", "bb", "c"), scorer=LengthScorer(), k=1, fetch_k=2
    )
    assert ids(reranking.invoke(QUESTION)) == ["bb"]
    assert ids(reranking.invoke(QUESTION, k=3)) == ["c", "bb", "aaa"]


def test_the_scorer_is_not_asked_about_nothing() -> None:
    class NoScorer:
        def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
            raise AssertionError("asked")

    assert RerankingRetriever(retriever=listed(), scorer=NoScorer()).invoke(QUESTION) == []


class Runs(BaseCallbackHandler):
    """Notes the retriever runs it is told about."""

    def __init__(self) -> None:
        self.parents: dict[Any, Any] = {}

    def on_retriever_start(
        self, *args: Any, run_id: Any, parent_run_id: Any = None, **kwargs: Any
    ) -> None:
        self.parents[run_id] = parent_run_id


async def test_inner_retrievers_are_traced_as_children() -> None:
    hybrid = HybridRetriever(retrievers=[listed("a"), listed("b")])
    for run in (hybrid.invoke, hybrid.ainvoke):
        runs = Runs()
        result = run(QUESTION, {"callbacks": [runs]})
        if not isinstance(result, list):
            await result
        roots = [run_id for run_id, parent in runs.parents.items() if parent is None]
        assert len(roots) == 1
        assert len(runs.parents) == 5
        assert list(runs.parents.values()).count(roots[0]) == 2
