"""Experiment `attention_bias`: is it the place, or the company, that hides the key document?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.data_sets.sampling import PER_CLASS
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report, place_key
from briefcontext.evaluation.experiments.position import key_place
from briefcontext.evaluation.figures.plots import bar_plot
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import (
    compare_conditions,
    compare_methods,
    comparison_tables,
    correct,
)
from briefcontext.evaluation.statistics.score_tables import Row, cells, cells_tables

__all__ = ["AttentionBias"]

COMPANIES = ("neighbours", "random")


class AttentionBias(Experiment):
    """The key document in the middle, among its question's nearest neighbours or among random documents."""

    name = "attention_bias"
    title = "Neighbours against random documents"
    question = "With the key document in the middle, do retrieved neighbours distract more than random documents?"
    methods = ("vanilla", "map_reduce")
    ks = (8, 16)
    needs_key = True
    per_class = PER_CLASS

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """Both companies for each k."""
        if min(ks) < 3:
            raise InputError("With fewer than 3 documents there is no middle. Give --k 3 or more.")
        return [Condition({"k": k, "others": company}) for k in ks for company in COMPANIES]

    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Put the first key document in the middle."""
        k, base = int(condition.values["k"]), materials.base
        reading = self.base_reading(item, materials)
        near = condition.values["others"] == "neighbours"
        others = base.neighbours(item, k - 1) if near else base.random(item, k - 1, materials.seed)
        documents = place_key(reading.key_documents[0], others, key_place(50, k))
        return replace(reading, documents=documents, key_documents=reading.key_documents[:1])

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score among neighbours and among random documents, and test the one against the other."""
        found = cells(rows, seed=config["seed"])
        effects = _effects(rows, config["ks"], config["seed"])
        comparisons = compare_methods(rows, seed=config["seed"])
        report = Report(
            summary={"cells": found, "effects": effects, "comparisons": comparisons},
            tables=[
                *cells_tables("among neighbours and among random documents", found),
                *comparison_tables(effects, "Random documents minus neighbours"),
                *comparison_tables(comparisons),
            ],
        )
        if out is not None:
            report.figures += bar_plot(
                {
                    f"k = {k}\n{company}": [c for c in found if c["condition"] in ({"k": k, "others": company}, {})]
                    for k in config["ks"]
                    for company in COMPANIES
                },
                out / self.name,
                simulated=config["simulation"],
            )
        return report


def _effects(rows: Sequence[Row], ks: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Compare each method with itself: random documents against neighbours, on the same questions."""
    near, far = COMPANIES
    found = [
        {**effect, "condition": {"k": k}}
        for k in ks
        for effect in compare_conditions(rows, {"k": k, "others": far}, {"k": k, "others": near}, seed=seed)
    ]
    correct(found)
    return found
