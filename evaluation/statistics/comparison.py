"""Methods tested against vanilla on the same questions."""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.inference import (
    Bounds,
    bootstrap,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    permutation_test,
    tango,
)
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    answered,
    by_metric,
    condition_of,
    grouped,
    is_choice,
    question_means,
    scored,
    titled_by_metric,
)
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    P_VALUES,
    WIN_TIE_LOSE,
    N,
    Record,
    Table,
    p_value,
    points_with_interval,
    under,
)

__all__ = [
    "Comparison",
    "against_vanilla",
    "average_test",
    "compare_conditions",
    "compare_methods",
    "comparison_tables",
    "correct",
    "paired",
    "question_differences",
    "tally",
]

Comparison = dict[str, Any]

MCNEMAR = "McNemar, exact"


def paired(rows: Sequence[Row], first: str, second: str) -> list[tuple[Row, Row]]:
    """Return the answered rows of two methods on the same question under the same condition, in the same repeat.

    A method that is not run under conditions is paired with the other under each of them.
    """

    def key(row: Row) -> tuple[Any, ...]:
        return row["item"], int(row.get("repeat", 0)), condition_of(row)

    good = answered(rows)
    of_second = {key(row): row for row in good if row["method"] == second}
    pairs = []
    for row in (row for row in good if row["method"] == first):
        other = of_second.get(key(row)) or of_second.get((*key(row)[:2], ()))
        if other is not None:
            pairs.append((row, other))
    return pairs


def compare_conditions(
    rows: Sequence[Row], conditions: Iterable[tuple[Record, Record, Record]], *, seed: int
) -> list[Comparison]:
    """Test every method with itself, by each metric; p-values are corrected by Holm over all comparisons.

    Args:
        rows: of items.jsonl.
        conditions: how tables call a comparison, the first condition, and the second that it is tested against. A
            condition names some of the values; answers that differ in others are averaged for each question.
        seed: for bootstraps and permutations.
    """
    found = []
    for label, *two in conditions:
        for metric, some in by_metric(scored(rows)).items():
            for name, own in grouped((row for row in some if row["condition"]), itemgetter("method")).items():
                one, other = (
                    grouped((row for row in own if wanted.items() <= row["condition"].items()), itemgetter("item"))
                    for wanted in two
                )
                if both := [(_mean(one[item]), _mean(other[item])) for item in one if item in other]:
                    tested = paired_test(both, seed=seed)
                    found.append({"metric": metric, "method": name, **tested, "condition": label})
    correct(found)
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
    found = [
        {"metric": metric, "method": name, "condition": condition, **paired_test(pairs, seed=seed)}
        for metric, some in by_metric(scored(rows)).items()
        for name, condition, pairs in against_vanilla(rows, some, by)
    ]
    correct(found)
    return found


def against_vanilla(
    rows: Sequence[Row], some: Sequence[Row], by: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any], list[tuple[Row, Row]]]]:
    """Yield each method and condition with its pairs of some rows, vanilla's second, in the order of all rows."""
    order = list(dict.fromkeys(map(condition_of, rows)))
    for name in dict.fromkeys(row["method"] for row in rows if row["method"] != VANILLA):
        pairs = [(other, vanilla) for vanilla, other in paired(some, VANILLA, name)]
        pairs.sort(key=lambda pair: order.index(condition_of(pair[1])))
        for condition, own in grouped(pairs, lambda pair: condition_of(pair[1], by)).items():
            yield name, dict(condition), own


def question_differences(pairs: Sequence[tuple[Row, Row]]) -> list[float]:
    """Return for each question the first's score less the second's; the mean where it has several pairs."""
    return question_means((one["item"], float(one["score"]) - float(other["score"])) for one, other in pairs)


def average_test(groups: Sequence[Sequence[float]], *, seed: int) -> Comparison:
    """Test whether the average of the groups' mean differences is 0; each group counts alike, whatever its size."""
    every = [difference for group in groups for difference in group]
    weighted = [difference / len(group) for group in groups for difference in group]
    p = permutation_test(weighted, seed=seed)
    return {**_tested(every, bootstrap(*groups, seed=seed), "permutation", p), "difference": fmean(map(fmean, groups))}


def paired_test(pairs: Sequence[tuple[Row, Row]], *, seed: int) -> Comparison:
    """Test the first against the second of scored rows on the same questions, all by the same metric.

    For multiple choice exact McNemar, with its mid-p beside it, and Tango's score interval. For F1, and where a
    question has several pairs, whose differences are then averaged, a permutation test over the questions and the
    bootstrap, without an interval (None) where all differences are alike.
    """
    differences = question_differences(pairs)
    if len(differences) < len(pairs) or not is_choice([row for pair in pairs for row in pair]):
        p = permutation_test(differences, seed=seed)
        return _tested(differences, bootstrap(differences, seed=seed), "permutation", p)
    win, _, lose = tally(differences).values()
    bounds = tango(win, lose, len(pairs))
    return _tested(differences, bounds, MCNEMAR, mcnemar_exact(win, lose), mcnemar_mid_p(win, lose))


def tally(differences: Sequence[float]) -> dict[str, int]:
    """Count the wins, ties and losses of the first."""
    win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return {"win": win, "tie": len(differences) - win - lose, "lose": lose}


def _tested(
    differences: Sequence[float], bounds: Bounds, test: str, p: float, mid_p: float | None = None
) -> Comparison:
    return {
        "n": len(differences),
        "difference": fmean(differences),
        "low": bounds[0],
        "high": bounds[1],
        **tally(differences),
        "test": test,
        "p": p,
        "mid_p": mid_p,
    }


def comparison_tables(comparisons: Sequence[Comparison], title: str = "Against vanilla RAG") -> list[Table]:
    """Make a table of the comparisons by each metric."""
    return [_table(heading, some, len(comparisons)) for heading, _, some in titled_by_metric(title, comparisons)]


def _table(title: str, comparisons: Sequence[Comparison], tested: int) -> Table:
    return Table.of(
        title,
        comparisons,
        {
            **METHOD,
            **under(*(name for comparison in comparisons for name in comparison["condition"])),
            **N,
            "Difference [95% CI]": lambda c: points_with_interval(c["difference"], c["low"], c["high"]),
            **WIN_TIE_LOSE,
            "Test": itemgetter("test"),
            **P_VALUES,
            "mid-p": lambda c: p_value(c["mid_p"]),
        },
        f"Differences in percentage points on the same questions; {_interval_note(comparisons)}. "
        f"Holm corrects over the {tested} comparisons of this experiment.",
    )


def _interval_note(comparisons: Sequence[Comparison]) -> str:
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
