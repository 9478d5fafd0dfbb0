"""BM25 over a pool: scores that are positive where a term occurs, and ties in the pool's own order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.store.terms import BM25_B, BM25_K1, TermStatistics
from briefcontext.retrievers.rankings import BM25Pool


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


def test_punctuation_and_case_do_not_hide_a_term() -> None:
    assert rank_by_bm25("Does it lower mortality?", documents("Nothing.", "Mortality.")).order == [
        1,
        0,
    ]


def test_a_term_of_every_document_still_scores() -> None:
    ranking = rank_by_bm25("stroke", documents("stroke in women and men", "stroke"))
    assert all(score > 0 for score in ranking.scores)
    assert ranking.order == [1, 0]


def test_equal_scores_keep_the_order_of_the_pool() -> None:
    pool = documents("stroke one", "fever x", "stroke two", "fever y", "stroke three")
    assert rank_by_bm25("stroke", pool).order == [0, 2, 4, 1, 3]


@pytest.mark.parametrize(
    ("query", "pool", "order"),
    [
        ("stroke", [], []),
        ("stroke", [""], [0]),
        ("stroke", ["the of"], [0]),
        ("stroke", ["", "?", "the"], [0, 1, 2]),
        ("", ["stroke", "fever"], [0, 1]),
        ("what is the?", ["stroke", "fever"], [0, 1]),
        ("aspirin", ["stroke", "fever"], [0, 1]),
    ],
)
def test_nothing_to_score_leaves_the_pools_order(
    query: str, pool: list[str], order: list[int]
) -> None:
    assert rank_by_bm25(query, documents(*pool)) == Ranking(order, [0.0] * len(pool))


@pytest.mark.parametrize("pool", [["stroke"], ["fever", "stroke"], ["stroke", ""]])
def test_small_pools_are_scored(pool: list[str]) -> None:
    ranking = rank_by_bm25("stroke", documents(*pool))
    assert ranking.order[0] == pool.index("stroke")
    assert ranking.scores[ranking.order[0]] > 0


def test_the_title_counts() -> None:
    pool = [
        Document(page_content="It lowers the risk."),
        Document(page_content="It lowers the risk.", metadata={"title": "Aspirin in stroke"}),
        Document(page_content="It lowers the risk.", metadata={"title": None}),
    ]
    assert rank_by_bm25("aspirin", pool).order == [1, 0, 2]


def test_corpus_statistics_replace_those_of_the_pool() -> None:
    pool = documents("aspirin trial", "stroke trial")
    assert rank_by_bm25("aspirin stroke", pool).order == [0, 1]
    corpus = Corpus(1000, 2.0, {"aspirin": 900, "stroke": 3, "trial": 500})
    ranking = rank_by_bm25("aspirin stroke", pool, corpus)
    assert ranking.order == [1, 0]
    assert ranking.scores == pytest.approx([math.log(1 + 100.5 / 900.5), math.log(1 + 997.5 / 3.5)])


def test_corpus_statistics_set_what_length_is_usual() -> None:
    pool = documents("stroke", "stroke fever pain")
    short, long = (rank_by_bm25("stroke", pool, Corpus(100, mean)).scores for mean in (1.0, 10.0))
    assert short[0] < long[0]
    assert short[1] < long[1]


def test_a_corpus_that_does_not_know_the_pool_is_no_obstacle() -> None:
    assert rank_by_bm25("stroke", documents("fever", "stroke"), Corpus(0, 0.0)).order == [1, 0]


def test_a_pool_answers_one_query_after_another() -> None:
    pool = BM25Pool(documents("aspirin", "stroke"))
    first = pool.scores("aspirin")
    assert pool.scores("stroke") == first[::-1]
    assert pool.scores("aspirin") == first


words = st.sampled_from(["stroke", "aspirin", "fever", "pain", "the", "IL-6", "IL6", "?"])
sentences = st.lists(words, max_size=6).map(" ".join)


@given(sentences, st.lists(sentences, max_size=12))
def test_a_ranking_is_a_permutation_by_falling_score(query: str, pool: list[str]) -> None:
    ranking = rank_by_bm25(query, documents(*pool))
    assert sorted(ranking.order) == list(range(len(pool)))
    keys = [(-ranking.scores[place], place) for place in ranking.order]
    assert keys == sorted(keys)
    assert all(score >= 0 for score in ranking.scores)


@given(sentences, st.lists(sentences, max_size=12))
def test_turning_the_pool_round_turns_the_scores_round(query: str, pool: list[str]) -> None:
    assert rank_by_bm25(query, documents(*pool[::-1])).scores == pytest.approx(
        rank_by_bm25(query, documents(*pool)).scores[::-1]
    )


def test_a_text_that_is_its_title_is_scored_once() -> None:
    once = [
        Document(page_content=text, metadata={"title": "Aspirin"}) for text in ("Aspirin", "Other")
    ]
    twice = [
        Document(page_content=text, metadata={"title": "Aspirin"}) for text in ("Aspirin.", "Other")
    ]
    assert rank_by_bm25("aspirin", once).scores[0] < rank_by_bm25("aspirin", twice).scores[0]
