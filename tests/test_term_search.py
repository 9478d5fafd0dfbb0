"""BM25 over a knowledge base has the scores of a pool of all its passages."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.terms import tokenize
from briefcontext.retrievers.rankings import BM25Pool
from tests.hashing_encoder import HashingEncoder

PASSAGES = [
    ("1", "Aspirin lowers the risk of stroke."),
    ("2", "IL-6 is raised in sepsis."),
    ("é#3", "Fever in children; aspirin is to be avoided."),
    ("4", "?"),
    ("5", "IL-6 is raised in sepsis."),
]


def opened(folder: Path, passages: Sequence[tuple[str, str]]) -> KnowledgeBase:
    """A base of passages, each an id and its text."""
    encoder = HashingEncoder(dimension=4)
    build_knowledge_base(
        [Document(id=id, page_content=text) for id, text in passages], folder, encoder=encoder
    )
    return KnowledgeBase.open(folder, encoder=encoder)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with opened(tmp_path_factory.mktemp("terms") / "kb", PASSAGES) as base:
        yield base


def search(base: KnowledgeBase, query: str, k: int) -> list[tuple[str | None, float]]:
    return [(document.id, document.metadata["score"]) for document in base.search_terms(query, k)]


def pool_search(query: str, passages: Sequence[tuple[str, str]], k: int) -> list[tuple[str, float]]:
    # Passages without any term count for nothing in an index.
    held = [(id, text) for id, text in sorted(passages) if tokenize(text)]
    found = BM25Pool([Document(id=id, page_content=text) for id, text in held]).search_terms(
        query, k
    )
    return [(str(document.id), document.metadata["score"]) for document in found]


def assert_same_hits(
    found: Sequence[tuple[str | None, float]], expected: Sequence[tuple[str, float]]
) -> None:
    assert [id for id, _ in found] == [id for id, _ in expected]
    assert [score for _, score in found] == pytest.approx(
        [score for _, score in expected], abs=1e-4
    )


@pytest.mark.parametrize("query", ["aspirin", "IL6"])
@pytest.mark.parametrize("k", [1, 2, 16])
def test_scores_and_ranks_as_the_pool_ranking_does(base: KnowledgeBase, query: str, k: int) -> None:
    assert_same_hits(search(base, query, k), pool_search(query, PASSAGES, k))


@pytest.mark.parametrize("query", ["", "?", "* AND ("])
def test_unknown_terms_find_nothing(base: KnowledgeBase, query: str) -> None:
    assert search(base, query, 16) == []


words = st.sampled_from(["stroke", "aspirin", "fever", "α", "the", "IL-6", "IL6", "漢字", "0.05"])
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)


@settings(max_examples=10)
@given(st.lists(sentences, min_size=1, max_size=12), sentences, st.integers(1, 14))
def test_base_and_pool_agree_on_any_corpus(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int
) -> None:
    passages = [(f"p{i:02d}", text) for i, text in enumerate(texts)]
    with opened(tmp_path_factory.mktemp("corpus") / "kb", passages) as base:
        assert_same_hits(search(base, query, k), pool_search(query, passages, k))
        statistics = base.term_statistics
        assert statistics is not None
        for term in tokenize(query):
            assert statistics.document_frequency(term) == sum(
                term in tokenize(text) for text in texts
            )
