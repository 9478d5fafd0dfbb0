"""Intervals and tests for shares, scores and their differences, by scipy and statsmodels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import InputError, MissingExtraError

__all__ = [
    "RESAMPLES",
    "Interval",
    "bootstrap",
    "bootstrap_average",
    "bootstrap_spread",
    "holm",
    "mcnemar_exact",
    "permutation_test",
    "spread",
    "spread_test",
    "wilson",
]

RESAMPLES = 10_000
"""Resamples of a bootstrap or a permutation test."""

_BATCH = 1 << 21

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float
    n: int = 0
    """The number of items that it rests on."""


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a share (Wilson 1927); from 0 to 1 where n is 0 and nothing is known."""
    if not 0 <= successes <= n:
        raise InputError(f"{successes} successes of {n} are not possible: there are 0 to n.")
    _check_confidence(confidence)
    if n == 0:
        return Interval(0.0, 1.0, 0)
    low, high = _proportion().proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
    # At 0 and n the bound is the share itself; rounding must not carry it past.
    share = successes / n
    return Interval(min(max(float(low), 0.0), share), max(min(float(high), 1.0), share), n)


def bootstrap(
    samples: Sequence[float] | Floats,
    statistic: Literal["mean", "median"] = "mean",
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    method: Literal["percentile", "bca"] = "percentile",
    seed: int = 0,
) -> Interval:
    """Bootstrap interval for the mean or the median of `samples`, `(n,)` (Efron 1979, BCa: Efron 1987).

    For two methods on the same items, give the items' differences. Where all samples are equal, resampling
    cannot tell how sure they are, and the interval is that value. Where the BCa correction is not defined
    (a resample is always on one side), the percentile interval is returned.
    """
    values = _values(samples)
    _check_confidence(confidence)
    function: Any = {"mean": np.mean, "median": np.median}[statistic]
    if np.ptp(values) == 0:
        return Interval(float(values[0]), float(values[0]), len(values))
    found = _bootstrap((values,), function, confidence, resamples, method, seed)
    if not np.isfinite([found.low, found.high]).all():
        found = _bootstrap((values,), function, confidence, resamples, "percentile", seed)
    return found


def bootstrap_average(
    groups: Sequence[Sequence[float] | Floats],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile interval for the average of the groups' means, each group resampled by itself.

    For an average over data sets, each of which counts the same whatever its size.
    """
    strata = tuple(_values(group) for group in groups)
    if not strata:
        raise InputError("An average over no groups has no interval: give one or more.")
    _check_confidence(confidence)
    if all(np.ptp(values) == 0 for values in strata):
        average = float(np.mean([values[0] for values in strata]))
        return Interval(average, average, sum(map(len, strata)))

    def average_of_means(*resampled: Floats, axis: int) -> Any:
        return np.mean([np.mean(values, axis=axis) for values in resampled], axis=0)

    return _bootstrap(strata, average_of_means, confidence, resamples, "percentile", seed)


def spread(scores: Sequence[Sequence[float]] | Floats) -> float:
    """The best position's mean less the worst one's; `scores` is `(positions, items)`."""
    means = _positions(scores).mean(axis=1)
    return float(means.max() - means.min())


def bootstrap_spread(
    scores: Sequence[Sequence[float]] | Floats,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval for `spread`, the items resampled together at all positions.

    `scores` is `(positions, items)`, one item a column. A largest difference is never negative, and
    resampling moves it upward, so that a percentile interval would not hold 0 even where all positions are
    alike. The interval is therefore `spread` plus and minus the quantile of the largest difference between
    the positions' sampling errors: no spread can be further from the true one than that (the idea of
    Tukey's range test). It is cut at 0, and holds the true spread at least as often as `confidence` says;
    where 0 is in it, the positions may be alike.
    """
    values = _positions(scores)
    _check_confidence(confidence)
    observed = spread(values)
    if np.all(np.ptp(values, axis=1) == 0):
        return Interval(observed, observed, values.shape[1])
    means = values.mean(axis=1)

    def largest_error(*resampled: Floats, axis: int) -> Any:
        errors = [np.mean(position, axis=axis) - mean for position, mean in zip(resampled, means, strict=True)]
        return np.ptp(errors, axis=0)

    errors = _resampled(tuple(values), largest_error, confidence, resamples, "percentile", seed, paired=True)
    reach = float(np.quantile(errors.bootstrap_distribution, confidence))
    return Interval(max(observed - reach, 0.0), observed + reach, values.shape[1])


def spread_test(scores: Sequence[Sequence[float]] | Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """How often a spread as large would come by chance if an item's scores did not depend on the position.

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
    """Two-sided exact McNemar test: items that only A, and that only B, answers rightly (McNemar 1947)."""
    if only_a < 0 or only_b < 0:
        raise InputError(f"Counts cannot be negative: {only_a} and {only_b}.")
    if only_a + only_b == 0:
        return 1.0
    return float(_scipy_stats().binomtest(only_a, only_a + only_b, 0.5).pvalue)


def permutation_test(differences: Sequence[float] | Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided test that the mean of paired differences is 0, by flipping their signs (Fisher 1935).

    Exact where all 2^n flips are no more than `resamples`; else by chance, the observed one counted among them.
    """
    values = _values(differences)
    values = values[values != 0]  # a flip does not change a zero
    if len(values) < 2:
        return 1.0  # one difference is as large whatever its sign

    def mean_of_differences(flipped: Floats, zeros: Floats, axis: int) -> Any:
        return np.mean(flipped - zeros, axis=axis)

    found = _scipy_stats().permutation_test(
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
    """Holm's step-down correction (Holm 1979): adjusted p-values, in the order given."""
    if not all(0 <= p <= 1 for p in p_values):
        raise InputError(f"p-values lie between 0 and 1: {[p for p in p_values if not 0 <= p <= 1]}.")
    if not p_values:
        return []
    try:
        from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing() from error
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]]


def _bootstrap(
    data: tuple[Floats, ...], statistic: Statistic, confidence: float, resamples: int, method: str, seed: int
) -> Interval:
    found = _resampled(data, statistic, confidence, resamples, method, seed).confidence_interval
    return Interval(float(found.low), float(found.high), sum(map(len, data)))


def _resampled(
    data: tuple[Floats, ...],
    statistic: Statistic,
    confidence: float,
    resamples: int,
    method: str,
    seed: int,
    *,
    paired: bool = False,
) -> Any:
    import warnings

    with warnings.catch_warnings():
        # scipy warns of degenerate resamples and returns NaN, which `bootstrap` looks for.
        warnings.simplefilter("ignore")
        return _scipy_stats().bootstrap(
            data,
            statistic,
            paired=paired,
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, _BATCH // sum(map(len, data))),
            confidence_level=confidence,
            method={"bca": "BCa"}.get(method, method),
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


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"A confidence of {confidence} is not possible: it lies between 0 and 1, such as 0.95.")


def _scipy_stats() -> ModuleType:
    try:
        import scipy.stats
    except ImportError as error:
        raise _missing() from error
    return scipy.stats


def _proportion() -> ModuleType:
    try:
        import statsmodels.stats.proportion  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing() from error
    module: ModuleType = statsmodels.stats.proportion
    return module


def _missing() -> MissingExtraError:
    return MissingExtraError("Statistics need scipy and statsmodels: pip install 'briefcontext[experiments]'.")
