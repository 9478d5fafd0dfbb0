"""The spread of scores over positions, and its test."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from briefcontext.evaluation.statistics.inference import bootstrap_spread, holm, spread, spread_test
from briefcontext.evaluation.statistics.paired_shares import spread_of_shares
from briefcontext.evaluation.statistics.score_tables import (
    Bounds,
    Row,
    Table,
    p_value,
    scored,
    title_of,
    titled_by_metric,
    with_interval,
)

__all__ = ["spread_tables", "spreads"]


def spreads(rows: Sequence[Row], over: str, panel: str, *, seed: int) -> list[dict[str, Any]]:
    """Return the spread, best mean minus worst, of each method's scores over a condition value.

    Over the questions with a key that were answered at all positions, each metric by itself. p-values are corrected
    by Holm. The interval is made of Tango's for shares (`spread_of_shares`) and by bootstrap for F1 and for means of
    repeats, where it is None if no position's scores differ.
    """
    groups: dict[tuple[str, str, Any], dict[str, dict[Any, list[float]]]] = {}
    for row in scored(rows):
        if over in row["condition"]:
            key = (row["metric"], row["method"], row["condition"].get(panel))
            at = groups.setdefault(key, {}).setdefault(row["item"], {})
            at.setdefault(row["condition"][over], []).append(float(row["score"]))
    found = []
    for (metric, method, value), repeated in groups.items():
        by_item = {item: {place: fmean(some) for place, some in at.items()} for item, at in repeated.items()}
        positions = sorted({position for scores in by_item.values() for position in scores})
        complete = [scores for scores in by_item.values() if len(scores) == len(positions)]
        if not complete or len(positions) < 2:
            continue
        matrix = [[scores[position] for scores in complete] for position in positions]
        means = [sum(scores) / len(complete) for scores in matrix]
        low, high = _bounds(matrix, metric, seed)
        found.append(
            {
                "metric": metric,
                "method": method,
                panel: value,
                "n": len(complete),
                "spread": spread(matrix),
                "low": low,
                "high": high,
                "best": positions[means.index(max(means))],
                "worst": positions[means.index(min(means))],
                "p": spread_test(matrix, seed=seed),
            }
        )
    for one, corrected in zip(found, holm([s["p"] for s in found]), strict=True):
        one["p_holm"] = corrected
    return found


def _bounds(matrix: Sequence[Sequence[float]], metric: str, seed: int) -> Bounds:
    shares = metric == "accuracy" and {score for scores in matrix for score in scores} <= {0, 1}
    if not shares and all(min(scores) == max(scores) for scores in matrix):
        return None, None
    interval = spread_of_shares(matrix) if shares else bootstrap_spread(matrix, seed=seed)
    return interval.low, interval.high


def spread_tables(found: Sequence[dict[str, Any]]) -> list[Table]:
    """Make a table of the spreads by each metric."""
    return [_table(title, some, metric) for title, metric, some in titled_by_metric("Spread over positions", found)]


_INTERVALS = {
    "accuracy": "the interval is made of Tango's score intervals for all pairs of positions, corrected by Bonferroni",
    "f1": "the interval is that of the bootstrap's largest sampling error, and none (–) where no score differs",
}


def _table(title: str, found: Sequence[dict[str, Any]], metric: str) -> Table:
    rows = [
        [
            title_of(s["method"]),
            str(s["k"]),
            str(s["n"]),
            with_interval(s["spread"], s["low"], s["high"]),
            f"{s['best']} / {s['worst']}",
            p_value(s["p"]),
            p_value(s["p_holm"]),
        ]
        for s in found
    ]
    return Table(
        title,
        ["Method", "k", "n", "Spread [95% CI]", "Best / worst", "p", "p (Holm)"],
        rows,
        "Best position minus worst, in percentage points, over questions answered at all positions. A largest "
        f"difference of noisy means is never negative, and {_INTERVALS[metric]}; where it holds 0 the positions may be "
        "alike. p: how often shuffling each question's scores over the positions spreads them as far.",
    )
