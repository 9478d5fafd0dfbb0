"""Methods tested against vanilla on the same questions."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.inference import (
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    permutation_test,
)
from briefcontext.evaluation.statistics.paired_shares import tango
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    answered,
    bootstrap_bounds,
    by_metric,
    conditional_methods,
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
    "average_test",
    "compare_conditions",
    "compare_methods",
    "comparison_tables",
    "correct",
    "difference_columns",
    "interval_note",
    "paired",
    "paired_test",
    "question_differences",
]

Comparison = dict[str, Any]

MCNEMAR = "McNemar, exact"
DIFFERENCE_COLUMNS = ("n", "Difference [95% CI]", "Win / tie / lose", "Test", "p", "p (Holm)", "mid-p")
"""What `difference_columns` fills."""


def paired(rows: Sequence[Row], first: str, second: str) -> list[tuple[Row, Row]]:
    """Return the answered rows of two methods on the same question under the same condition, in the same repeat.

    A method that is not run under conditions is paired with the other under each of them.
    """
    good = answered(rows)
    of_second = {(row["item"], _repeat(row), tuple(row["condition"].items())): row
                 for row in good if row["method"] == second}  # fmt: skip
    pairs = []
    for row in good:
        if row["method"] == first:
            item = (row["item"], _repeat(row))
            keys = ((*item, tuple(row["condition"].items())), (*item, ()))
            other = next((of_second[key] for key in keys if key in of_second), None)
            if other is not None:
                pairs.append((row, other))
    return pairs


def _repeat(row: Row) -> int:
    return int(row.get("repeat", 0))


def compare_conditions(
    rows: Sequence[Row], first: Mapping[str, Any], second: Mapping[str, Any], *, seed: int
) -> list[Comparison]:
    """Test every method with itself, by each metric: under the first condition against under the second.

    A condition names some of the values; answers that differ in others are averaged for each question. The p-values
    are not corrected yet: that is done over all that an experiment tests.
    """

    def under(row: Row, condition: Mapping[str, Any]) -> bool:
        return all(row["condition"].get(name) == value for name, value in condition.items())

    found = []
    for metric, some in by_metric(scored(rows)).items():
        for name in conditional_methods(some):
            groups: list[dict[str, list[Row]]] = [{}, {}]
            for row in some:
                for group, condition in zip(groups, (first, second), strict=True):
                    if row["method"] == name and under(row, condition):
                        group.setdefault(row["item"], []).append(row)
            both = [(_mean(groups[0][item]), _mean(groups[1][item])) for item in groups[0] if item in groups[1]]
            if both:
                found.append({"metric": metric, "method": name, **paired_test(both, seed=seed)})
    return found


def _mean(rows: Sequence[Row]) -> Row:
    return {**rows[0], "score": fmean(float(row["score"]) for row in rows)}


def correct(comparisons: Sequence[Comparison]) -> None:
    """Add to each of an experiment's comparisons its p-value as Holm corrects it over all of them."""
    for comparison, corrected in zip(comparisons, holm([c["p"] for c in comparisons]), strict=True):
        comparison["p_holm"] = corrected


def compare_methods(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Comparison]:
    """Test every method against vanilla under every condition, by each metric; questions without a key are left out.

    Exact McNemar for multiple choice, a paired permutation test for F1 and where a question has several answers;
    p-values corrected by Holm over all comparisons of the experiment.

    Args:
        rows: of items.jsonl.
        seed: for bootstraps and permutations.
        by: condition values to keep apart; none means all. Answers that differ in others are averaged for each
            question, as are those of repeats.
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
    correct(found)
    return found


def question_differences(pairs: Sequence[tuple[Row, Row]]) -> list[float]:
    """Return for each question the first's score less the second's; the mean where it has several pairs."""
    by_item: dict[str, list[float]] = {}
    for first, second in pairs:
        by_item.setdefault(first["item"], []).append(float(first["score"]) - float(second["score"]))
    return [fmean(some) for some in by_item.values()]


def average_test(groups: Sequence[Sequence[float]], *, seed: int) -> Comparison:
    """Test whether the average of the groups' mean differences is 0; each group counts alike, whatever its size."""
    every = [difference for group in groups for difference in group]
    weighted = [difference / len(group) for group in groups for difference in group]
    low, high = bootstrap_bounds(*groups, seed=seed)
    win, lose = sum(d > 0 for d in every), sum(d < 0 for d in every)
    return {
        "n": len(every),
        "difference": fmean(map(fmean, groups)),
        "low": low,
        "high": high,
        "win": win,
        "tie": len(every) - win - lose,
        "lose": lose,
        "test": "permutation",
        "p": permutation_test(weighted, seed=seed),
        "mid_p": None,
    }


def paired_test(pairs: Sequence[tuple[Row, Row]], *, seed: int) -> Comparison:
    """Test the first against the second of scored rows on the same questions, all by the same metric.

    For multiple choice exact McNemar, with its mid-p beside it, and Tango's score interval. For F1, and where a
    question has several pairs, whose differences are then averaged, a permutation test over the questions and the
    bootstrap, without an interval (None) where all differences are alike.
    """
    differences = question_differences(pairs)
    win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    choice = len(differences) == len(pairs) and is_choice([row for pair in pairs for row in pair])
    shares = tango(win, lose, len(pairs)) if choice else None
    low, high = (shares.low, shares.high) if shares else bootstrap_bounds(differences, seed=seed)
    return {
        "n": len(differences),
        "difference": fmean(differences),
        "low": low,
        "high": high,
        "win": win,
        "tie": len(differences) - win - lose,
        "lose": lose,
        "test": MCNEMAR if choice else "permutation",
        "p": float(mcnemar_exact(win, lose) if choice else permutation_test(differences, seed=seed)),
        "mid_p": mcnemar_mid_p(win, lose) if choice else None,
    }


def comparison_tables(comparisons: Sequence[Comparison], title: str = "Against vanilla RAG") -> list[Table]:
    """Make a table of the comparisons by each metric."""
    return [_table(heading, some, len(comparisons)) for heading, _, some in titled_by_metric(title, comparisons)]


def difference_columns(tested: Mapping[str, Any]) -> list[str]:
    """Return what a table shows of a paired test, under `DIFFERENCE_COLUMNS`."""
    return [
        str(tested["n"]),
        points_with_interval(tested["difference"], tested["low"], tested["high"]),
        f"{tested['win']} / {tested['tie']} / {tested['lose']}",
        tested["test"],
        p_value(tested["p"]),
        p_value(tested["p_holm"]),
        p_value(tested["mid_p"]),
    ]


def interval_note(comparisons: Sequence[Comparison]) -> str:
    """Say how the intervals of differences are made, and how they go with the tests."""
    tests = {c["test"] for c in comparisons}
    parts = []
    if MCNEMAR in tests:
        parts.append("with McNemar's test, intervals are Tango's score intervals for paired shares")
    if tests - {MCNEMAR}:
        parts.append("with the permutation test, by bootstrap over questions, and none (–) where all differences are "
                     "alike")  # fmt: skip
    note = f"{'; '.join(parts)}. Each interval is for its own difference, and not corrected for their number"
    if MCNEMAR in tests:
        note += (
            ". The exact test is cautious: where an interval leaves out 0 and p is above 0.05, the mid-p goes with the "
            "interval"
        )
    return note


def _table(title: str, comparisons: Sequence[Comparison], tested: int) -> Table:
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
        f"Differences in percentage points on the same questions; {interval_note(comparisons)}. "
        f"Holm corrects over the {tested} comparisons of this experiment.",
    )
