"""Experiment `attention_bias`: is it the place, or the company, that hides the key document?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report, place_key
from briefcontext.evaluation.experiments.position import key_place
from briefcontext.evaluation.figures.plots import bar_plot
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import (
    DIFFERENCE_COLUMNS,
    compare_methods,
    comparison_tables,
    difference_columns,
    interval_note,
    paired_test,
)
from briefcontext.evaluation.statistics.inference import holm
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    by_metric,
    cells,
    cells_tables,
    scored,
    title_of,
    titled_by_metric,
)

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
                *_effects_tables(effects),
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
    found = []
    for metric, some in by_metric(scored(rows)).items():
        for name in dict.fromkeys(row["method"] for row in some if row["condition"]):
            for k in ks:
                near, far = (
                    {
                        row["item"]: row
                        for row in some
                        if row["method"] == name and row["condition"] == {"k": k, "others": company}
                    }
                    for company in COMPANIES
                )
                pairs = [(far[item], near[item]) for item in near if item in far]
                if pairs:
                    found.append({"metric": metric, "method": name, "k": k, **paired_test(pairs, seed=seed)})
    for effect, corrected in zip(found, holm([e["p"] for e in found]), strict=True):
        effect["p_holm"] = corrected
    return found


def _effects_tables(effects: Sequence[dict[str, Any]]) -> list[Table]:
    return [
        _effects_table(title, some, metric)
        for title, metric, some in titled_by_metric("Random documents minus neighbours", effects)
    ]


def _effects_table(title: str, effects: Sequence[Mapping[str, Any]], metric: str) -> Table:
    rows = [[title_of(e["method"]), str(e["k"]), *difference_columns(e)] for e in effects]
    return Table(
        title,
        ["Method", "k", *DIFFERENCE_COLUMNS],
        rows,
        f"In percentage points on the same questions; {interval_note(metric)}. Win: right among "
        "random documents alone.",
    )
