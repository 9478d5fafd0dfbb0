"""Experiment `integration`: method against method on real rankings."""

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import fmean
from typing import Any, ClassVar

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, OnCorpus, Report
from briefcontext.evaluation.figures.plots import bar_plot
from briefcontext.evaluation.methods.method import VANILLA, Reading
from briefcontext.evaluation.runs.published import published_curves
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
    N,
    Row,
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
        passages = len(self.corpus.knowledge_base)
        if max(ks) > passages:
            raise InputError(
                f"The knowledge base has {passages:,} passages, and {max(ks):,} are to be "
                "retrieved. Use a larger one, or a smaller k."
            )
        return [{"k": k} for k in ks]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        k, reading = condition["k"], self.base_reading(item)
        ranking, fused = self.corpus.ranking(item, k), self.corpus.fused(item, k)
        return replace(reading, documents=ranking, retrieved=True, fused=fused)


class Integration(RealRankings):
    """Every method on the same real rankings, per data set and on average."""

    name = "integration"
    title = "Integration: real rankings"
    question = "Which method answers best over the rankings that the corpus really gives?"
    methods = ("closed_book", VANILLA, "hybrid", "briefcontext", "map_reduce")

    def report(self, report: Report) -> None:
        seed, ks = report.seed, report.config["ks"]
        groups = grouped(report.rows, itemgetter("group"))
        by_group = {group: cells(some, seed=seed) for group, some in groups.items()}
        averages = macro_averages(report.rows, seed=seed)
        note = "Each data set counts the same; bootstrap intervals over the questions of each."
        columns = {**METHOD, **under("k"), **N, "Mean [95% CI]": interval_of("score")}
        report.show("averages", averages, "Mean over data sets", columns, note)
        tables = [
            t for name, result in by_group.items() for t in cells_tables(f"on {name}", result)
        ]
        report.add("groups", by_group, tables)
        tested = {group: compare_methods(some, seed=seed) for group, some in groups.items()}
        comparisons = [
            {**one, "group": group} for group, result in tested.items() for one in result
        ]
        of_averages = compare_averages(report.rows, seed=seed)
        correct([*comparisons, *of_averages])
        report.compare("average_comparisons", of_averages, f"{VERSUS_VANILLA}, mean over data sets")
        report.summary["comparisons"] = comparisons
        for group in groups:
            some = [one for one in comparisons if one["group"] == group]
            title = f"{VERSUS_VANILLA} on {group}" if len(groups) > 1 else VERSUS_VANILLA
            report.tables += comparison_tables(some, title)
        first = next(iter(by_group.values()), [])
        report.say_scores(averages or first)
        report.say_differences(of_averages or comparisons)
        counts = ", ".join(
            f"{name} {len({r['item'] for r in some})}" for name, some in groups.items()
        )
        report.sentences.append(f"Questions by data set: {counts}.")
        curves = published_curves(self.name)
        for k in ks:
            shown = {
                group: [one for one in result if one["condition"].get("k", k) == k]
                for group, result in by_group.items()
            }
            suffix = f"-k{k}" if len(ks) > 1 else ""
            report.draw(bar_plot, shown, suffix=suffix, published=curves)


def macro_averages(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of the data sets' scores by each metric that several of them have."""
    results: list[dict[str, Any]] = []
    by_set = by_metric(scored(rows)).items()
    names = {metric: [*grouped(some, itemgetter("group"))] for metric, some in by_set}
    for head, own in by_method(scored(rows)):
        scores = [
            question_means((row["item"], float(row["score"])) for row in some)
            for some in grouped(own, itemgetter("group")).values()
        ]
        groups = names[head["metric"]]
        if len(scores) == len(groups) > 1:
            low, high = bootstrap(*scores, seed=seed)
            mean = {"score": fmean(map(fmean, scores)), "low": low, "high": high}
            results.append({**head, "groups": groups, "n": sum(map(len, scores)), **mean})
    return results
