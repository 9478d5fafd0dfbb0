"""Experiment `conflict`: what becomes of partitions that disagree?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Materials, Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import stacked_plot
from briefcontext.evaluation.figures.style import OKABE_ITO
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.comparison import compare_methods, comparison_tables, paired
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    answered,
    cells,
    cells_tables,
    percent,
    with_interval,
)

__all__ = ["Conflict"]

_MAPPED = "map_reduce"


class Conflict(RealRankings):
    """Questions whose partitions chose different options: how many the reduce step settles rightly."""

    name = "conflict"
    title = "Conflicting partitions"
    question = "When partitions choose different options, how often does the reduce step settle on the right one?"
    methods = (VANILLA, _MAPPED)
    ks = (8, 16)

    def left_out(self, item: Item, materials: Materials, *, oracle: bool) -> str | None:
        """Leave free text out: partitions are seen to disagree by the options that they choose."""
        if not item.options:
            return "has no options to disagree on"
        return super().left_out(item, materials, oracle=oracle)

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Count conflicts, those resolved, and win, tie and lose against vanilla on them."""
        report = Report()
        found = [_conflicts(rows, k) for k in config["ks"]]
        report.tables.append(_table(found))
        conflicting = [row for row in rows if _is_conflict(row)]
        ids = {(row["item"], row["condition"]["k"]) for row in conflicting}
        on_conflicts = [
            row for k in config["ks"] for row in rows if (row["item"], k) in ids and row["condition"].get("k") == k
        ]
        comparisons = compare_methods(on_conflicts, seed=config["seed"]) if on_conflicts else []
        if comparisons:
            report.tables += comparison_tables(comparisons)
        else:
            report.remarks.append("No partitions of any question disagreed.")
        every = cells(rows, seed=config["seed"])
        report.tables += cells_tables("on all questions, conflicting or not", every)
        report.summary = {"conflicts": found, "comparisons": comparisons, "cells": every}
        if out is not None:
            report.figures += stacked_plot(
                {f"k = {c['k']}": (c["win"], c["tie"], c["lose"]) for c in found if c["n"]},
                ("Win", "Tie", "Lose"),
                out / "conflict",
                x_label="Conflicting questions, BriefContext against vanilla RAG",
                colours=(OKABE_ITO[0], "#8C8C8C", OKABE_ITO[1]),
                simulated=config["simulation"],
            )
        return report


def _is_conflict(row: Row) -> bool:
    return row["status"] == "ok" and row["method"] == _MAPPED and len(row["partition_choices"]) > 1


def _conflicts(rows: Sequence[Row], k: int) -> dict[str, Any]:
    some = [row for row in rows if row["condition"].get("k") == k]
    conflicting = [row for row in some if _is_conflict(row)]
    resolved = sum(row["outcome"] == "right" for row in conflicting)
    among = sum(any(letter == row["choice"] for letter in row["partition_choices"]) for row in conflicting)
    ids = {row["item"] for row in conflicting}
    pairs = paired([row for row in some if row["item"] in ids], _MAPPED, VANILLA)
    differences = [mapped["score"] - vanilla["score"] for mapped, vanilla in pairs]
    counts = {
        "k": k,
        "questions": sum(row["method"] == _MAPPED for row in answered(some)),
        "n": len(conflicting),
        "resolved": resolved,
        "chosen_by_a_partition": among,
        "unparsed": sum(row["outcome"] in ("unparsed", "abstained") for row in conflicting),
        "compared": len(pairs),
        "win": sum(d > 0 for d in differences),
        "tie": sum(d == 0 for d in differences),
        "lose": sum(d < 0 for d in differences),
    }
    if conflicting:
        interval = wilson(resolved, len(conflicting))
        counts.update(share=resolved / len(conflicting), low=interval.low, high=interval.high)
    return counts


def _table(found: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            str(c["k"]),
            str(c["questions"]),
            f"{c['n']} ({percent(c['n'] / c['questions'])}%)" if c["questions"] else "0",
            str(c["resolved"]),
            with_interval(c.get("share"), c.get("low"), c.get("high")),
            str(c["chosen_by_a_partition"]),
            str(c["unparsed"]),
            f"{c['win']} / {c['tie']} / {c['lose']}",
        ]
        for c in found
    ]
    return Table(
        "Conflicts and what became of them",
        ["k", "Questions", "Conflicting (n)", "Resolved", "Share [95% CI]", "Chosen by a partition", "Unparsed",
         "Win / tie / lose"],
        rows,
        "Conflicting: at least two partitions chose different options. Resolved: the final answer is right. Win, tie "
        "and lose against vanilla RAG on the conflicting questions that both answered.",
    )  # fmt: skip
