"""Experiment `context_length`: what do more documents do, when the key document is always among them?"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report, place_key
from briefcontext.evaluation.figures.plots import line_plot
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import compare_methods, comparison_tables
from briefcontext.evaluation.statistics.score_tables import Row, cells, cells_tables, conditional_methods

__all__ = ["ContextLength"]


class ContextLength(Experiment):
    """The key document at a random place among more and more of the question's nearest neighbours."""

    name = "context_length"
    title = "Length of the context"
    question = "How does accuracy change with the number of documents, the key document always among them?"
    methods = ("closed_book", "oracle", "vanilla", "map_reduce", "briefcontext")
    ks = (2, 4, 8, 16, 32, 64)
    needs_key = True

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """One for each number of documents."""
        return [Condition({"documents": k}) for k in ks]

    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Put the first key document at a place drawn by the seed."""
        k = int(condition.values["documents"])
        reading = self.base_reading(item, materials)
        place = random.Random(f"{materials.seed}\0{item.id}\0{k}").randrange(k)
        others = materials.base.neighbours(item, k - 1) if k > 1 else []
        return replace(
            reading,
            documents=place_key(reading.key_documents[0], others, place),
        )

    def base_reading(self, item: Item, materials: Materials) -> Reading:
        """Take the first key document, for the oracle, too."""
        reading = super().base_reading(item, materials)
        return replace(reading, key_documents=reading.key_documents[:1])

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score by number of documents, with closed book and oracle as bounds."""
        found = cells(rows, seed=config["seed"])
        comparisons = compare_methods(rows, seed=config["seed"])
        report = Report(
            summary={"cells": found, "comparisons": comparisons},
            tables=[*cells_tables("by number of documents", found), *comparison_tables(comparisons)],
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
