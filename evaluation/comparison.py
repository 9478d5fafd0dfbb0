"""Methods tested against vanilla on the same questions."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from briefcontext.evaluation.experiment import Row, Table
from briefcontext.evaluation.methods import VANILLA
from briefcontext.evaluation.outcomes import answered, is_choice, p_value, title_of
from briefcontext.evaluation.statistics import bootstrap, holm, mcnemar_exact, permutation_test

__all__ = ["Comparison", "compare_methods", "comparison_table", "paired"]

Comparison = dict[str, Any]


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
    """Test every method against vanilla under every condition.

    Exact McNemar for multiple choice, a paired permutation test for F1; p-values corrected by Holm over all
    comparisons of the experiment.
    """
    methods = [name for name in dict.fromkeys(row["method"] for row in rows) if name != VANILLA]
    order = list(dict.fromkeys(tuple(row["condition"].items()) for row in rows))
    found: list[Comparison] = []
    for name in methods:
        groups: dict[tuple[Any, ...], list[tuple[Row, Row]]] = {}
        pairs = paired(rows, VANILLA, name)
        for vanilla, other in sorted(pairs, key=lambda pair: order.index(tuple(pair[0]["condition"].items()))):
            condition = {key: value for key, value in vanilla["condition"].items() if not by or key in by}
            groups.setdefault(tuple(condition.items()), []).append((other, vanilla))
        found += [
            {"method": name, "condition": dict(condition), **_test(some, seed)} for condition, some in groups.items()
        ]
    for comparison, corrected in zip(found, holm([c["p"] for c in found]), strict=True):
        comparison["p_holm"] = corrected
    return found


def _test(pairs: Sequence[tuple[Row, Row]], seed: int) -> Comparison:
    differences = [float(other["score"]) - float(vanilla["score"]) for other, vanilla in pairs]
    win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    choice = is_choice([row for pair in pairs for row in pair])
    interval = bootstrap(differences, seed=seed)
    return {
        "n": len(pairs),
        "difference": fmean(differences),
        "low": interval.low,
        "high": interval.high,
        "win": win,
        "tie": len(pairs) - win - lose,
        "lose": lose,
        "test": "McNemar, exact" if choice else "permutation",
        "p": float(mcnemar_exact(win, lose) if choice else permutation_test(differences, seed=seed)),
    }


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Make a table of comparisons."""
    names = list(dict.fromkeys(name for comparison in comparisons for name in comparison["condition"]))
    rows = [
        [
            title_of(c["method"]),
            *(str(c["condition"].get(name, "any")) for name in names),
            str(c["n"]),
            f"{100 * c['difference']:+.1f} [{100 * c['low']:+.1f}, {100 * c['high']:+.1f}]",
            f"{c['win']} / {c['tie']} / {c['lose']}",
            c["test"],
            p_value(c["p"]),
            p_value(c["p_holm"]),
        ]
        for c in comparisons
    ]
    return Table(
        "Against vanilla RAG",
        ["Method", *names, "n", "Difference [95% CI]", "Win / tie / lose", "Test", "p", "p (Holm)"],
        rows,
        "Differences in percentage points on the same questions; intervals by bootstrap over questions. "
        f"Holm corrects over the {len(rows)} comparisons of this table.",
    )
