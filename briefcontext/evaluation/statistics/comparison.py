"""Methods tested against vanilla on the same questions."""

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
    mcnemar_mid_p,
    permutation_test,
    tango,
)
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    P_VALUES,
    WIN_TIE_LOSE,
    N,
    Record,
    Row,
    Table,
    answered,
    by_metric,
    condition_of,
    grouped,
    interval_of,
    p_value,
    question_means,
    scored,
    titled_by_metric,
    under,
)

Comparison = dict[str, Any]
Pairs = list[tuple[Row, Row]]

VERSUS_VANILLA = "Against vanilla RAG"

MCNEMAR, PERMUTATION = "McNemar, exact", "permutation"


def paired(rows: Sequence[Row], first: str, second: str) -> Pairs:
    """Return the answered rows of two methods on the same question under the same condition, in the same repeat.

    A method that is not run under conditions is paired with the other under each of them.
    """

    def key(row: Row) -> tuple[Any, ...]:
        return row["item"], int(row.get("repeat", 0)), condition_of(row)

    by_method = grouped(answered(rows), itemgetter("method"))
    of_second = {key(row): row for row in by_method.get(second, [])}
    both = (
        (row, of_second.get(key(row)) or of_second.get((*key(row)[:2], ())))
        for row in by_method.get(first, [])
    )
    return [(row, other) for row, other in both if other is not None]


def compare_conditions(
    rows: Sequence[Row], conditions: Iterable[tuple[Record, Record, Record]], *, seed: int
) -> list[Comparison]:
    """Test every method with itself, by each metric; p-values are corrected by Holm over all comparisons.

    `conditions` are how tables call a comparison, the first condition, and the second that it is
    tested against. A condition names some of the values; answers that differ in others are averaged
    for each question.
    """
    found = []
    for label, *two in conditions:
        for metric, some in by_metric(scored(rows)).items():
            for name, own in grouped(
                (row for row in some if row["condition"]), itemgetter("method")
            ).items():
                one, other = (
                    grouped(
                        (row for row in own if wanted.items() <= row["condition"].items()),
                        itemgetter("item"),
                    )
                    for wanted in two
                )
                if both := [
                    pair
                    for item in one
                    if item in other
                    for pair in product(one[item], other[item])
                ]:
                    found.append(
                        {
                            "metric": metric,
                            "method": name,
                            **_compared(both, seed),
                            "condition": label,
                        }
                    )
    correct(found)
    return found


def correct(comparisons: Sequence[Comparison]) -> None:
    """Add to each of an experiment's comparisons its p-value as Holm corrects it over all of them, and their number."""
    for comparison, corrected in zip(comparisons, holm([c["p"] for c in comparisons]), strict=True):
        comparison.update(p_holm=corrected, holm_over=len(comparisons))


def compare_methods(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Comparison]:
    """Test every method against vanilla under every condition, by each metric; questions without a key are left out.

    Exact McNemar for multiple choice, a paired permutation test for F1 and where a question has
    several answers; p-values corrected by Holm over all comparisons of the experiment. `by` is that
    of `cells`.
    """
    found = [{**head, **_compared(pairs, seed)} for head, pairs in _against_vanilla(rows, by)]
    correct(found)
    return found


def compare_averages(rows: Sequence[Row], *, seed: int) -> list[Comparison]:
    """Test every method against vanilla in the mean over data sets, by each metric that several are scored by.

    A permutation test that flips the signs of questions' differences, each weighted so that every
    data set counts alike; the interval by bootstrap over the questions of each.
    """
    names = {
        metric: {row["group"] for row in some} for metric, some in by_metric(scored(rows)).items()
    }
    found = []
    for head, pairs in _against_vanilla(rows):
        groups = [
            _differences(own) for own in grouped(pairs, lambda pair: pair[0]["group"]).values()
        ]
        if len(groups) == len(names[head["metric"]]) > 1:
            every = [difference for group in groups for difference in group]
            p = permutation_test(
                [difference / len(group) for group in groups for difference in group], seed=seed
            )
            tested = _tested(every, bootstrap(*groups, seed=seed), p)
            found.append({**head, **tested, "difference": fmean(map(fmean, groups))})
    return found


def _against_vanilla(
    rows: Sequence[Row], by: Sequence[str] = ()
) -> Iterator[tuple[Comparison, Pairs]]:
    """Yield each metric, method and condition with its pairs of scored rows, vanilla's second, condition by condition.

    Resampling depends on the order of pairs.
    """
    order = list(dict.fromkeys(map(condition_of, rows)))
    for metric, some in by_metric(scored(rows)).items():
        for name in dict.fromkeys(row["method"] for row in rows if row["method"] != VANILLA):
            pairs = [(other, vanilla) for vanilla, other in paired(some, VANILLA, name)]
            pairs.sort(key=lambda pair: order.index(condition_of(pair[1])))
            for condition, own in grouped(pairs, lambda pair: condition_of(pair[1], by)).items():
                yield {"metric": metric, "method": name, "condition": dict(condition)}, own


def _differences(pairs: Pairs) -> list[float]:
    """Return for each question the first's score less the second's; the mean where it has several pairs."""
    return question_means(
        (one["item"], float(one["score"]) - float(other["score"])) for one, other in pairs
    )


def _compared(pairs: Pairs, seed: int) -> Comparison:
    """Test the first against the second of scored rows on the same questions, all by the same metric.

    By a permutation test over the questions where each has several pairs, whose differences are
    then averaged.
    """
    differences = _differences(pairs)
    if len(differences) < len(pairs) or pairs[0][0]["metric"] != "accuracy":
        return _tested(
            differences, bootstrap(differences, seed=seed), permutation_test(differences, seed=seed)
        )
    win, _, lose = tally(differences).values()
    exact = {"test": MCNEMAR, "mid_p": mcnemar_mid_p(win, lose)}
    return {**_tested(differences, tango(win, lose, len(pairs)), mcnemar_exact(win, lose)), **exact}


def tally(differences: Sequence[float]) -> dict[str, int]:
    """Count the wins, ties and losses of the first."""
    win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return {"win": win, "tie": len(differences) - win - lose, "lose": lose}


def _tested(differences: Sequence[float], bounds: Bounds, p: float) -> Comparison:
    return {
        "n": len(differences),
        "difference": fmean(differences),
        "low": bounds[0],
        "high": bounds[1],
        **tally(differences),
        "test": PERMUTATION,
        "p": p,
        "mid_p": None,
    }


def comparison_tables(comparisons: Sequence[Comparison], title: str) -> list[Table]:
    """Make a table of the comparisons by each metric."""
    return [
        Table.of(
            heading,
            some,
            {
                **METHOD,
                **under(*(name for comparison in some for name in comparison["condition"])),
                **N,
                "Difference [95% CI]": interval_of("difference", "+.1f"),
                **WIN_TIE_LOSE,
                "Test": itemgetter("test"),
                **P_VALUES,
                "mid-p": lambda c: p_value(c["mid_p"]),
            },
            f"Differences in percentage points on the same questions; {_interval_note({c['test'] for c in some})}. "
            f"Holm corrects over comparisons of this experiment: {some[0]['holm_over']}.",
        )
        for heading, some in titled_by_metric(title, comparisons)
    ]


def _interval_note(tests: set[str]) -> str:
    """Say how the intervals of differences are made, and how they go with the tests."""
    notes = {
        MCNEMAR: "with McNemar's test, intervals are Tango's score intervals for paired shares",
        PERMUTATION: "with the permutation test, by bootstrap over questions, and none (–) where all differences are "
        "alike",
    }
    note = "; ".join(words for test, words in notes.items() if test in tests)
    note += ". Each interval is for its own difference, and not corrected for their number"
    if MCNEMAR in tests:
        note += (
            ". The exact test is cautious: where an interval leaves out 0 and p is above 0.05, the "
            "mid-p goes with the "
            "interval"
        )
    return note
