"""Experiment `attention_bias`: is it the place, or the company, that hides the key document?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.comparison import compare_methods, comparison_table
from briefcontext.evaluation.experiment import Condition, Experiment, Materials, Report, Row, Table, place_key
from briefcontext.evaluation.item import Item
from briefcontext.evaluation.outcomes import (
    Cell,
    answered,
    cells,
    cells_table,
    is_choice,
    p_value,
    score_name,
    title_of,
)
from briefcontext.evaluation.plots import bar_plot
from briefcontext.evaluation.position import key_place
from briefcontext.evaluation.reading import Reading
from briefcontext.evaluation.statistics import bootstrap, holm, mcnemar_exact, permutation_test

__all__ = ["AttentionBias"]

COMPANIES = ("neighbours", "random")


class AttentionBias(Experiment):
    """The key document in the middle, among its question's nearest neighbours or among random documents."""

    name = "attention_bias"
    title = "Neighbours against random documents"
    question = "With the key document in the middle, do retrieved neighbours distract more than random documents?"
    methods = ("rag", "briefcontext_no_preflight")
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
        return replace(
            reading, documents=documents, key_documents=reading.key_documents[:1], statistics=base.statistics
        )

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score among neighbours and among random documents, and test the one against the other."""
        found = cells(rows, seed=config["seed"])
        effects = _effects(rows, config["ks"], config["seed"])
        comparisons = compare_methods(rows, seed=config["seed"])
        report = Report(
            summary={"cells": found, "effects": effects, "comparisons": comparisons},
            tables=[
                cells_table(f"{score_name(rows)} among neighbours and among random documents", found),
                _effects_table(effects),
                comparison_table(comparisons),
            ],
        )
        if out is not None:
            groups = [(k, company) for k in config["ks"] for company in COMPANIES]
            names = list(dict.fromkeys(row["method"] for row in rows))
            report.figures += bar_plot(
                [f"k = {k}\n{company}" for k, company in groups],
                {name: [_cell(found, name, k, company) for k, company in groups] for name in names},
                out / self.name,
                y_label=score_name(rows),
                simulated=config["simulation"],
            )
        return report


def _cell(found: Sequence[Cell], name: str, k: int, company: str) -> Cell | None:
    wanted = {"k": k, "others": company}
    return next((c for c in found if c["method"] == name and c["condition"] in (wanted, {})), None)


def _effects(rows: Sequence[Row], ks: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Compare each method with itself: random documents against neighbours, on the same questions."""
    found = []
    good = answered(rows)
    for name in dict.fromkeys(row["method"] for row in good if row["condition"]):
        for k in ks:
            near, far = (
                {r["item"]: r for r in good if r["method"] == name and r["condition"] == {"k": k, "others": company}}
                for company in COMPANIES
            )
            items = [item for item in near if item in far]
            if not items:
                continue
            differences = [far[item]["score"] - near[item]["score"] for item in items]
            win, lose = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
            choice = is_choice([near[item] for item in items])
            interval = bootstrap(differences, seed=seed)
            found.append(
                {
                    "method": name,
                    "k": k,
                    "n": len(items),
                    "difference": sum(differences) / len(items),
                    "low": interval.low,
                    "high": interval.high,
                    "p": mcnemar_exact(win, lose) if choice else permutation_test(differences, seed=seed),
                }
            )
    for effect, corrected in zip(found, holm([e["p"] for e in found]), strict=True):
        effect["p_holm"] = corrected
    return found


def _effects_table(effects: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            title_of(e["method"]),
            str(e["k"]),
            str(e["n"]),
            f"{100 * e['difference']:+.1f} [{100 * e['low']:+.1f}, {100 * e['high']:+.1f}]",
            p_value(e["p"]),
            p_value(e["p_holm"]),
        ]
        for e in effects
    ]
    return Table(
        "Random documents minus neighbours",
        ["Method", "k", "n", "Difference [95% CI]", "p", "p (Holm)"],
        rows,
        "In percentage points on the same questions, bootstrap interval; exact McNemar for multiple choice, a "
        "permutation test for F1.",
    )
