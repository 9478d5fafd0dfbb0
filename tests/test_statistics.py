"""Intervals and tests, against known values and the laws that they must obey."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from briefcontext.evaluation.statistics.inference import (
    bootstrap,
    holm,
    mcnemar_exact,
    permutation_test,
    spread,
    spread_test,
    wilson,
)

COUNTS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def _by_formula(successes: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return centre - half, centre + half


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_bounds(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert (interval.low, interval.high) == (
        pytest.approx(low, abs=5e-5),
        pytest.approx(high, abs=5e-5),
    )


@given(COUNTS)
def test_wilson_is_its_formula_and_holds_the_share(counts: tuple[int, int]) -> None:
    successes, n = counts
    interval = wilson(successes, n)
    assert 0.0 <= interval.low <= successes / n <= interval.high <= 1.0
    assert (interval.low, interval.high) == pytest.approx(_by_formula(successes, n), abs=1e-9)


def test_the_bootstrap_of_a_mean_is_near_the_normal_interval() -> None:
    samples = np.random.default_rng(1).normal(10.0, 2.0, 400)
    half = 1.96 * samples.std() / math.sqrt(400)
    interval = bootstrap(samples)
    assert interval.low == pytest.approx(samples.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(samples.mean() + half, abs=0.03)


def test_the_bootstrap_holds_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    held = 0
    for repeat in range(200):
        interval = bootstrap(rng.binomial(1, 0.3, 80).astype(float), resamples=500, seed=repeat)
        held += interval.low <= 0.3 <= interval.high
    assert 0.89 <= held / 200 <= 0.99


@pytest.mark.parametrize("samples", [[1.0], [0.5, 0.5, 0.5], [0.0] * 30])
def test_from_equal_samples_resampling_cannot_tell(samples: list[float]) -> None:
    assert bootstrap(samples) == (None, None)


def test_each_group_counts_the_same_in_an_average() -> None:
    rng = np.random.default_rng(4)
    groups = [rng.binomial(1, 0.9, 1000).astype(float), rng.binomial(1, 0.1, 50).astype(float)]
    interval = bootstrap(*groups, resamples=2000)
    average = (groups[0].mean() + groups[1].mean()) / 2
    half = 1.96 / 2 * math.sqrt(groups[0].var() / 1000 + groups[1].var() / 50)
    assert interval.low == pytest.approx(average - half, abs=0.01)
    assert interval.high == pytest.approx(average + half, abs=0.01)
    assert bootstrap([1.0, 1.0], [0.0, 0.0]) == (None, None)
    # One question of a data set tells nothing of its others.
    assert bootstrap([1.0, 0.0], [0.0]) == (None, None)


def _positions(rng: np.random.Generator, shares: list[float], items: int) -> list[list[float]]:
    # Items differ in difficulty, and an item is as difficult at every position.
    difficulty = rng.random(items)
    return [(difficulty < share).astype(float).tolist() for share in shares]


def test_a_spread_is_the_best_position_less_the_worst() -> None:
    assert spread([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]) == pytest.approx(0.75)


def test_the_spread_test_finds_a_spread_and_none_where_there_is_none() -> None:
    rng = np.random.default_rng(8)
    assert spread_test(_positions(rng, [0.9, 0.5, 0.9], 100), resamples=999) == pytest.approx(0.001)
    p_values = [
        spread_test(rng.binomial(1, 0.6, (5, 100)), resamples=199, seed=each) for each in range(100)
    ]
    assert sum(p <= 0.05 for p in p_values) <= 12
    assert spread_test([[1.0, 1.0], [1.0, 1.0]], resamples=99) == 1.0


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [
        (0, 0, 1.0),
        (5, 5, 1.0),
        (0, 5, 0.0625),
        (1, 9, 22 / 1024),
        (10, 2, 2 * 79 / 4096),
        (0, 10, 2 / 1024),
    ],
)
def test_mcnemar_gives_the_binomial_tail(only_a: int, only_b: int, p: float) -> None:
    assert mcnemar_exact(only_a, only_b) == pytest.approx(p)
    assert mcnemar_exact(only_b, only_a) == pytest.approx(p)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0] * 5, 2 / 32),
        ([1.0, -1.0], 1.0),
        ([0.0, 0.0], 1.0),
        ([1.0, 2.0, 3.0], 2 / 8),
        ([3.0, -1.0], 1.0),
        ([0.7], 1.0),
    ],
)
def test_the_permutation_test_is_exact_on_few_items(differences: list[float], p: float) -> None:
    assert permutation_test(differences) == pytest.approx(p)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.6, 0.9], [1.0, 1.0]),
    ],
)
def test_holm_gives_the_known_values(p_values: list[float], adjusted: list[float]) -> None:
    assert holm(p_values) == pytest.approx(adjusted)
