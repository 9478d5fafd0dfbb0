"""Experiment `integration`: method against method on real rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from briefcontext.evaluation.comparison import compare_methods, comparison_table
from briefcontext.evaluation.experiment import Condition, Experiment, Materials, Report, Row, Table
from briefcontext.evaluation.item import Item
from briefcontext.evaluation.outcomes import Cell, answered, cells, cells_table, score_name, title_of, with_interval
from briefcontext.evaluation.plots import bar_plot
from briefcontext.evaluation.reading import Reading
from briefcontext.evaluation.statistics import bootstrap_average

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
            fused=materials.base.fused(item, k) if materials.fused else None,
            statistics=materials.base.statistics,
        )


class Integration(RealRankings):
    """Every method on the same real rankings, per data set and on average."""

    name = "integration"
    title = "Integration: real rankings"
    question = "Which method answers best over the rankings that the corpus really gives?"
    methods = ("cot", "rag", "hybrid", "briefcontext", "briefcontext_no_preflight")

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score per data set and over all, and test against vanilla."""
        report = Report()
        seed = config["seed"]
        groups = list(dict.fromkeys(row["group"] for row in rows))
        by_group = {group: cells([row for row in rows if row["group"] == group], seed=seed) for group in groups}
        for group, found in by_group.items():
            report.tables.append(cells_table(f"{score_name(rows)} on {group}", found))
        averages = macro_averages(rows, seed=seed)
        if len(groups) > 1:
            report.tables.append(_average_table(averages, groups))
        comparisons = compare_methods(rows, seed=seed)
        report.tables.append(comparison_table(comparisons))
        report.summary = {"groups": by_group, "averages": averages, "comparisons": comparisons}
        if out is not None:
            for k in config["ks"]:
                names = list(dict.fromkeys(row["method"] for row in rows))
                bars = {name: [_cell(by_group[group], name, k) for group in groups] for name in names}
                report.figures += bar_plot(
                    groups,
                    bars,
                    out / (self.name if len(config["ks"]) == 1 else f"{self.name}-k{k}"),
                    y_label=score_name(rows),
                    simulated=config["simulation"],
                )
        return report


def macro_averages(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of the data sets' scores, each counted alike, where a method has one on all of them."""
    groups = {row["group"] for row in rows}
    scores: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for row in answered(rows):
        key = (row["method"], *row["condition"].items())
        scores.setdefault(key, {}).setdefault(row["group"], []).append(float(row["score"]))
    found = []
    for key, some in scores.items():
        if len(some) == len(groups):
            interval = bootstrap_average(list(some.values()), seed=seed)
            average: dict[str, Any] = {"method": key[0], "condition": dict(key[1:]), "groups": len(some)}
            average.update(n=sum(map(len, some.values())), score=fmean(map(fmean, some.values())))
            found.append({**average, "low": interval.low, "high": interval.high})
    return found


def _average_table(averages: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> Table:
    rows = [
        [
            title_of(average["method"]),
            str(average["condition"].get("k", "any")),
            str(average["n"]),
            with_interval(average["score"], average["low"], average["high"]),
        ]
        for average in averages
    ]
    return Table(
        "Mean over data sets",
        ["Method", "k", "n", "Mean score [95% CI]"],
        rows,
        f"Each of {len(groups)} data sets counts alike: {', '.join(groups)}.",
    )


def _cell(found: Sequence[Cell], name: str, k: int) -> Cell | None:
    return next((cell for cell in found if cell["method"] == name and cell["condition"].get("k", k) == k), None)
