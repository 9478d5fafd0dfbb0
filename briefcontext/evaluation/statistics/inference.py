"""Intervals and tests for shares, scores, their differences and their spread over positions, by scipy."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

RESAMPLES = 10_000
"""Resamples of a bootstrap or a permutation test."""
AUC_RESAMPLES = 2_000
"""Of the area under a curve, which takes a sort for each."""
CONFIDENCE = 0.95

_BATCH = 1 << 21
"""Numbers drawn at once."""
_NEAR = 1e-12
_MARGIN = 1e-9
"""How far from the observed difference a bound is looked for, in shares: there the statistic is 0 by definition."""

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats
Positions = Sequence[Sequence[float]] | Floats
"""Scores (positions, items)."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


Bounds = Interval | tuple[None, None]
"""An interval, or that the data cannot tell."""


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval for a share (Wilson 1927)."""
    found = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return Interval(float(found.low), float(found.high))


def tango(win: int, lose: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Tango's score interval for the difference of two paired shares, (win - lose) / n (Tango 1998).

    `win` of `n` items are right by the first method alone, and `lose` by the second alone. Unlike a
    bootstrap of the differences, which are -1, 0 and 1, it is no point where no item differs: from
    n ties it follows only that differences are rare. It holds 0 exactly where McNemar's asymptotic
    test does not reject.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for
    the paired-sample design, Statistics in Medicine 17, 1998, 891-908. statsmodels 0.15 has no
    interval for paired shares.
    """
    return Interval(_lower(win, lose, n, confidence), -_lower(lose, win, n, confidence))


@lru_cache(maxsize=4096)
def _lower(win: int, lose: int, n: int, confidence: float) -> float:
    """Find the difference below the observed one that the score test just rejects."""
    if lose == n:
        return -1.0
    squared = float(stats.norm.ppf((1 + confidence) / 2)) ** 2

    def score(difference: float) -> float:
        """Return the statistic's numerator squared less `squared` times its variance."""
        # The share that only the second has right, at its likeliest given the difference: the root
        # of a quadratic.
        b = (2 * n - win + lose) * difference - win - lose
        c = -lose * difference * (1 - difference)
        second = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
        variance = n * max(0.0, 2 * second + difference * (1 - difference))
        return (win - lose - n * difference) ** 2 - squared * variance

    return float(brentq(score, -1.0, (win - lose) / n - _MARGIN, xtol=_NEAR))


def bootstrap(*groups: Numbers, resamples: int = RESAMPLES, seed: int = 0) -> Bounds:
    """Return a 95% percentile bootstrap interval for a mean, or for the average of groups' means (Efron 1979).

    Each group `(n,)` is resampled by itself and counts the same, whatever its size. For two methods
    on the same items, give the items' differences. None where all of each group's samples are
    equal, or a group has a single one, and resampling cannot tell.
    """
    if any(len(values) == 1 for values in groups) or all(np.ptp(values) == 0 for values in groups):
        return None, None

    def average_of_means(*resampled: Floats, axis: int) -> Any:
        return np.mean([np.mean(values, axis=axis) for values in resampled], axis=0)

    return _percentiles(groups, average_of_means, resamples, seed)


def auc(positive: Numbers, negative: Numbers, *, seed: int = 0) -> Interval:
    """Return a 95% percentile interval for the area under the ROC curve, both groups' scores resampled.

    Equal scores count half (Mann and Whitney 1947). From fewer than two scores of a group, nothing
    is known: 0 to 1.
    """
    if min(len(positive), len(negative)) < 2:
        return Interval(0.0, 1.0)

    def area(first: Floats, second: Floats, axis: int) -> Any:
        wins = stats.mannwhitneyu(first, second, axis=axis, method="asymptotic").statistic
        return wins / (len(positive) * len(negative))

    return _percentiles((positive, negative), area, AUC_RESAMPLES, seed)


def spread(scores: Positions) -> float:
    """Return the best position's mean less the worst one's; `scores` is `(positions, items)`."""
    return float(np.ptp(np.mean(scores, axis=1)))


def bootstrap_spread(scores: Positions, *, resamples: int = RESAMPLES, seed: int = 0) -> Bounds:
    """Return a 95% bootstrap interval for `spread`, the items resampled together at all positions.

    A largest difference is never negative, and resampling moves it upward, so that a percentile
    interval would not hold 0 even where all positions are alike. The interval is therefore `spread`
    plus and minus the quantile of the largest difference between the positions' sampling errors: no
    spread can be further from the true one than that (the idea of Tukey's range test). It is cut at
    0, and holds the true spread about as often as it says, or more often, and with a dozen items a
    little less; where 0 is in it, the positions may be alike. None where no position's scores
    differ, and resampling cannot tell.
    """
    if np.all(np.ptp(scores, axis=1) == 0):
        return None, None
    means = np.mean(scores, axis=1)

    def largest_error(*resampled: Floats, axis: int) -> Any:
        errors = [
            np.mean(position, axis=axis) - mean
            for position, mean in zip(resampled, means, strict=True)
        ]
        return np.ptp(errors, axis=0)

    _, reach = _percentiles(scores, largest_error, resamples, seed, paired=True, alternative="less")
    low = spread(scores) - reach
    return Interval(low if low > _NEAR else 0.0, spread(scores) + reach)


def spread_test(scores: Positions, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return how often a spread as large would come by chance if an item's scores did not depend on the position.

    A Monte Carlo permutation test: the positions of each item's scores, `(positions, items)`, are
    shuffled.
    """
    values, rng, reached = np.asarray(scores), np.random.default_rng(seed), 0
    batch = max(1, _BATCH // values.size)
    for done in range(0, resamples, batch):
        many = np.broadcast_to(values, (min(batch, resamples - done), *values.shape))
        spreads = np.ptp(rng.permuted(many, axis=1).mean(axis=2), axis=1)
        reached += int(np.count_nonzero(spreads >= spread(values) - _NEAR))
    return (reached + 1) / (resamples + 1)


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided exact p of McNemar's test: `only_a` items are right by the first method alone (1947)."""
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue) if only_a + only_b else 1.0


def mcnemar_mid_p(only_a: int, only_b: int) -> float:
    """Return McNemar's mid-p, in which the observed split counts half in each tail (Fagerland et al. 2013).

    The exact test rejects less often than it says, above all with few items that differ; this one
    hardly ever more.
    """
    if not only_a + only_b:
        return 1.0
    observed = float(stats.binom.pmf(only_a, only_a + only_b, 0.5))
    return mcnemar_exact(only_a, only_b) - (observed / 2 if only_a == only_b else observed)


def permutation_test(differences: Numbers, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p for a mean of paired differences of 0, by flipping their signs (Fisher 1935).

    Exact where all 2^n flips are no more than `resamples`; else by chance, the observed one counted
    among them.
    """
    values = np.asarray(differences)
    values = values[values != 0]  # a flip does not change a zero
    if len(values) < 2:
        return 1.0  # one difference is as large whatever its sign
    found = stats.permutation_test(
        (values,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH // len(values)),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down correction (Holm 1979), in the order given."""
    order, m = np.argsort(p_values), len(p_values)
    adjusted = np.empty(m)
    # Not by statsmodels, which has all of Python's garbage collected at each call.
    adjusted[order] = np.minimum(
        np.maximum.accumulate(np.take(p_values, order) * np.arange(m, 0, -1)), 1
    )
    return [float(p) for p in adjusted]


def _percentiles(
    data: Sequence[Numbers] | Floats,
    statistic: Callable[..., Any],
    resamples: int,
    seed: int,
    *,
    paired: bool = False,
    alternative: Literal["two-sided", "less"] = "two-sided",
) -> Interval:
    found = stats.bootstrap(
        data,
        statistic,
        paired=paired,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH // sum(map(len, data))),
        confidence_level=CONFIDENCE,
        alternative=alternative,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))
