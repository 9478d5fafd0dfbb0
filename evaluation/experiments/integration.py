"""Experiment `integration`: method against method on real rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report
from briefcontext.evaluation.figures.plots import bar_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import (
    Comparison,
    average_test,
    compare_methods,
    comparison_tables,
    correct,
    paired,
    question_differences,
)
from briefcontext.evaluation.statistics.score_tables import (
    SCORE_NAMES,
    Row,
    Table,
    bootstrap_bounds,
    by_metric,
    cells,
    cells_tables,
    question_scores,
    scored,
    title_of,
    with_interval,
)

__all__ = ["Integration", "RealRankings"]


class RealRankings(Experiment):
    """An experiment on the corpus's own rankings."""

    ks: ClassVar[tuple[int, ...]] = (16,)
    real_rankings = True

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """One for each k."""
        return [Condition({"k": k}) for k in ks]

    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Take the k passages nearest to the question, and the k best fused ones where a method reads them."""
        k = int(condition.values["k"])
        return replace(
            self.base_reading(item, materials),
            documents=materials.base.ranking(item, k),
            retrieved=True,
            fused=materials.base.fused(item, k) if materials.fused else None,
        )


class Integration(RealRankings):
    """Every method on the same real rankings, per data set and on average."""

    name = "integration"
    title = "Integration: real rankings"
    question = "Which method answers best over the rankings that the corpus really gives?"
    methods = ("closed_book", "vanilla", "hybrid", "briefcontext", "map_reduce")

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score per data set and on average, and test each data set and the average against vanilla."""
        report = Report()
        seed = config["seed"]
        groups = list(dict.fromkeys(row["group"] for row in rows))
        by_group = {group: cells([row for row in rows if row["group"] == group], seed=seed) for group in groups}
        for group, found in by_group.items():
            report.tables += cells_tables(f"on {group}", found)
        averages = macro_averages(rows, seed=seed)
        report.tables += _average_tables(averages)
        comparisons = [
            {**comparison, "group": group}
            for group in groups
            for comparison in compare_methods([row for row in rows if row["group"] == group], seed=seed)
        ]
        average_comparisons = compare_averages(rows, seed=seed)
        correct([*comparisons, *average_comparisons])
        for group in groups:
            some = [comparison for comparison in comparisons if comparison["group"] == group]
            report.tables += comparison_tables(
                some, f"Against vanilla RAG on {group}" if len(groups) > 1 else "Against vanilla RAG"
            )
        report.tables += comparison_tables(average_comparisons, "Against vanilla RAG, mean over data sets")
        report.summary = {
            "groups": by_group,
            "averages": averages,
            "comparisons": comparisons,
            "average_comparisons": average_comparisons,
        }
        if out is not None:
            for k in config["ks"]:
                report.figures += bar_plot(
                    {group: [c for c in found if c["condition"].get("k", k) == k] for group, found in by_group.items()},
                    out / (self.name if len(config["ks"]) == 1 else f"{self.name}-k{k}"),
                    simulated=config["simulation"],
                )
        return report


def macro_averages(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of the data sets' scores by each metric that several of them are scored by.

    Each data set counts alike, and a method needs a score on all of them.
    """
    found = []
    for metric, some in by_metric(scored(rows)).items():
        groups = list(dict.fromkeys(row["group"] for row in some))
        if len(groups) > 1:
            found += [{"metric": metric, **average} for average in _averages(some, groups, seed)]
    return found


def _averages(rows: Sequence[Row], groups: Sequence[str], seed: int) -> list[dict[str, Any]]:
    answers: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for row in rows:
        key = (row["method"], *row["condition"].items())
        answers.setdefault(key, {}).setdefault(row["group"], []).append(row)
    found = []
    for key, by_group in answers.items():
        some = {group: question_scores(own) for group, own in by_group.items()}
        if len(some) == len(groups):
            low, high = bootstrap_bounds(*some.values(), seed=seed)
            found.append(
                {
                    "method": key[0],
                    "condition": dict(key[1:]),
                    "groups": len(groups),
                    "group_names": list(groups),
                    "n": sum(map(len, some.values())),
                    "score": fmean(map(fmean, some.values())),
                    "low": low,
                    "high": high,
                }
            )
    return found


def compare_averages(rows: Sequence[Row], *, seed: int) -> list[Comparison]:
    """Test every method against vanilla in the mean over data sets, by each metric that several are scored by.

    A permutation test that flips the signs of questions' differences, each weighted so that every data set counts
    alike; the interval by bootstrap over the questions of each.
    """
    found: list[Comparison] = []
    for metric, some in by_metric(scored(rows)).items():
        groups = list(dict.fromkeys(row["group"] for row in some))
        if len(groups) < 2:
            continue
        vanilla = [row for row in some if row["method"] == VANILLA]
        conditions = [dict(key) for key in dict.fromkeys(tuple(row["condition"].items()) for row in vanilla)]
        for name in dict.fromkeys(row["method"] for row in some if row["method"] != VANILLA):
            for condition in conditions:
                two = [row for row in some if row["method"] == name]
                two += [row for row in vanilla if row["condition"] == condition]
                pairs = [(other, own) for own, other in paired(two, VANILLA, name)]
                differences = [
                    question_differences([pair for pair in pairs if pair[0]["group"] == group]) for group in groups
                ]
                if all(differences):
                    found.append({"metric": metric, "method": name, "condition": condition,
                                  **average_test(differences, seed=seed)})  # fmt: skip
    return found


def _average_tables(averages: Sequence[dict[str, Any]]) -> list[Table]:
    return [_average_table(SCORE_NAMES[metric], some) for metric, some in by_metric(averages).items()]


def _average_table(name: str, averages: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            title_of(average["method"]),
            str(average["condition"].get("k", "any")),
            str(average["n"]),
            with_interval(average["score"], average["low"], average["high"]),
        ]
        for average in averages
    ]
    groups = averages[0]["group_names"]
    return Table(
        f"{name}, mean over data sets",
        ["Method", "k", "n", f"Mean {name} [95% CI]"],
        rows,
        f"Each of {len(groups)} data sets counts alike: {', '.join(groups)}. In per cent; intervals by bootstrap over "
        "the questions of each, and none (–) where no score differs.",
    )
