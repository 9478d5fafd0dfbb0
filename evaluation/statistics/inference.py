"""Intervals and tests for shares, scores and their differences, by scipy."""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from briefcontext.errors import InputError

__all__ = [
    "BATCH",
    "CONFIDENCE",
    "RESAMPLES",
    "Bounds",
    "Interval",
    "auc",
    "bootstrap",
    "bootstrap_ratio",
    "holm",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "permutation_test",
    "resampled",
    "tango",
    "wilson",
]

RESAMPLES = 10_000
"""Resamples of a bootstrap or a permutation test."""
AUC_RESAMPLES = 2_000
"""Of the area under a curve, which takes a sort for each."""
CONFIDENCE = 0.95

BATCH = 1 << 21
"""Numbers drawn at once."""
_NEAR = 1e-12
_MARGIN = 1e-9
"""How far from the observed difference a bound is looked for, in shares: there the statistic is 0 by definition."""

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


Bounds = Interval | tuple[None, None]
"""An interval, or that the data cannot tell."""


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval for a share (Wilson 1927); 0 to 1 where n is 0 and nothing is known."""
    if not 0 <= successes <= n:
        raise InputError(f"{successes} successes of {n} are not possible: there are 0 to n.")
    if n == 0:
        return Interval(0.0, 1.0)
    found = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    # At 0 and n the bound is the share itself; rounding must not carry it past.
    share = successes / n
    return Interval(min(max(float(found.low), 0.0), share), max(min(float(found.high), 1.0), share))


def tango(win: int, lose: int, n: int, confidence: float = 0.95) -> Interval:
    """Tango's score interval for the difference of two paired shares, (win - lose) / n (Tango 1998).

    `win` of `n` items are right by the first method alone, and `lose` by the second alone. Unlike a bootstrap of the
    differences, which are -1, 0 and 1, it is no point where no item differs: from n ties it follows only that
    differences are rare. It holds 0 exactly where McNemar's asymptotic test does not reject.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, Statistics in Medicine 17, 1998, 891-908. statsmodels 0.15 has no interval for paired shares.

    Raises:
        InputError: such counts, or such a confidence, are not possible.
    """
    if min(win, lose) < 0 or win + lose > n or n < 1:
        raise InputError(f"{win} wins and {lose} losses among {n} items are not possible.")
    if not 0 < confidence < 1:
        raise InputError(f"A confidence of {confidence} is not possible: it lies between 0 and 1, such as 0.95.")
    return Interval(_lower(win, lose, n, confidence), -_lower(lose, win, n, confidence))


@lru_cache(maxsize=4096)
def _lower(win: int, lose: int, n: int, confidence: float) -> float:
    """Find the difference below the observed one that the score test just rejects."""
    if lose == n:
        return -1.0
    squared = float(stats.norm.ppf((1 + confidence) / 2)) ** 2
    return float(brentq(_score(win, lose, n, squared), -1.0, (win - lose) / n - _MARGIN, xtol=_NEAR))


def _score(win: int, lose: int, n: int, squared: float) -> Callable[[float], float]:
    """Return the score statistic's numerator squared less `squared` times its variance, over the true difference."""

    def score(difference: float) -> float:
        # The share that only the second has right, at its likeliest given the difference: the root of a quadratic.
        b = (2 * n - win + lose) * difference - win - lose
        c = -lose * difference * (1 - difference)
        second = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
        variance = n * max(0.0, 2 * second + difference * (1 - difference))
        return (win - lose - n * difference) ** 2 - squared * variance

    return score


def bootstrap(*groups: Sequence[float] | Floats, resamples: int = RESAMPLES, seed: int = 0) -> Bounds:
    """Return a 95% percentile bootstrap interval for a mean, or for the average of groups' means (Efron 1979).

    Each group `(n,)` is resampled by itself and counts the same, whatever its size. For two methods on the same items,
    give the items' differences. None where all of each group's samples are equal, or a group has a single one, and
    resampling cannot tell.
    """
    strata = tuple(_values(group) for group in groups)
    if not strata:
        raise InputError("An average over no groups has no interval: give one or more.")
    if any(len(values) == 1 for values in strata) or all(np.ptp(values) == 0 for values in strata):
        return None, None

    def average_of_means(*resampled: Floats, axis: int) -> Any:
        return np.mean([np.mean(values, axis=axis) for values in resampled], axis=0)

    found = resampled(strata, average_of_means, resamples, seed).confidence_interval
    return Interval(float(found.low), float(found.high))


def bootstrap_ratio(above: Sequence[float], below: Sequence[float], *, seed: int = 0) -> Interval:
    """Return a 95% percentile interval for the sum of `above` over that of `below`, the items resampled together."""

    def ratio(first: Floats, second: Floats, axis: int) -> Any:
        return np.sum(first, axis=axis) / np.sum(second, axis=axis)

    found = resampled((_values(above), _values(below)), ratio, RESAMPLES, seed, paired=True).confidence_interval
    return Interval(float(found.low), float(found.high))


def auc(positive: Sequence[float] | Floats, negative: Sequence[float] | Floats, *, seed: int = 0) -> Interval:
    """Return a 95% percentile interval for the area under the ROC curve, both groups' scores resampled.

    Equal scores count half (Mann and Whitney 1947). From fewer than two scores of a group, nothing is known: 0 to 1.
    """
    if min(len(positive), len(negative)) < 2:
        return Interval(0.0, 1.0)

    def area(first: Floats, second: Floats, axis: int) -> Any:
        m, n = first.shape[axis], second.shape[axis]
        ranks = stats.rankdata(np.concatenate([first, second], axis=axis), axis=axis)
        return (ranks.take(range(m), axis=axis).sum(axis=axis) - m * (m + 1) / 2) / (m * n)

    data = (_values(positive), _values(negative))
    found = resampled(data, area, AUC_RESAMPLES, seed)
    return Interval(*np.quantile(found.bootstrap_distribution, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist())


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided exact McNemar test's p: items that only A, and that only B, answers rightly (1947)."""
    if only_a < 0 or only_b < 0:
        raise InputError(f"Counts cannot be negative: {only_a} and {only_b}.")
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue) if only_a + only_b else 1.0


def mcnemar_mid_p(only_a: int, only_b: int) -> float:
    """Return McNemar's mid-p, in which the observed split counts half in each tail (Fagerland et al. 2013).

    The exact test rejects less often than it says, above all with few items that differ; this one hardly ever more.
    """
    if not only_a + only_b:
        return 1.0
    observed = float(stats.binom.pmf(only_a, only_a + only_b, 0.5))
    return mcnemar_exact(only_a, only_b) - (observed / 2 if only_a == only_b else observed)


def permutation_test(differences: Sequence[float] | Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p for a mean of paired differences of 0, by flipping their signs (Fisher 1935).

    Exact where all 2^n flips are no more than `resamples`; else by chance, the observed one counted among them.
    """
    values = _values(differences)
    values = values[values != 0]  # a flip does not change a zero
    if len(values) < 2:
        return 1.0  # one difference is as large whatever its sign

    def mean_of_differences(flipped: Floats, zeros: Floats, axis: int) -> Any:
        return np.mean(flipped - zeros, axis=axis)

    found = stats.permutation_test(
        (values, np.zeros_like(values)),
        mean_of_differences,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, BATCH // len(values)),
        rng=np.random.default_rng(seed),
    )
    return float(min(found.pvalue, 1.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down correction (Holm 1979), in the order given."""
    if not all(0 <= p <= 1 for p in p_values):
        raise InputError(f"p-values lie between 0 and 1: {[p for p in p_values if not 0 <= p <= 1]}.")
    order, m = np.argsort(p_values), len(p_values)
    adjusted = np.empty(m)
    # Not by statsmodels, which has all of Python's garbage collected at each call.
    adjusted[order] = np.minimum(np.maximum.accumulate(np.take(p_values, order) * np.arange(m, 0, -1)), 1)
    return [float(p) for p in adjusted]


def resampled(
    data: tuple[Floats, ...], statistic: Callable[..., Any], resamples: int, seed: int, *, paired: bool = False
) -> Any:
    """Return scipy's bootstrap of samples, with percentiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of resamples that are all alike
        return stats.bootstrap(
            data,
            statistic,
            paired=paired,
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, BATCH // sum(map(len, data))),
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        )


def _values(samples: Sequence[float] | Floats) -> Floats:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InputError(f"One or more finite numbers in one row are needed, not an array of shape {values.shape}.")
    return values
