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
    VERSUS_VANILLA,
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
    by_method,
    by_metric,
    cells,
    cells_tables,
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
                f"The knowledge base has {most:,} passages, and {max(ks):,} are to be retrieved. "
                f"Take a larger one, or "
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
            "groups",
            by_group,
            (t for group, found in by_group.items() for t in cells_tables(f"on {group}", found)),
        )
        averages = macro_averages(report.rows, seed=report.seed)
        report.add(
            "averages",
            averages,
            (_average_table(metric, some) for metric, some in by_metric(averages).items()),
        )
        tested = {group: compare_methods(some, seed=report.seed) for group, some in groups.items()}
        comparisons = [{**one, "group": group} for group, found in tested.items() for one in found]
        of_averages = compare_averages(report.rows, seed=report.seed)
        correct([*comparisons, *of_averages])
        for group in groups:
            title = f"{VERSUS_VANILLA} on {group}" if len(groups) > 1 else VERSUS_VANILLA
            report.tables += comparison_tables(
                [one for one in comparisons if one["group"] == group], title
            )
        report.summary["comparisons"] = comparisons
        report.compare("average_comparisons", of_averages, f"{VERSUS_VANILLA}, mean over data sets")
        ks = report.config["ks"]
        for k in ks:
            shown = {
                g: [c for c in found if c["condition"].get("k", k) == k]
                for g, found in by_group.items()
            }
            report.draw(bar_plot, shown, suffix=f"-k{k}" if len(ks) > 1 else "")


def macro_averages(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of the data sets' scores by each metric that several of them are scored by.

    Each data set counts alike, and a method needs a score on all of them.
    """
    found: list[dict[str, Any]] = []
    names = {
        metric: [*grouped(some, itemgetter("group"))]
        for metric, some in by_metric(scored(rows)).items()
    }
    for head, own in by_method(scored(rows)):
        of_metric, by_group = names[head["metric"]], grouped(own, itemgetter("group")).values()
        scores = [
            question_means((row["item"], float(row["score"])) for row in answers)
            for answers in by_group
        ]
        if len(scores) == len(of_metric) > 1:
            low, high = bootstrap(*scores, seed=seed)
            found.append(
                {
                    **head,
                    "groups": len(of_metric),
                    "group_names": of_metric,
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
