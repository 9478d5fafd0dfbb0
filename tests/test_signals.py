"""The signals of a misplaced key document."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from briefcontext.retrievers.rankings import SIGNALS, TwoRankings, measure

SCORES = st.lists(st.floats(0, 100), min_size=1, max_size=20)


def rankings(
    dense: Sequence[float],
    bm25: Sequence[float],
    rarity: Sequence[float] = (1.0, 3.0),
    holds: Sequence[Sequence[bool]] | None = None,
) -> TwoRankings:
    held = np.zeros((len(dense), len(rarity)), dtype=bool) if holds is None else np.array(holds)
    return TwoRankings(np.array(dense, float), np.array(bm25, float), np.array(rarity, float), held)


@st.composite
def any_rankings(draw: st.DrawFn) -> TwoRankings:
    dense = sorted(draw(SCORES), reverse=True)
    n, t = len(dense), draw(st.integers(0, 5))
    bm25 = draw(st.lists(st.floats(0, 50), min_size=n, max_size=n))
    rarity = draw(st.lists(st.floats(0.01, 12), min_size=t, max_size=t))
    holds = draw(st.lists(st.lists(st.booleans(), min_size=t, max_size=t), min_size=n, max_size=n))
    return rankings(
        dense, bm25, rarity, np.array(holds, dtype=bool).reshape(n, t).tolist() if t else [[]] * n
    )


AGREE = rankings([0.9, 0.7, 0.5, 0.3], [8, 6, 4, 2], (1, 3), [[1, 1], [0, 1], [1, 0], [0, 0]])
OPPOSED = rankings([0.9, 0.7, 0.5, 0.3], [2, 4, 6, 8], (1, 3), [[0, 0], [1, 0], [0, 0], [1, 1]])


@pytest.mark.parametrize(
    ("name", "of_agreeing", "of_opposed"),
    [
        ("dense_margin_first_second", 0.2, 0.2),
        ("dense_top_over_rest", 0.6, 0.6),
        ("dense_third_over_last", 0.2, 0.2),
        ("bm25_rest_over_top", (2 - 8) / 8, (8 - 6) / 8),
        ("coverage_top", 1, 0.25),
        ("coverage_rest_over_top", -1, 0.75),
        ("query_terms", math.log(3), math.log(3)),
        ("query_rarity_mean", 2, 2),
        ("names_in_top", 1, 1),
        ("asks_for_description", 0, 0),
    ],
)
def test_a_signal_has_its_value(name: str, of_agreeing: float, of_opposed: float) -> None:
    assert measure(AGREE)[name] == pytest.approx(of_agreeing)
    assert measure(OPPOSED)[name] == pytest.approx(of_opposed)


@given(any_rankings())
def test_every_signal_is_a_number_for_any_rankings(two: TwoRankings) -> None:
    values = measure(two)
    assert all(math.isfinite(value) for value in values.values())
    assert 0 <= values["coverage_top"] <= 1 + 1e-9
    for name in ("coverage_rest_over_top", "bm25_rest_over_top"):
        assert -1 - 1e-9 <= values[name] <= 1 + 1e-9


@given(any_rankings(), st.floats(0.5, 20))
def test_no_signal_depends_on_the_unit_of_bm25(two: TwoRankings, unit: float) -> None:
    # Powers of two, so that equal scores stay equal.
    scaled = TwoRankings(two.dense, two.bm25 * 2.0 ** round(unit), two.rarity, two.holds)
    assert measure(scaled) == pytest.approx(measure(two), abs=1e-6)


def test_each_signal_that_an_answer_shows_is_explained() -> None:
    explained = (Path(__file__).parents[1] / "docs" / "preflight.md").read_text(encoding="utf-8")
    assert [name for name in SIGNALS if f"| `{name}` |" not in explained] == []
