"""Methods tested against vanilla on the same questions."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.inference import holm, mcnemar_exact, permutation_test
from briefcontext.evaluation.statistics.paired_shares import tango
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    answered,
    bootstrap_bounds,
    by_metric,
    is_choice,
    p_value,
    points_with_interval,
    scored,
    title_of,
    titled_by_metric,
)

__all__ = [
    "DIFFERENCE_COLUMNS",
    "Comparison",
    "compare_methods",
    "comparison_tables",
    "difference_columns",
    "interval_note",
    "paired",
    "paired_test",
]

Comparison = dict[str, Any]

DIFFERENCE_COLUMNS = ("n", "Difference [95% CI]", "Win / tie / lose", "Test", "p", "p (Holm)")
"""What `difference_columns` fills."""


def paired(rows: Sequence[Row], first: str, second: str) -> list[tuple[Row, Row]]:
    """Return the answered rows of two methods on the same question under the same condition.

    A method that is not run under conditions is paired with the other under each of them.
    """
    good = answered(rows)
    of_second = {(row["item"], tuple(row["condition"].items())): row for row in good if row["method"] == second}
    pairs = []
    for row in good:
        if row["method"] == first:
            keys = ((row["item"], tuple(row["condition"].items())), (row["item"], ()))
            other = next((of_second[key] for key in keys if key in of_second), None)
            if other is not None:
                pairs.append((row, other))
    return pairs


def compare_methods(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Comparison]:
    """Test every method against vanilla under every condition, by each metric; questions without a key are left out.

    Exact McNemar for multiple choice, a paired permutation test for F1; p-values corrected by Holm over all
    comparisons of the experiment.
    """
    methods = [name for name in dict.fromkeys(row["method"] for row in rows) if name != VANILLA]
    order = list(dict.fromkeys(tuple(row["condition"].items()) for row in rows))
    found: list[Comparison] = []
    for metric, name, some in ((m, name, some) for m, some in by_metric(scored(rows)).items() for name in methods):
        groups: dict[tuple[Any, ...], list[tuple[Row, Row]]] = {}
        pairs = paired(some, VANILLA, name)
        for vanilla, other in sorted(pairs, key=lambda pair: order.index(tuple(pair[0]["condition"].items()))):
            condition = {key: value for key, value in vanilla["condition"].items() if not by or key in by}
            groups.setdefault(tuple(condition.items()), []).append((other, vanilla))
        found += [
            {"metric": metric, "method": name, "condition": dict(condition), **paired_test(group, seed=seed)}
            for condition, group in groups.items()
        ]
    for comparison, corrected in zip(found, holm([c["p"] for c in found]), strict=True):
        comparison["p_holm"] = corrected
    return found


def paired_test(pairs: Sequence[tuple[Row, Row]], *, seed: int) -> Comparison:
    """Test the first against the second of scored rows on the same questions, all by the same metric.

    For multiple choice exact McNemar and Tango's score interval; for F1 a permutation test and the bootstrap, without
    an interval (None) where all differences are alike.
    """
    differences = [float(first["score"]) - float(second["score"]) for first, second in pairs]
    win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    choice = is_choice([row for pair in pairs for row in pair])
    shares = tango(win, lose, len(pairs)) if choice else None
    low, high = (shares.low, shares.high) if shares else bootstrap_bounds(differences, seed=seed)
    return {
        "n": len(pairs),
        "difference": fmean(differences),
        "low": low,
        "high": high,
        "win": win,
        "tie": len(pairs) - win - lose,
        "lose": lose,
        "test": "McNemar, exact" if choice else "permutation",
        "p": float(mcnemar_exact(win, lose) if choice else permutation_test(differences, seed=seed)),
    }


def comparison_tables(comparisons: Sequence[Comparison]) -> list[Table]:
    """Make a table of the comparisons by each metric."""
    return [
        _table(title, some, metric, len(comparisons))
        for title, metric, some in titled_by_metric("Against vanilla RAG", comparisons)
    ]


def difference_columns(tested: Mapping[str, Any]) -> list[str]:
    """Return what a table shows of a paired test, under `DIFFERENCE_COLUMNS`."""
    return [
        str(tested["n"]),
        points_with_interval(tested["difference"], tested["low"], tested["high"]),
        f"{tested['win']} / {tested['tie']} / {tested['lose']}",
        tested["test"],
        p_value(tested["p"]),
        p_value(tested["p_holm"]),
    ]


def interval_note(metric: str) -> str:
    """Say how the intervals of differences by a metric are made."""
    if metric == "accuracy":
        return "intervals are Tango's score intervals for paired shares"
    return "intervals by bootstrap over questions, and none (–) where all differences are alike"


def _table(title: str, comparisons: Sequence[Comparison], metric: str, tested: int) -> Table:
    names = list(dict.fromkeys(name for comparison in comparisons for name in comparison["condition"]))
    rows = [
        [
            title_of(c["method"]),
            *(str(c["condition"].get(name, "any")) for name in names),
            *difference_columns(c),
        ]
        for c in comparisons
    ]
    return Table(
        title,
        ["Method", *names, *DIFFERENCE_COLUMNS],
        rows,
        f"Differences in percentage points on the same questions; {interval_note(metric)}. "
        f"Holm corrects over the {tested} comparisons of this experiment.",
    )
