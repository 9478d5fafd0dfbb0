"""Experiment `integration`: method against method on real rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import fmean
from typing import Any, ClassVar

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, OnCorpus, Report
from briefcontext.evaluation.figures.plots import bar_plot
from briefcontext.evaluation.methods.method import Reading
from briefcontext.evaluation.statistics.comparison import (
    compare_averages,
    compare_methods,
    comparison_tables,
    correct,
)
from briefcontext.evaluation.statistics.inference import bootstrap
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    SCORE_NAMES,
    N,
    Row,
    Table,
    by_metric,
    cells,
    cells_tables,
    condition_of,
    grouped,
    interval_of,
    question_means,
    scored,
    under,
)


class RealRankings(OnCorpus):
    """An experiment on the corpus's own rankings."""

    ks: ClassVar[tuple[int, ...]] = (16,)
    real_rankings = True

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """One for each k, of which the knowledge base has so many."""
        if max(ks) > (most := len(self.corpus.knowledge_base)):
            raise InputError(
                f"The knowledge base has {most:,} passages, and {max(ks):,} are to be retrieved. Take a larger one, or "
                "a smaller k."
            )
        return [{"k": k} for k in ks]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        """Take the k passages nearest to the question, and the k best fused ones."""
        k, reading = condition["k"], self.base_reading(item)
        ranking, fused = self.corpus.ranking(item, k), self.corpus.fused(item, k)
        return replace(reading, documents=ranking, retrieved=True, fused=fused)


class Integration(RealRankings):
    """Every method on the same real rankings, per data set and on average."""

    name = "integration"
    title = "Integration: real rankings"
    question = "Which method answers best over the rankings that the corpus really gives?"
    methods = ("closed_book", "vanilla", "hybrid", "briefcontext", "map_reduce")

    def report(self, report: Report) -> None:
        """Score per data set and on average, and test each data set and the average against vanilla."""
        groups = grouped(report.rows, itemgetter("group"))
        by_group = {group: cells(some, seed=report.seed) for group, some in groups.items()}
        report.add(
            "groups", by_group, (t for group, found in by_group.items() for t in cells_tables(f"on {group}", found))
        )
        averages = macro_averages(report.rows, seed=report.seed)
        report.add("averages", averages, (_average_table(metric, some) for metric, some in by_metric(averages).items()))
        tested = {group: compare_methods(some, seed=report.seed) for group, some in groups.items()}
        comparisons = [{**one, "group": group} for group, found in tested.items() for one in found]
        of_averages = compare_averages(report.rows, seed=report.seed)
        correct([*comparisons, *of_averages])
        for group in groups:
            title = f"Against vanilla RAG on {group}" if len(groups) > 1 else "Against vanilla RAG"
            report.tables += comparison_tables([one for one in comparisons if one["group"] == group], title)
        report.summary["comparisons"] = comparisons
        average_tables = comparison_tables(of_averages, "Against vanilla RAG, mean over data sets")
        report.add("average_comparisons", of_averages, average_tables)
        ks = report.config["ks"]
        for k in ks:
            shown = {g: [c for c in found if c["condition"].get("k", k) == k] for g, found in by_group.items()}
            report.draw(bar_plot, shown, suffix=f"-k{k}" if len(ks) > 1 else "")


def macro_averages(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of the data sets' scores by each metric that several of them are scored by.

    Each data set counts alike, and a method needs a score on all of them.
    """
    found: list[dict[str, Any]] = []
    for metric, some in by_metric(scored(rows)).items():
        names = list(grouped(some, itemgetter("group")))
        for (method, condition), own in grouped(some, lambda row: (row["method"], condition_of(row))).items():
            by_group = grouped(own, itemgetter("group")).values()
            scores = [question_means((row["item"], float(row["score"])) for row in answers) for answers in by_group]
            if len(scores) == len(names) > 1:
                low, high = bootstrap(*scores, seed=seed)
                found.append(
                    {
                        "metric": metric,
                        "method": method,
                        "condition": dict(condition),
                        "groups": len(names),
                        "group_names": names,
                        "n": sum(map(len, scores)),
                        "score": fmean(map(fmean, scores)),
                        "low": low,
                        "high": high,
                    }
                )
    return found


def _average_table(metric: str, averages: Sequence[Mapping[str, Any]]) -> Table:
    groups = averages[0]["group_names"]
    return Table.of(
        f"{SCORE_NAMES[metric]}, mean over data sets",
        averages,
        {**METHOD, **under("k"), **N, f"Mean {SCORE_NAMES[metric]} [95% CI]": interval_of("score")},
        f"Each of {len(groups)} data sets counts alike: {', '.join(groups)}. In per cent; intervals by bootstrap over "
        "the questions of each, and none (–) where no score differs.",
    )
