"""Intervals and tests for shares, scores and their differences, by scipy and statsmodels."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from briefcontext.errors import InputError, MissingExtraError

try:
    from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("Experiments need statsmodels: pip install 'briefcontext[experiments]'.") from error

__all__ = [
    "RESAMPLES",
    "Interval",
    "auc",
    "bootstrap",
    "bootstrap_ratio",
    "bootstrap_spread",
    "holm",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "permutation_test",
    "spread",
    "spread_test",
    "wilson",
]

RESAMPLES = 10_000
"""Resamples of a bootstrap or a permutation test."""
AUC_RESAMPLES = 2_000
"""Of the area under a curve, which takes a sort for each."""
CONFIDENCE = 0.95

_BATCH = 1 << 21

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float
    n: int = 0
    """The number of items that it rests on."""


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval for a share (Wilson 1927); 0 to 1 where n is 0 and nothing is known."""
    if not 0 <= successes <= n:
        raise InputError(f"{successes} successes of {n} are not possible: there are 0 to n.")
    if n == 0:
        return Interval(0.0, 1.0, 0)
    found = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    # At 0 and n the bound is the share itself; rounding must not carry it past.
    share = successes / n
    return Interval(min(max(float(found.low), 0.0), share), max(min(float(found.high), 1.0), share), n)


def bootstrap(*groups: Sequence[float] | Floats, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return a 95% percentile bootstrap interval for a mean, or for the average of groups' means (Efron 1979).

    Each group `(n,)` is resampled by itself and counts the same, whatever its size. For two methods on the same items,
    give the items' differences. Where all of a group's samples are equal, resampling cannot tell how sure they are.
    """
    strata = tuple(_values(group) for group in groups)
    if not strata:
        raise InputError("An average over no groups has no interval: give one or more.")
    n = sum(map(len, strata))
    if all(np.ptp(values) == 0 for values in strata):
        average = float(np.mean([values[0] for values in strata]))
        return Interval(average, average, n)

    def average_of_means(*resampled: Floats, axis: int) -> Any:
        return np.mean([np.mean(values, axis=axis) for values in resampled], axis=0)

    found = _resampled(strata, average_of_means, resamples, seed).confidence_interval
    return Interval(float(found.low), float(found.high), n)


def bootstrap_ratio(
    above: Sequence[float] | Floats, below: Sequence[float] | Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return a 95% percentile interval for the sum of `above` over that of `below`, the items resampled together."""

    def ratio(first: Floats, second: Floats, axis: int) -> Any:
        return np.sum(first, axis=axis) / np.sum(second, axis=axis)

    data = (_values(above), _values(below))
    found = _resampled(data, ratio, resamples, seed, paired=True).confidence_interval
    return Interval(float(found.low), float(found.high), len(data[0]))


def auc(positive: Sequence[float] | Floats, negative: Sequence[float] | Floats, *, seed: int = 0) -> Interval:
    """Return a 95% percentile interval for the area under the ROC curve, both groups' scores resampled.

    Equal scores count half (Mann and Whitney 1947). From fewer than two scores of a group, nothing is known: 0 to 1.
    """
    if min(len(positive), len(negative)) < 2:
        return Interval(0.0, 1.0, 0)

    def area(first: Floats, second: Floats, axis: int) -> Any:
        m, n = first.shape[axis], second.shape[axis]
        ranks = stats.rankdata(np.concatenate([first, second], axis=axis), axis=axis)
        return (ranks.take(range(m), axis=axis).sum(axis=axis) - m * (m + 1) / 2) / (m * n)

    data = (_values(positive), _values(negative))
    found = _resampled(data, area, AUC_RESAMPLES, seed)
    return Interval(*np.quantile(found.bootstrap_distribution, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist())


def spread(scores: Sequence[Sequence[float]] | Floats) -> float:
    """Return the best position's mean less the worst one's; `scores` is `(positions, items)`."""
    means = _positions(scores).mean(axis=1)
    return float(means.max() - means.min())


def bootstrap_spread(
    scores: Sequence[Sequence[float]] | Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return a 95% bootstrap interval for `spread`, the items resampled together at all positions.

    `scores` is `(positions, items)`, one item a column. A largest difference is never negative, and resampling moves
    it upward, so that a percentile interval would not hold 0 even where all positions are alike. The interval is
    therefore `spread` plus and minus the quantile of the largest difference between the positions' sampling errors: no
    spread can be further from the true one than that (the idea of Tukey's range test). It is cut at 0, and holds the
    true spread at least as often as it says; where 0 is in it, the positions may be alike.
    """
    values = _positions(scores)
    observed = spread(values)
    if np.all(np.ptp(values, axis=1) == 0):
        return Interval(observed, observed, values.shape[1])
    means = values.mean(axis=1)

    def largest_error(*resampled: Floats, axis: int) -> Any:
        errors = [np.mean(position, axis=axis) - mean for position, mean in zip(resampled, means, strict=True)]
        return np.ptp(errors, axis=0)

    errors = _resampled(tuple(values), largest_error, resamples, seed, paired=True)
    reach = float(np.quantile(errors.bootstrap_distribution, CONFIDENCE))
    return Interval(max(observed - reach, 0.0), observed + reach, values.shape[1])


def spread_test(scores: Sequence[Sequence[float]] | Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return how often a spread as large would come by chance if an item's scores did not depend on the position.

    A Monte Carlo permutation test: the positions of each item's scores, `(positions, items)`, are shuffled.
    """
    values = _positions(scores)
    rng = np.random.default_rng(seed)
    observed, reached, done = spread(values), 0, 0
    batch = max(1, _BATCH // values.size)
    while done < resamples:
        count = min(batch, resamples - done)
        means = rng.permuted(np.broadcast_to(values, (count, *values.shape)), axis=1).mean(axis=2)
        reached += int(np.count_nonzero(np.ptp(means, axis=1) >= observed - 1e-12))
        done += count
    return (reached + 1) / (resamples + 1)


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
        batch=max(1, _BATCH // len(values)),
        rng=np.random.default_rng(seed),
    )
    return float(min(found.pvalue, 1.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down correction (Holm 1979), in the order given."""
    if not all(0 <= p <= 1 for p in p_values):
        raise InputError(f"p-values lie between 0 and 1: {[p for p in p_values if not 0 <= p <= 1]}.")
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]] if p_values else []


def _resampled(
    data: tuple[Floats, ...], statistic: Callable[..., Any], resamples: int, seed: int, *, paired: bool = False
) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of resamples that are all alike
        return stats.bootstrap(
            data,
            statistic,
            paired=paired,
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, _BATCH // sum(map(len, data))),
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        )


def _values(samples: Sequence[float] | Floats) -> Floats:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InputError(f"One or more finite numbers in one row are needed, not an array of shape {values.shape}.")
    return values


def _positions(scores: Sequence[Sequence[float]] | Floats) -> Floats:
    if len({len(row) for row in scores}) != 1:
        raise InputError("Every position needs the score of every item: the rows differ in length, or there are none.")
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or len(values) < 2 or not np.isfinite(values).all():
        raise InputError(f"Finite scores of two or more positions are needed, not an array of shape {values.shape}.")
    return values
