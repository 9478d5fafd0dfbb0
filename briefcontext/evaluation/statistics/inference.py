"""Intervals and tests for shares, scores and their differences, by scipy and statsmodels."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

RESAMPLES = 10_000
"""Resamples of a bootstrap or a permutation test."""
AUC_RESAMPLES = 2_000
"""Resamples for the area under a curve, each of which needs a sort."""
CONFIDENCE = 0.95

_BATCH = 1 << 21

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats
Positions = Sequence[Sequence[float]] | Floats
"""Scores (positions, items)."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


Bounds = Interval | tuple[None, None]
"""An interval; None where resampling cannot give one."""


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval for a share (Wilson 1927)."""
    result = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return Interval(float(result.low), float(result.high))


def bootstrap(*groups: Numbers, resamples: int = RESAMPLES, seed: int = 0) -> Bounds:
    """Return a 95% percentile bootstrap interval for the average of groups' means (Efron 1979).

    Each group `(n,)` is resampled separately and counts the same, whatever its size. For two
    methods on the same items, pass the items' differences. None if a group has a single value, or
    the values of every group are equal.
    """
    if any(len(values) == 1 for values in groups) or all(np.ptp(values) == 0 for values in groups):
        return None, None

    def average_of_means(*resampled: Floats, axis: int) -> Any:
        return np.mean([np.mean(values, axis=axis) for values in resampled], axis=0)

    return _percentiles(groups, average_of_means, resamples, seed)


def auc(positive: Numbers, negative: Numbers, *, seed: int = 0) -> Interval:
    """Return a 95% bootstrap interval for the area under the ROC curve; both groups are resampled.

    Equal scores count half (Mann and Whitney 1947). With fewer than two scores of a group it is 0
    to 1.
    """
    if min(len(positive), len(negative)) < 2:
        return Interval(0.0, 1.0)

    def area(first: Floats, second: Floats, axis: int) -> Any:
        wins = stats.mannwhitneyu(first, second, axis=axis, method="asymptotic").statistic
        return wins / (len(positive) * len(negative))

    return _percentiles((positive, negative), area, AUC_RESAMPLES, seed)


def spread(scores: Positions) -> float:
    """Return the best position's mean minus the worst one's; `scores` is `(positions, items)`."""
    return float(np.ptp(np.mean(scores, axis=1)))


def spread_test(scores: Positions, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the p of a spread as large if an item's scores did not depend on the position."""
    values = np.asarray(scores)
    if np.all(np.ptp(values, axis=0) == 0):
        return 1.0

    def statistic(*positions: Floats, axis: int) -> Any:
        return np.ptp([np.mean(position, axis=axis) for position in positions], axis=0)

    result = stats.permutation_test(
        tuple(values), statistic, permutation_type="samples", vectorized=True,
        alternative="greater", n_resamples=resamples, batch=max(1, _BATCH // values.size),
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(result.pvalue)


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided exact p of McNemar's test; items that one method alone has right."""
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue) if only_a + only_b else 1.0


def permutation_test(differences: Numbers, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p for a mean paired difference of 0, by flipping signs (Fisher 1935)."""
    values = np.asarray(differences)
    values = values[values != 0]  # A flip does not change a zero.
    if len(values) < 2:
        return 1.0
    result = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", vectorized=True, n_resamples=resamples,
        batch=max(1, _BATCH // len(values)), rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down correction (Holm 1979), in the same order."""
    if not p_values:
        return []
    return [float(p) for p in multipletests(p_values, method="holm")[1]]


def count_decisions(misplaced: ArrayLike, mapped: ArrayLike) -> dict[str, Any]:
    """Count decisions by label: `tp` are misplaced questions that are sent to the map.

    Returns the four counts, precision, recall and specificity with Wilson's intervals, `f1`, and
    `skip_share`, the share of questions that skip the map. A share of nothing is None.
    """
    truth, sent = np.asarray(misplaced, dtype=bool), np.asarray(mapped, dtype=bool)
    pairs = (truth & sent, ~truth & sent, truth & ~sent, ~truth & ~sent)
    tp, fp, fn, tn = (int(pair.sum()) for pair in pairs)
    parts = {"precision": (tp, tp + fp), "recall": (tp, tp + fn), "specificity": (tn, tn + fp)}
    every = {**parts, "f1": (2 * tp, 2 * tp + fp + fn), "skip_share": (tn + fn, len(truth))}
    shares = {name: part / whole if whole else None for name, (part, whole) in every.items()}
    intervals = {f"{n}_interval": wilson(*part) if part[1] else None for n, part in parts.items()}
    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn, **shares, **intervals}


def _percentiles(
    data: Sequence[Numbers], statistic: Callable[..., Any], resamples: int, seed: int
) -> Interval:
    result = stats.bootstrap(
        data, statistic, vectorized=True, n_resamples=resamples, confidence_level=CONFIDENCE,
        batch=max(1, _BATCH // sum(map(len, data))), method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return Interval(float(result.low), float(result.high))
