"""How far scores spread over positions, and whether more than chance would have it."""

from collections.abc import Sequence
from typing import Any

from briefcontext.evaluation.experiment import Row, Table
from briefcontext.evaluation.outcomes import answered, p_value, title_of
from briefcontext.evaluation.statistics import bootstrap_spread, holm, spread, spread_test

__all__ = ["spread_table", "spreads"]


def spreads(rows: Sequence[Row], over: str, panel: str, *, seed: int) -> list[dict[str, Any]]:
    """Return the spread, best mean minus worst, of each method's scores over a condition value.

    Over the questions that were answered at all positions. p-values are corrected by Holm.
    """
    groups: dict[tuple[str, Any], dict[str, dict[Any, float]]] = {}
    for row in answered(rows):
        if over in row["condition"]:
            key = (row["method"], row["condition"].get(panel))
            groups.setdefault(key, {}).setdefault(row["item"], {})[row["condition"][over]] = float(row["score"])
    found = []
    for (method, value), by_item in groups.items():
        positions = sorted({position for scores in by_item.values() for position in scores})
        complete = [scores for scores in by_item.values() if len(scores) == len(positions)]
        if not complete or len(positions) < 2:
            continue
        matrix = [[scores[position] for scores in complete] for position in positions]
        means = [sum(scores) / len(complete) for scores in matrix]
        interval = bootstrap_spread(matrix, seed=seed)
        found.append(
            {
                "method": method,
                panel: value,
                "n": len(complete),
                "spread": spread(matrix),
                "low": interval.low,
                "high": interval.high,
                "best": positions[means.index(max(means))],
                "worst": positions[means.index(min(means))],
                "p": spread_test(matrix, seed=seed),
            }
        )
    for one, corrected in zip(found, holm([s["p"] for s in found]), strict=True):
        one["p_holm"] = corrected
    return found


def spread_table(found: Sequence[dict[str, Any]]) -> Table:
    """Make a table of spreads."""
    rows = [
        [
            title_of(s["method"]),
            str(s["k"]),
            str(s["n"]),
            f"{100 * s['spread']:.1f} [{100 * s['low']:.1f}, {100 * s['high']:.1f}]",
            f"{s['best']} / {s['worst']}",
            p_value(s["p"]),
            p_value(s["p_holm"]),
        ]
        for s in found
    ]
    return Table(
        "Spread over positions",
        ["Method", "k", "n", "Spread [95% CI]", "Best / worst", "p", "p (Holm)"],
        rows,
        "Best position minus worst, in percentage points, over questions answered at all positions. A largest "
        "difference of noisy means is never negative; the interval allows for that by the bootstrap of the largest "
        "sampling error, and where it holds 0 the positions may be alike. p: how often shuffling each question's "
        "scores over the positions spreads them as far.",
    )
