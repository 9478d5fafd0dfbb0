"""Rankings: fusion, order preservation, the preflight comparison, and BM25."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.answer import Preflight
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.steps import compare_rankings
from briefcontext.knowledge.store.terms import BM25_B, BM25_K1, TermStatistics
from briefcontext.retrievers.rankings import (
    BM25Pool,
    clear_top,
    intersection_over_union,
    order_preserving,
    reciprocal_rank_fusion,
)

rankings = st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6), max_size=4)


def test_fusion_sums_reciprocal_ranks() -> None:
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    assert [id for id, _ in fused] == ["b", "a", "c"]
    assert dict(fused) == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


@given(rankings)
def test_fusion_holds_each_id_once_by_its_exact_score(given_rankings: list[list[str]]) -> None:
    fused = reciprocal_rank_fusion(given_rankings)
    exact = {
        id: sum(
            (Fraction(1, 61 + r.index(id)) for r in given_rankings if id in r), start=Fraction()
        )
        for r in given_rankings
        for id in r
    }
    assert dict(fused) == pytest.approx({id: float(score) for id, score in exact.items()})
    assert len(fused) == len(exact)
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.integers(1, 4), st.integers(0, 100))
def test_agreeing_rankings_fuse_to_themselves(ranking: list[str], copies: int, k: int) -> None:
    assert [id for id, _ in reciprocal_rank_fusion([ranking] * copies, k=k)] == ranking


@given(rankings, st.sampled_from("abcdef"))
def test_a_ranking_that_puts_an_id_first_does_not_lower_it(
    given_rankings: list[list[str]], id: str
) -> None:
    def place(of: list[list[str]]) -> int:
        return [found for found, _ in reciprocal_rank_fusion(of)].index(id)

    with_id = [*given_rankings, ["f", id]]
    assert place([*with_id, [id]]) <= place(with_id)


def _chunk(source: str, index: int) -> Document:
    metadata = {"source_id": source, "chunk_index": index, "start": index * 100}
    return Document(id=f"{source}#{index}", page_content="text", metadata=metadata)


CHUNKS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), unique=True).map(
    lambda places: [_chunk(*place) for place in places]
)


def _ids(documents: list[Document]) -> list[str]:
    return [str(document.id) for document in documents]


def test_sources_are_ordered_by_best_rank_and_chunks_by_position() -> None:
    ranked = [_chunk("b", 7), _chunk("a", 3), _chunk("b", 2), _chunk("a", 1)]
    assert _ids(order_preserving(ranked)) == ["b#2", "b#7", "a#1", "a#3"]


def test_chunks_of_the_parts_of_a_source_stay_in_order() -> None:
    chunks = [_chunk("a", index) for index in range(4)]
    for chunk, start in zip(chunks, [0, 900, 0, 800], strict=True):
        chunk.metadata["start"] = start
    assert order_preserving(chunks[::-1]) == chunks


@given(ranked=CHUNKS)
def test_the_arrangement_is_a_permutation(ranked: list[Document]) -> None:
    assert sorted(_ids(order_preserving(ranked))) == sorted(_ids(ranked))


@given(ranked=CHUNKS)
def test_one_source_is_sorted_by_position(ranked: list[Document]) -> None:
    one = [document for document in ranked if document.metadata["source_id"] == "a"]
    assert order_preserving(one) == sorted(
        one, key=lambda document: document.metadata["chunk_index"]
    )


IDS = st.lists(st.integers(0, 20), unique=True)


@pytest.mark.parametrize(
    ("dense", "bm25", "iou", "consistent"),
    [
        ("abc", "abc", 1.0, True),
        ("abc", "abd", 0.5, True),
        ("abc", "ade", 0.2, False),
        ("abc", "def", 0.0, False),
    ],
)
def test_rankings_agree_above_the_threshold(
    dense: str, bm25: str, iou: float, consistent: bool
) -> None:
    result = compared(dense, bm25)
    assert result["iou"] == pytest.approx(iou)
    assert result["consistent"] is consistent


def compared(dense: str, bm25: str, **settings: Any) -> Preflight:
    """Compare two rankings: BM25's by its scores, which are 0 where it does not name a document."""
    ids = dict.fromkeys(dense + bm25)
    scores = {id: 1.0 / place for place, id in enumerate(bm25, start=1)}
    documents = [Document(id=id, page_content="") for id in ids]
    return compare_rankings(documents, [scores.get(id, 0.0) for id in ids], Settings(**settings))


@given(first=IDS, second=IDS)
def test_overlap_is_symmetric_and_between_zero_and_one(first: list[int], second: list[int]) -> None:
    iou = intersection_over_union(first, second)
    assert 0.0 <= iou <= 1.0
    assert iou == intersection_over_union(second, first)
    assert (iou == 1.0) == (set(first) == set(second))


@pytest.mark.parametrize(
    ("scores", "top"),
    [
        ([3.0, 1.0, 2.0, 0.5], [0, 2, 1]),
        ([1.0, 1.0, 1.0, 0.0], [0, 1, 2]),
        ([0.0, 0.0, 0.0, 0.0], []),
        ([3.0, 2.0, 0.0, 0.0], []),
        ([3.0, 2.0, 1.0, 1.0], []),
        ([], []),
    ],
)
def test_scores_that_tie_have_no_top(scores: list[float], top: list[int]) -> None:
    assert clear_top(scores, 3) == top


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=12), st.integers(1, 5))
def test_a_top_beats_all_others(scores: list[float], n: int) -> None:
    if top := clear_top(scores, n):
        assert len(top) == min(n, len(scores))
        others = [score for place, score in enumerate(scores) if place not in top]
        assert min(scores[place] for place in top) > max([*others, 0.0])


class Ranking(NamedTuple):
    order: list[int]
    scores: list[float]


def rank_by_bm25(
    query: str, pool: Sequence[Document], statistics: TermStatistics | None = None
) -> Ranking:
    scores = BM25Pool(pool, statistics).scores(query)
    return Ranking(sorted(range(len(scores)), key=lambda place: -scores[place]), scores)


def documents(*texts: str) -> list[Document]:
    return [Document(page_content=text) for text in texts]


@dataclass
class Corpus:
    """Term statistics as given."""

    n_documents: int
    average_length: float
    frequencies: dict[str, int] = field(default_factory=dict)

    def document_frequency(self, term: str) -> int:
        return self.frequencies.get(term, 0)


def test_the_score_is_lucenes_bm25() -> None:
    pool = documents("aspirin aspirin stroke", "stroke", "placebo pain trial fever")
    mean = 8 / 3

    def part(frequency: int, length: int, holders: int) -> float:
        idf = math.log(1 + (3 - holders + 0.5) / (holders + 0.5))
        return (
            idf
            * frequency
            * (BM25_K1 + 1)
            / (frequency + BM25_K1 * (1 - BM25_B + BM25_B * length / mean))
        )

    ranking = rank_by_bm25("Aspirin for stroke?", pool)
    assert ranking.scores == pytest.approx([part(2, 3, 1) + part(1, 3, 2), part(1, 1, 2), 0])
    assert ranking.order == [0, 1, 2]


def test_corpus_statistics_replace_those_of_the_pool() -> None:
    pool = documents("aspirin trial", "stroke trial")
    assert rank_by_bm25("aspirin stroke", pool).order == [0, 1]
    corpus = Corpus(1000, 2.0, {"aspirin": 900, "stroke": 3, "trial": 500})
    ranking = rank_by_bm25("aspirin stroke", pool, corpus)
    assert ranking.order == [1, 0]
    assert ranking.scores == pytest.approx([math.log(1 + 100.5 / 900.5), math.log(1 + 997.5 / 3.5)])


words = st.sampled_from(["stroke", "aspirin", "fever", "pain", "the", "IL-6", "IL6", "?"])
sentences = st.lists(words, max_size=6).map(" ".join)


@given(sentences, st.lists(sentences, max_size=12))
def test_a_ranking_is_a_permutation_by_falling_score(query: str, pool: list[str]) -> None:
    ranking = rank_by_bm25(query, documents(*pool))
    assert sorted(ranking.order) == list(range(len(pool)))
    keys = [(-ranking.scores[place], place) for place in ranking.order]
    assert keys == sorted(keys)
    assert all(score >= 0 for score in ranking.scores)
