"""How far scores spread over positions, and whether more than chance would have it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.evaluation.experiment import Row, Table
from briefcontext.evaluation.outcomes import answered, title_of
from briefcontext.evaluation.statistics import holm

__all__ = ["spread_table", "spreads"]

_RESAMPLES = 2000
_LEVELS = (2.5, 97.5)


def spreads(rows: Sequence[Row], over: str, panel: str, *, seed: int) -> list[dict[str, Any]]:
    """Return the spread, best mean minus worst, of each method's scores over a condition value.

    The interval is a percentile bootstrap over questions, each resampled with its scores at all positions. A
    spread of noisy means is never negative and above zero also where positions do not matter, so the p-value
    comes from shuffling each question's scores over the positions: how often chance spreads them as far.
    p-values are corrected by Holm.
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
        if len(complete) < 2 or len(positions) < 2:
            continue
        matrix = np.array([[scores[position] for position in positions] for scores in complete])
        found.append({"method": method, panel: value, **_spread(matrix, positions, seed)})
    for spread, corrected in zip(found, holm([s["p"] for s in found]) if found else [], strict=True):
        spread["p_holm"] = corrected
    return found


def _spread(matrix: NDArray[np.float64], positions: Sequence[Any], seed: int) -> dict[str, Any]:
    """Describe the spread of a matrix of scores `(questions, positions)`."""
    random = np.random.default_rng(seed)
    means = matrix.mean(axis=0)
    observed = float(np.ptp(means))
    resampled, shuffled = np.empty(_RESAMPLES), np.empty(_RESAMPLES)
    for turn in range(_RESAMPLES):
        resampled[turn] = np.ptp(matrix[random.integers(0, len(matrix), len(matrix))].mean(axis=0))
        shuffled[turn] = np.ptp(random.permuted(matrix, axis=1).mean(axis=0))
    low, high = np.percentile(resampled, _LEVELS)
    return {
        "n": len(matrix),
        "spread": observed,
        "low": float(low),
        "high": float(high),
        "best": positions[int(means.argmax())],
        "worst": positions[int(means.argmin())],
        "by_chance": float(shuffled.mean()),
        "p": float((1 + np.sum(shuffled >= observed - 1e-12)) / (_RESAMPLES + 1)),
    }


def spread_table(found: Sequence[dict[str, Any]]) -> Table:
    """Make a table of spreads."""
    rows = [
        [
            title_of(s["method"]),
            str(s["k"]),
            str(s["n"]),
            f"{100 * s['spread']:.1f} [{100 * s['low']:.1f}, {100 * s['high']:.1f}]",
            f"{s['best']} / {s['worst']}",
            f"{100 * s['by_chance']:.1f}",
            "< 0.001" if s["p"] < 0.001 else f"{s['p']:.3f}",
            "< 0.001" if s["p_holm"] < 0.001 else f"{s['p_holm']:.3f}",
        ]
        for s in found
    ]
    return Table(
        "Spread over positions",
        ["Method", "k", "n", "Spread [95% CI]", "Best / worst", "By chance", "p", "p (Holm)"],
        rows,
        "Best position minus worst, in percentage points, over questions answered at all positions. A spread is "
        "above zero also where positions do not matter: 'by chance' is its mean when each question's scores are "
        "shuffled over the positions, and p how often it is then at least as large.",
    )
