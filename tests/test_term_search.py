"""BM25 over a knowledge base: the scores that a pool of all its passages has, and the terms' statistics."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import Deletion
from briefcontext.knowledge.store.terms import tokenize
from briefcontext.retrievers.rankings import BM25Pool
from tests.conftest import SHARED_DATA
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


@pytest.mark.parametrize(
    "query", ["aspirin", "Does aspirin prevent stroke?", "IL6", "raised IL-6 IL-6", "é"]
)
@pytest.mark.parametrize("k", [1, 2, 16])
def test_scores_and_ranks_as_the_pool_ranking_does(base: KnowledgeBase, query: str, k: int) -> None:
    assert_same_hits(search(base, query, k), pool_search(query, PASSAGES, k))


def test_equal_scores_are_in_the_order_of_ids(tmp_path: Path) -> None:
    with opened(
        tmp_path, [(str(i), "stroke" if i % 3 else "fever") for i in range(90, 10, -1)]
    ) as base:
        assert [id for id, _ in search(base, "stroke", 5)] == ["11", "13", "14", "16", "17"]


@pytest.mark.parametrize("query", ["", "the", "?", "hypertension", "* AND (", '"'])
def test_what_no_passage_holds_finds_nothing(base: KnowledgeBase, query: str) -> None:
    assert search(base, query, 16) == []


def test_after_many_updates_scores_are_those_of_the_passages_that_are_left(tmp_path: Path) -> None:
    encoder = HashingEncoder(dimension=4)
    texts = {str(i): f"stroke {'aspirin ' * (i % 3)} trial {i % 7}" for i in range(60)}
    with opened(tmp_path, list(texts.items())) as base:
        for update in range(5):
            changed = {
                str(i): f"fever {'gout ' * (i % 4)} trial {update}"
                for i in range(update * 9, update * 9 + 9)
            }
            build_knowledge_base(
                [
                    *(Document(id=id, page_content=text) for id, text in changed.items()),
                    Deletion(str(50 + update)),
                ],
                tmp_path,
                encoder=encoder,
            )
            texts |= changed
            del texts[str(50 + update)]
            for query in ("stroke trial 3", "gout", "aspirin fever"):
                assert_same_hits(
                    search(base, query, 100), pool_search(query, list(texts.items()), 100)
                )


words = st.sampled_from(["stroke", "aspirin", "fever", "α", "the", "IL-6", "IL6", "漢字", "0.05"])
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)


@settings(max_examples=25)
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


@pytest.fixture(scope="module")
def bioasq(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KnowledgeBase, list[tuple[str, str]]]]:
    path = SHARED_DATA / "bioasq" / "corpus.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    passages = [(row["id"], f"{row['title'] or ''}\n{row['text']}") for row in rows]
    with opened(tmp_path_factory.mktemp("bioasq") / "kb", passages) as base:
        yield base, passages


def bioasq_questions() -> list[dict[str, object]]:
    with (SHARED_DATA / "bioasq" / "queries.jsonl").open(encoding="utf-8") as lines:
        return [row for line in lines if (row := json.loads(line))["type"] == "yesno"]


@pytest.mark.slow
def test_base_and_pool_agree_on_a_real_corpus(
    bioasq: tuple[KnowledgeBase, list[tuple[str, str]]],
) -> None:
    base, passages = bioasq
    some = passages[:2000]
    documents = [Document(page_content=text) for _, text in some]
    places = {id: place for place, (id, _) in enumerate(some)}
    holders = [set(tokenize(text)) for _, text in passages]
    statistics = base.term_statistics
    assert statistics is not None
    for question in bioasq_questions()[:4]:
        query = str(question["question"])
        for term in tokenize(query):
            assert statistics.document_frequency(term) == sum(term in held for held in holders)
        scores = BM25Pool(documents, statistics).scores(query)
        for id, score in search(base, query, 500):
            if id in places:
                assert scores[places[id]] == pytest.approx(score, abs=1e-4)


@pytest.mark.slow
def test_bm25_finds_a_passage_that_answers(
    bioasq: tuple[KnowledgeBase, list[tuple[str, str]]],
) -> None:
    base, _ = bioasq
    questions = bioasq_questions()
    hits = {1: 0, 16: 0}
    for question in questions:
        gold = question["gold_pmids_in_corpus"]
        assert isinstance(gold, list)
        found = [id for id, _ in search(base, str(question["question"]), 16)]
        for k in hits:
            hits[k] += any(id in gold for id in found[:k])
    assert hits[1] / len(questions) > 0.82
    assert hits[16] / len(questions) > 0.955
