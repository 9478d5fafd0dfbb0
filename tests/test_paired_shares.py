"""Intervals for differences of paired shares: published examples, the laws they obey, and how often they are right."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm

from briefcontext.evaluation.statistics.inference import Interval, bootstrap, tango

Z = float(norm.ppf(0.975))
COUNTS = st.integers(1, 200).flatmap(
    lambda n: st.integers(0, n).flatmap(
        lambda b: st.tuples(st.just(b), st.integers(0, n - b), st.just(n))
    )
)


def test_it_gives_the_published_bounds_of_a_paired_trial() -> None:
    # Cavo et al. 2012 in Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables
    # (2017), chapter 8: of 161 patients, 6 and 16 had a complete response only before and only
    # after.
    interval = tango(6, 16, 161)
    assert (interval.low, interval.high) == (
        pytest.approx(-0.1240, abs=5e-5),
        pytest.approx(-0.0054, abs=5e-5),
    )


@pytest.mark.parametrize("n", [1, 12, 35, 500])
def test_of_nothing_but_ties_it_follows_only_that_differences_are_rare(n: int) -> None:
    # Without a discordant pair the score equation has the solution z² / (n + z²).
    bound = Z**2 / (n + Z**2)
    assert tango(0, 0, n) == pytest.approx((-bound, bound))


@given(COUNTS)
def test_it_holds_what_was_observed_and_turns_with_the_methods(
    counts: tuple[int, int, int],
) -> None:
    win, lose, n = counts
    interval = tango(win, lose, n)
    assert -1 <= interval.low <= (win - lose) / n <= interval.high <= 1
    assert interval.low < interval.high
    assert tango(lose, win, n) == Interval(-interval.high, -interval.low)


@given(COUNTS)
def test_it_holds_0_exactly_where_mcnemars_score_test_does_not_reject(
    counts: tuple[int, int, int],
) -> None:
    win, lose, n = counts
    interval = tango(win, lose, n)
    rejected = (win - lose) ** 2 > Z**2 * (win + lose)
    assert rejected == (interval.low > 1e-9 or interval.high < -1e-9)


@pytest.mark.parametrize("n", [12, 20, 35, 100])
@pytest.mark.parametrize(
    ("only_first", "only_second"), [(0.05, 0.05), (0.1, 0.1), (0.2, 0.05), (0.3, 0.1), (0.3, 0.3)]
)
def test_it_holds_the_true_difference_as_often_as_it_says(
    n: int, only_first: float, only_second: float
) -> None:
    draws = np.random.default_rng(n).multinomial(
        n, [only_first, only_second, 1 - only_first - only_second], 4000
    )
    held = 0
    for win, lose, _ in draws.tolist():
        interval = tango(win, lose, n)
        held += interval.low <= only_first - only_second <= interval.high
    assert held / len(draws) >= 0.93


def test_a_bootstrap_of_the_differences_does_not() -> None:
    # Why there is another interval at all.
    held = 0
    draws = np.random.default_rng(12).multinomial(12, [0.1, 0.05, 0.85], 300)
    for seed, (win, lose, tie) in enumerate(draws.tolist()):
        low, high = bootstrap([1.0] * win + [-1.0] * lose + [0.0] * tie, resamples=300, seed=seed)
        held += low is not None and high is not None and low <= 0.05 <= high
    assert held / len(draws) < 0.9
