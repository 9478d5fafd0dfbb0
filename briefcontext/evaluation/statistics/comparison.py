"""Tests of methods against vanilla RAG on the same questions."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import itemgetter
from statistics import fmean
from typing import Any

from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.inference import (
    Bounds,
    bootstrap,
    holm,
    mcnemar_exact,
    permutation_test,
)
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    P_VALUES,
    WIN_TIE_LOSE,
    Columns,
    N,
    Record,
    Row,
    Table,
    answered,
    by_metric,
    condition_of,
    grouped,
    interval_of,
    question_means,
    scored,
    titled_by_metric,
    under,
)

Comparison = dict[str, Any]
Pairs = list[tuple[Row, Row]]

VERSUS_VANILLA = "Against vanilla RAG"
MCNEMAR, PERMUTATION = "McNemar, exact", "permutation"
DIFFERENCES_NOTE = (
    "Differences in percentage points on the same questions, with bootstrap intervals over "
    "questions that are not corrected for their number; none (–) if all differences are equal."
)


def paired(rows: Sequence[Row], first: str, second: str) -> Pairs:
    """Return the answered rows of two methods on the same question, condition and repeat."""

    def key(row: Row) -> tuple[Any, ...]:
        return row["item"], int(row.get("repeat", 0)), condition_of(row)

    by_method = grouped(answered(rows), itemgetter("method"))
    of_second = {key(row): row for row in by_method.get(second, [])}
    pairs = []
    for row in by_method.get(first, []):
        other = of_second.get(key(row)) or of_second.get((*key(row)[:2], ()))
        if other is not None:
            pairs.append((row, other))
    return pairs


def compare_conditions(
    rows: Sequence[Row], conditions: Iterable[tuple[Record, Record, Record]], *, seed: int
) -> list[Comparison]:
    """Test every method under one condition against itself under another, by each metric.

    `conditions` are the label of a comparison, the first condition, and the second that it is
    tested against. A condition names some of the values; answers that differ in others are averaged
    for each question. Holm corrects over all comparisons.
    """
    results = []
    for label, first, second in conditions:
        for metric, some in by_metric(scored(rows)).items():
            ranked = [row for row in some if row["condition"]]
            for name, own in grouped(ranked, itemgetter("method")).items():
                one, other = (_by_item(own, wanted) for wanted in (first, second))
                both = [pair for item in one for pair in product(one[item], other.get(item, ()))]
                if both:
                    head = {"metric": metric, "method": name, "condition": label}
                    results.append({**head, **_compared(both, seed)})
    correct(results)
    return results


def _by_item(rows: Sequence[Row], condition: Record) -> dict[str, list[Row]]:
    some = [row for row in rows if condition.items() <= row["condition"].items()]
    return grouped(some, itemgetter("item"))


def correct(comparisons: Sequence[Comparison]) -> None:
    """Add Holm's correction over all these comparisons, and their number, to each of them."""
    for comparison, corrected in zip(comparisons, holm([c["p"] for c in comparisons]), strict=True):
        comparison.update(p_holm=corrected, holm_over=len(comparisons))


def compare_methods(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Comparison]:
    """Test every method against vanilla under every condition, by each metric.

    Exact McNemar for multiple choice, a paired permutation test for F1 and if a question has
    several answers. `by` is that of `cells`. Questions without a key are left out.
    """
    results = [{**head, **_compared(pairs, seed)} for head, pairs in _against_vanilla(rows, by)]
    correct(results)
    return results


def compare_averages(rows: Sequence[Row], *, seed: int) -> list[Comparison]:
    """Test every method against vanilla in the unweighted mean over data sets."""
    by_set = by_metric(scored(rows)).items()
    names = {metric: {row["group"] for row in some} for metric, some in by_set}
    results = []
    for head, pairs in _against_vanilla(rows):
        by_group = grouped(pairs, lambda pair: pair[0]["group"])
        groups = [_differences(own) for own in by_group.values()]
        if len(groups) == len(names[head["metric"]]) > 1:
            every = [difference for group in groups for difference in group]
            weighted = [difference / len(group) for group in groups for difference in group]
            p = permutation_test(weighted, seed=seed)
            tested = _tested(every, bootstrap(*groups, seed=seed), p, PERMUTATION)
            results.append({**head, **tested, "difference": fmean(map(fmean, groups))})
    return results


def _against_vanilla(
    rows: Sequence[Row], by: Sequence[str] = ()
) -> Iterator[tuple[Comparison, Pairs]]:
    order = list(dict.fromkeys(map(condition_of, rows)))
    for metric, some in by_metric(scored(rows)).items():
        for name in dict.fromkeys(row["method"] for row in rows if row["method"] != VANILLA):
            pairs = [(other, vanilla) for vanilla, other in paired(some, VANILLA, name)]
            # Resampling depends on the order of pairs.
            pairs.sort(key=lambda pair: order.index(condition_of(pair[1])))
            for condition, own in grouped(pairs, lambda pair: condition_of(pair[1], by)).items():
                yield {"metric": metric, "method": name, "condition": dict(condition)}, own


def _differences(pairs: Pairs) -> list[float]:
    return question_means(
        (one["item"], float(one["score"]) - float(other["score"])) for one, other in pairs
    )


def _compared(pairs: Pairs, seed: int) -> Comparison:
    differences = _differences(pairs)
    interval = bootstrap(differences, seed=seed)
    if len(differences) < len(pairs) or pairs[0][0]["metric"] != "accuracy":
        return _tested(differences, interval, permutation_test(differences, seed=seed), PERMUTATION)
    counts = tally(differences)
    return _tested(differences, interval, mcnemar_exact(counts["win"], counts["lose"]), MCNEMAR)


def tally(differences: Sequence[float]) -> dict[str, int]:
    """Count the wins, ties and losses of the first."""
    win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return {"win": win, "tie": len(differences) - win - lose, "lose": lose}


def _tested(differences: Sequence[float], bounds: Bounds, p: float, test: str) -> Comparison:
    means = {"difference": fmean(differences), "low": bounds[0], "high": bounds[1]}
    return {"n": len(differences), **means, **tally(differences), "test": test, "p": p}


def comparison_tables(comparisons: Sequence[Comparison], title: str) -> list[Table]:
    """Make a table of the comparisons by each metric."""
    tables = []
    for heading, some in titled_by_metric(title, comparisons):
        columns: Columns = {
            **METHOD,
            **under(*(name for comparison in some for name in comparison["condition"])),
            **N,
            "Difference [95% CI]": interval_of("difference", "+.1f"),
            **WIN_TIE_LOSE,
            "Test": itemgetter("test"),
            **P_VALUES,
        }
        notes = [DIFFERENCES_NOTE]
        if some[0]["holm_over"] > 1:
            notes.append(f"Holm corrects over {some[0]['holm_over']} comparisons.")
        tables.append(Table.from_records(heading, some, columns, *notes))
    return tables
