"""The preflight's measure of agreement."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.answer import Preflight
from briefcontext.errors import InputError
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.steps import compare_rankings
from briefcontext.retrievers.rankings import clear_top, intersection_over_union

IDS = st.lists(st.integers(0, 20), unique=True)


@pytest.mark.parametrize(
    ("dense", "bm25", "iou", "consistent"),
    [
        ("abc", "abc", 1.0, True),
        ("abc", "cba", 1.0, True),
        ("abc", "abd", 0.5, True),
        ("abc", "ade", 0.2, False),
        ("abc", "def", 0.0, False),
        ("abcx", "abcy", 1.0, True),
        ("a", "a", 1.0, True),
    ],
)
def test_rankings_agree_above_the_threshold(
    dense: str, bm25: str, iou: float, consistent: bool
) -> None:
    result = compared(dense, bm25)
    assert result["iou"] == pytest.approx(iou)
    assert result["consistent"] is consistent


def test_an_overlap_at_the_threshold_is_not_above_it() -> None:
    assert not compared("abc", "ade", iou_threshold=0.2)["consistent"]
    assert compared("abc", "ade", iou_threshold=0.19)["consistent"]


def test_n_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="preflight_top_n"):
        compared("a", "a", preflight_top_n=0)


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
        ([2.0, 1.0], [0, 1]),
        ([0.0, 0.0, 0.0, 0.0], []),
        ([0.0], []),
        ([3.0, 2.0, 0.0, 0.0], []),
        ([2.0, 0.0], []),
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
