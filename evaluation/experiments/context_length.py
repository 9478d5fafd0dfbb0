"""Experiment `context_length`: what do more documents do, when the key document is always among them?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.data_sets.sampling import PER_CLASS
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report
from briefcontext.evaluation.experiments.position import PERCENTILES, key_place, read_at
from briefcontext.evaluation.figures.plots import line_plot
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import (
    compare_conditions,
    compare_methods,
    comparison_tables,
    correct,
)
from briefcontext.evaluation.statistics.score_tables import Row, cells, cells_tables, conditional_methods

__all__ = ["ContextLength"]


class ContextLength(Experiment):
    """The key document at five places among more and more of the question's nearest neighbours."""

    name = "context_length"
    title = "Length of the context"
    question = "How does accuracy change with the number of documents, the key document always among them?"
    methods = ("closed_book", "oracle", "vanilla", "map_reduce", "briefcontext")
    ks = (2, 4, 8, 16, 32, 64)
    needs_key = True
    per_class = PER_CLASS

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """The five places for each number of documents; fewer than five documents have fewer places."""
        return [
            Condition({"documents": k, "position": position})
            for k in ks
            for position in sorted({key_place(position, k): position for position in PERCENTILES[::-1]}.values())
        ]

    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Put the first key document at a place among its question's nearest neighbours."""
        return read_at(item, int(condition.values["documents"]), int(condition.values["position"]), self, materials)

    def base_reading(self, item: Item, materials: Materials) -> Reading:
        """Take the first key document, for the oracle, too."""
        reading = super().base_reading(item, materials)
        return replace(reading, key_documents=reading.key_documents[:1])

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score by number of documents, over the places on average, with closed book and oracle as bounds."""
        seed = config["seed"]
        found = cells(rows, seed=seed, by=("documents",))
        comparisons = compare_methods(rows, seed=seed, by=("documents",))
        shortest, *longer = config["ks"]
        effects = [
            {**effect, "condition": {"documents": k, "against": shortest}}
            for k in longer
            for effect in compare_conditions(rows, {"documents": k}, {"documents": shortest}, seed=seed)
        ]
        correct(effects)
        report = Report(
            summary={"cells": found, "comparisons": comparisons, "effects": effects},
            tables=[
                *cells_tables("by number of documents", found),
                *comparison_tables(comparisons),
                *comparison_tables(effects, "More documents against the fewest"),
            ],
        )
        if out is not None:
            report.figures += line_plot(
                found,
                out / self.name,
                x="documents",
                methods=conditional_methods(rows),
                x_label="Documents in the context",
                logarithmic=True,
                simulated=config["simulation"],
            )
        return report
