"""Experiment `conflict`: what becomes of partitions that disagree?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.data_sets.sampling import sample
from briefcontext.evaluation.experiments.experiment import Experiment, Materials, Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.experiments.position import Position
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

__all__ = ["Conflict", "ConflictOnRealRankings"]

_MAPPED = "map_reduce"


SHARE = 0.2
"""Of the questions, in the paper's experiment: a fifth of PubMedQA."""


class _Conflicts(Experiment):
    """Questions whose partitions chose different options: how many the reduce step settles rightly."""

    name = "conflict"
    title = "Conflicting partitions"
    question = "When partitions choose different options, how often does the reduce step settle on the right one?"
    methods: ClassVar[tuple[str, ...]] = (VANILLA, _MAPPED)
    ks: ClassVar[tuple[int, ...]] = (8, 16)
    repeatable = False

    def left_out(self, item: Item, materials: Materials, *, oracle: bool) -> str | None:
        """Leave free text out: partitions are seen to disagree by the options that they choose."""
        if not item.options:
            return "has no options to disagree on"
        return super().left_out(item, materials, oracle=oracle)

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Count conflicts, those resolved, and win, tie and lose against vanilla on them."""
        report = Report()
        conditions = [dict(key) for key in dict.fromkeys(tuple(row["condition"].items()) for row in rows) if key]
        every_k = [{"k": k} for k in config["ks"]]
        found = [_conflicts(rows, condition) for condition in [*every_k, *(c for c in conditions if c not in every_k)]]
        report.tables.append(_table(found))
        asked = {(row["item"], tuple(row["condition"].items())) for row in rows if _is_conflict(row)}
        on_conflicts = [row for row in rows if (row["item"], tuple(row["condition"].items())) in asked]
        comparisons = compare_methods(on_conflicts, seed=config["seed"], by=("k",)) if on_conflicts else []
        if comparisons:
            report.tables += comparison_tables(comparisons)
        else:
            report.remarks.append("No partitions of any question disagreed.")
        every = cells(rows, seed=config["seed"])
        report.tables += cells_tables("on all questions, conflicting or not", every)
        report.summary = {"conflicts": found, "comparisons": comparisons, "cells": every}
        if out is not None:
            report.figures += stacked_plot(
                {_label(c["condition"]): (c["win"], c["tie"], c["lose"]) for c in found if c["n"]},
                ("Win", "Tie", "Lose"),
                out / "conflict",
                x_label="Conflicting questions, BriefContext against vanilla RAG",
                colours=(OKABE_ITO[0], "#8C8C8C", OKABE_ITO[1]),
                simulated=config["simulation"],
            )
        return report


class Conflict(_Conflicts, Position):
    """The papers' experiment: the key document at five places of the same ranking, on a fifth of the questions."""

    def drawn(self, items: Sequence[Item], seed: int) -> tuple[list[Item], str | None]:
        """Draw a fifth of the questions, as the paper does of PubMedQA."""
        count = max(1, round(SHARE * len(items)))
        return sample(items, count, seed), f"{count} of {len(items)} questions, a fifth, as in the paper"


class ConflictOnRealRankings(_Conflicts, RealRankings):
    """The same count on the rankings that the corpus really gives."""


def _is_conflict(row: Row) -> bool:
    return row["status"] == "ok" and row["method"] == _MAPPED and len(row["partition_choices"]) > 1


def _label(condition: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in condition.items())


def _conflicts(rows: Sequence[Row], condition: Mapping[str, Any]) -> dict[str, Any]:
    """Count the conflicts under a condition that may leave the position open."""
    some = [row for row in rows if condition.items() <= row["condition"].items()]
    conflicting = [row for row in some if _is_conflict(row)]
    resolved = sum(row["outcome"] == "right" for row in conflicting)
    among = sum(any(letter == row["choice"] for letter in row["partition_choices"]) for row in conflicting)
    mapped = [row for row in answered(some) if row["method"] == _MAPPED]
    asked = {(row["item"], tuple(row["condition"].items())) for row in conflicting}
    pairs = paired([row for row in some if (row["item"], tuple(row["condition"].items())) in asked], _MAPPED, VANILLA)
    differences = [mapped["score"] - vanilla["score"] for mapped, vanilla in pairs]
    counts = {
        "condition": dict(condition),
        "questions": len(mapped),
        "partitions": sum(row["partitions"] for row in mapped),
        "without_choice": sum(row["partitions_without_choice"] for row in mapped),
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
            _label(c["condition"]),
            str(c["questions"]),
            f"{c['without_choice']} of {c['partitions']}",
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
        ["Rankings", "Answers", "Partitions without a choice", "Conflicting (n)", "Resolved", "Share [95% CI]",
         "Chosen by a partition", "Unparsed",
         "Win / tie / lose"],
        rows,
        "Conflicting: at least two partitions chose different options; one that states no choice is counted by itself, "
        "and disagrees with none. Resolved: the final answer is right. Win, tie "
        "and lose against vanilla RAG on the conflicting questions that both answered.",
    )  # fmt: skip
