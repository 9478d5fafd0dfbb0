"""Experiment `position`: does it matter where in the context the key document stands?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.data_sets.sampling import PER_CLASS
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report, place_key
from briefcontext.evaluation.figures.plots import line_plot
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import compare_methods, comparison_tables
from briefcontext.evaluation.statistics.position_spread import spread_tables, spreads
from briefcontext.evaluation.statistics.score_tables import Row, cells, cells_tables, conditional_methods

__all__ = ["PERCENTILES", "Position", "key_place", "read_at"]

PERCENTILES = (0, 25, 50, 75, 100)
"""Where the key document is put (BriefContext, controlled experiment)."""


def key_place(percentile: int, k: int) -> int:
    """Return the place, from 0, of a percentile of `k` places; halves go to the even neighbour."""
    return round(percentile / 100 * (k - 1))


def read_at(item: Item, k: int, percentile: int, experiment: Experiment, materials: Materials) -> Reading:
    """Return a question's nearest neighbours that are no key documents, with its first key document among them."""
    reading = experiment.base_reading(item, materials)
    others = materials.base.neighbours(item, k - 1) if k > 1 else []
    documents = place_key(reading.key_documents[0], others, key_place(percentile, k))
    return replace(reading, documents=documents, key_documents=reading.key_documents[:1])


class Position(Experiment):
    """The key document at five places of the same ranking, for every method alike."""

    name = "position"
    title = "Position of the key document"
    question = "How does accuracy change with the place of the key document among k documents?"
    methods: ClassVar[tuple[str, ...]] = ("vanilla", "map_reduce", "briefcontext")
    ks: ClassVar[tuple[int, ...]] = (8, 16)
    needs_key: ClassVar[bool] = True
    per_class = PER_CLASS

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """Five places for each k."""
        if min(ks) < len(PERCENTILES):
            raise InputError(
                f"Among {min(ks)} documents there are no {len(PERCENTILES)} different places for the key document, so "
                f"that its positions cannot be told apart. Give --k {len(PERCENTILES)} or more."
            )
        return [Condition({"k": k, "position": position}) for k in ks for position in PERCENTILES]

    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Put the first key document among its question's nearest neighbours that are none."""
        return read_at(item, int(condition.values["k"]), int(condition.values["position"]), self, materials)

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score by position and on average, which is the papers' headline, spread, and tests against vanilla."""
        report = Report()
        found = cells(rows, seed=config["seed"])
        report.tables += cells_tables("by position of the key document", found)
        spread = spreads(rows, "position", "k", seed=config["seed"])
        report.tables += spread_tables(spread)
        means = cells(rows, seed=config["seed"], by=("k",))
        report.tables += cells_tables("on average over the positions", means)
        mean_comparisons = compare_methods(rows, seed=config["seed"], by=("k",))
        report.tables += comparison_tables(mean_comparisons, "Against vanilla RAG, mean over the positions")
        comparisons = compare_methods(rows, seed=config["seed"])
        report.tables += comparison_tables(comparisons)
        report.summary = {
            "cells": found,
            "means": means,
            "mean_comparisons": mean_comparisons,
            "spread": spread,
            "comparisons": comparisons,
        }
        if out is not None:
            report.figures += line_plot(
                found,
                out / "position",
                x="position",
                panel="k",
                methods=conditional_methods(rows),
                x_label="Position of the key document (percentile)",
                x_ticks=PERCENTILES,
                simulated=config["simulation"],
            )
        return report
