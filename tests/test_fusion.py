"""Reciprocal rank fusion: exact sums, and an order that does not depend on chance."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from briefcontext.retrievers.rankings import reciprocal_rank_fusion

rankings = st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6), max_size=4)


def test_fusion_sums_reciprocal_ranks() -> None:
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    assert [id for id, _ in fused] == ["b", "a", "c"]
    assert dict(fused) == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


def test_equal_scores_favour_the_first_ranking() -> None:
    assert [id for id, _ in reciprocal_rank_fusion([["a", "b"], ["c", "d"]])] == [
        "a",
        "c",
        "b",
        "d",
    ]


def test_a_repeated_id_counts_once_at_its_first_place() -> None:
    assert reciprocal_rank_fusion([["a", "a", "b"]]) == [("a", 1 / 61), ("b", 1 / 62)]


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


@given(rankings)
def test_the_order_of_the_rankings_does_not_change_a_score(given_rankings: list[list[str]]) -> None:
    assert dict(reciprocal_rank_fusion(given_rankings)) == dict(
        reciprocal_rank_fusion(given_rankings[::-1])
    )


@given(rankings, st.sampled_from("abcdef"))
def test_a_ranking_that_puts_an_id_first_does_not_lower_it(
    given_rankings: list[list[str]], id: str
) -> None:
    def place(of: list[list[str]]) -> int:
        return [found for found, _ in reciprocal_rank_fusion(of)].index(id)

    with_id = [*given_rankings, ["f", id]]
    assert place([*with_id, [id]]) <= place(with_id)
