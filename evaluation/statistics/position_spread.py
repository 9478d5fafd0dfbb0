"""The spread of scores over positions: the best one's mean less the worst one's, with its interval and test."""

from collections.abc import Sequence
from itertools import combinations
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

from briefcontext.errors import InputError
from briefcontext.evaluation.statistics.comparison import correct
from briefcontext.evaluation.statistics.inference import (
    BATCH,
    CONFIDENCE,
    RESAMPLES,
    Bounds,
    Floats,
    Interval,
    resampled,
    tango,
)
from briefcontext.evaluation.statistics.score_tables import Row, grouped, scored, titled_by_metric
from briefcontext.evaluation.statistics.tables import METHOD, P_VALUES, Columns, N, Table, interval_of

__all__ = ["bootstrap_spread", "spread", "spread_of_shares", "spread_tables", "spread_test", "spreads"]


def spread(scores: Sequence[Sequence[float]] | Floats) -> float:
    """Return the best position's mean less the worst one's; `scores` is `(positions, items)`."""
    means = _positions(scores).mean(axis=1)
    return float(means.max() - means.min())


def bootstrap_spread(
    scores: Sequence[Sequence[float]] | Floats, *, resamples: int = RESAMPLES, seed: int = 0
) -> Bounds:
    """Return a 95% bootstrap interval for `spread`, the items resampled together at all positions.

    `scores` is `(positions, items)`, one item a column. A largest difference is never negative, and resampling moves
    it upward, so that a percentile interval would not hold 0 even where all positions are alike. The interval is
    therefore `spread` plus and minus the quantile of the largest difference between the positions' sampling errors: no
    spread can be further from the true one than that (the idea of Tukey's range test). It is cut at 0, and holds the
    true spread at least as often as it says; where 0 is in it, the positions may be alike. None where no position's
    scores differ, and resampling cannot tell.
    """
    values = _positions(scores)
    observed = spread(values)
    if np.all(np.ptp(values, axis=1) == 0):
        return None, None
    means = values.mean(axis=1)

    def largest_error(*resampled: Floats, axis: int) -> Any:
        errors = [np.mean(position, axis=axis) - mean for position, mean in zip(resampled, means, strict=True)]
        return np.ptp(errors, axis=0)

    errors = resampled(tuple(values), largest_error, resamples, seed, paired=True)
    reach = float(np.quantile(errors.bootstrap_distribution, CONFIDENCE))
    return Interval(max(observed - reach, 0.0), observed + reach)


def spread_test(scores: Sequence[Sequence[float]] | Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return how often a spread as large would come by chance if an item's scores did not depend on the position.

    A Monte Carlo permutation test: the positions of each item's scores, `(positions, items)`, are shuffled.
    """
    values = _positions(scores)
    rng = np.random.default_rng(seed)
    observed, reached, done = spread(values), 0, 0
    batch = max(1, BATCH // values.size)
    while done < resamples:
        count = min(batch, resamples - done)
        means = rng.permuted(np.broadcast_to(values, (count, *values.shape)), axis=1).mean(axis=2)
        reached += int(np.count_nonzero(np.ptp(means, axis=1) >= observed - 1e-12))
        done += count
    return (reached + 1) / (resamples + 1)


def spread_of_shares(right: Sequence[Sequence[float]]) -> Interval:
    """Return a 95% interval for `spread` of shares; `right` is 0 or 1, `(positions, items)`.

    Tango's intervals of all pairs of positions, each at 1 - 0.05 / pairs (Bonferroni), hold all true differences
    together at least 95% of the time, and so does what follows of the largest: it is no less than the highest lower
    bound, nor less than 0, and no more than the highest upper bound.

    Raises:
        InputError: a score is neither 0 nor 1, or there are not two positions with the same items.
    """
    spread(right)  # checks the shape
    if any(value not in (0, 1) for row in right for value in row):
        raise InputError("Shares are made of items that are right or wrong: 1 or 0.")
    n, each = len(right[0]), 1 - 2 * (1 - CONFIDENCE) / (len(right) * (len(right) - 1))
    low, high = 0.0, 0.0
    for one, other in combinations(right, 2):
        win = sum(a > b for a, b in zip(one, other, strict=True))
        lose = sum(a < b for a, b in zip(one, other, strict=True))
        found = tango(win, lose, n, each)
        low, high = max(low, found.low, -found.high), max(high, found.high, -found.low)
    return Interval(low, high)


def spreads(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the spread, best mean minus worst, of each method's scores over the positions, at each k.

    Over the questions with a key that were answered at all positions, each metric by itself. p-values are corrected
    by Holm. The interval is made of Tango's for shares (`spread_of_shares`) and by bootstrap for F1 and for means of
    repeats, where it is None if no position's scores differ.
    """
    found = []
    groups = grouped(scored(rows), lambda row: (row["metric"], row["method"], row["condition"].get("k")))
    for (metric, method, k), some in groups.items():
        answers = grouped(some, lambda row: (row["condition"].get("position"), row["item"]))
        scores = {key: fmean(float(row["score"]) for row in own) for key, own in answers.items()}
        positions = sorted({position for position, _ in scores if position is not None})
        items = [item for item in grouped(some, itemgetter("item")) if all((p, item) in scores for p in positions)]
        if not items or len(positions) < 2:
            continue
        matrix = [[scores[position, item] for item in items] for position in positions]
        means = [sum(own) / len(items) for own in matrix]
        shares = metric == "accuracy" and {score for own in matrix for score in own} <= {0, 1}
        low, high = spread_of_shares(matrix) if shares else bootstrap_spread(matrix, seed=seed)
        found.append(
            {
                "metric": metric,
                "method": method,
                "k": k,
                "n": len(items),
                "spread": spread(matrix),
                "low": low,
                "high": high,
                "best": positions[means.index(max(means))],
                "worst": positions[means.index(min(means))],
                "p": spread_test(matrix, seed=seed),
            }
        )
    correct(found)
    return found


_INTERVALS = {
    "accuracy": "the interval is made of Tango's score intervals for all pairs of positions, corrected by Bonferroni",
    "f1": "the interval is that of the bootstrap's largest sampling error, and none (–) where no score differs",
}


def spread_tables(found: Sequence[dict[str, Any]]) -> list[Table]:
    """Make a table of the spreads by each metric."""
    columns: Columns = {
        **METHOD,
        "k": itemgetter("k"),
        **N,
        "Spread [95% CI]": interval_of("spread"),
        "Best / worst": lambda one: f"{one['best']} / {one['worst']}",
        **P_VALUES,
    }
    return [
        Table.of(
            title,
            some,
            columns,
            "Best position minus worst, in percentage points, over questions answered at all positions. A largest "
            f"difference of noisy means is never negative, and {_INTERVALS[metric]}; where it holds 0 the positions "
            "may be alike. p: how often shuffling each question's scores over the positions spreads them as far.",
        )
        for title, metric, some in titled_by_metric("Spread over positions", found)
    ]


def _positions(scores: Sequence[Sequence[float]] | Floats) -> Floats:
    if len({len(row) for row in scores}) != 1:
        raise InputError("Every position needs the score of every item: the rows differ in length, or there are none.")
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or len(values) < 2 or not np.isfinite(values).all():
        raise InputError(f"Finite scores of two or more positions are needed, not an array of shape {values.shape}.")
    return values
