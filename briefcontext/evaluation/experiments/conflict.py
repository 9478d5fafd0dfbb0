"""Experiment `conflict`: what becomes of partitions that disagree?"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar

from briefcontext.evaluation.data_sets.data_set import Item, sample
from briefcontext.evaluation.experiments.controlled import Position
from briefcontext.evaluation.experiments.experiment import OnCorpus, Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import OKABE_ITO, stacked_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.comparison import compare_methods, paired, tally
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.evaluation.statistics.tables import (
    WIN_TIE_LOSE,
    Columns,
    Row,
    answered,
    condition_of,
    interval_of,
    percent,
)

_MAPPED = "map_reduce"
SHARE = 0.2
"""Of the questions, in the paper's experiment: a fifth of PubMedQA."""


def _label(conflict: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in conflict["condition"].items())


_COLUMNS: Columns = {
    "Rankings": _label,
    "Answers": itemgetter("questions"),
    "Partitions without a choice": lambda c: f"{c['without_choice']} of {c['partitions']}",
    "Conflicting (n)": lambda c: (
        f"{c['n']} ({percent(c['n'] / c['questions'])}%)" if c["questions"] else "0"
    ),
    "Resolved": itemgetter("resolved"),
    "Share [95% CI]": interval_of("share"),
    "Chosen by a partition": itemgetter("chosen_by_a_partition"),
    "Unparsed": itemgetter("unparsed"),
    **WIN_TIE_LOSE,
}
_NOTE = (
    "Conflicting: at least two partitions chose different options; one that states no choice is "
    "counted by itself, "
    "and disagrees with none. Resolved: the final answer is right. Win, tie and lose are against "
    "vanilla RAG on the "
    "conflicting answers, where both answered."
)


class _Conflicts(OnCorpus):
    """Questions whose partitions chose different options: how many the reduce step settles rightly."""

    name = "conflict"
    title = "Conflicting partitions"
    question = "When partitions choose different options, how often does the reduce step settle on the right one?"
    methods: ClassVar[tuple[str, ...]] = (VANILLA, _MAPPED)
    ks: ClassVar[tuple[int, ...]] = (8, 16)
    repeatable = False

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        """Leave free text out: partitions are seen to disagree by the options that they choose."""
        return (
            super().left_out(item, oracle=oracle)
            if item.options
            else "has no options to disagree on"
        )

    def report(self, report: Report) -> None:
        """Count conflicts, those resolved, and win, tie and lose against vanilla on them."""
        rows, every_k = report.rows, [{"k": k} for k in report.config["ks"]]
        conditions = [dict(key) for key in dict.fromkeys(map(condition_of, rows)) if key]
        found = [
            _conflicts(rows, condition)
            for condition in [*every_k, *(c for c in conditions if c not in every_k)]
        ]
        report.show("conflicts", found, "Conflicts and what became of them", _COLUMNS, _NOTE)
        comparisons = compare_methods(_of_conflicts(rows), seed=report.seed, by=("k",))
        report.compare("comparisons", comparisons)
        report.scores("on all questions, conflicting or not")
        if not comparisons:
            report.remarks.append("No partitions of any question disagreed.")
        report.draw(
            stacked_plot,
            {_label(c): (c["win"], c["tie"], c["lose"]) for c in found if c["n"]},
            parts=("Win", "Tie", "Lose"),
            x_label="Conflicting answers, map-reduce against vanilla RAG",
            colours=(OKABE_ITO[0], "#8C8C8C", OKABE_ITO[1]),
        )


class Conflict(_Conflicts, Position):
    """The papers' experiment: the key document at five places of the same ranking, on a fifth of the questions."""

    def drawn(self, items: Sequence[Item], seed: int) -> tuple[list[Item], str | None]:
        """Draw a fifth of the questions, as the paper does of PubMedQA."""
        count = max(1, round(SHARE * len(items)))
        return sample(
            items, count, seed
        ), f"{count} of {len(items)} questions, a fifth, as in the paper"


class ConflictOnRealRankings(_Conflicts, RealRankings):
    """The same count on the rankings that the corpus really gives."""


def _is_conflict(row: Row) -> bool:
    return row["status"] == "ok" and row["method"] == _MAPPED and len(row["partition_choices"]) > 1


def _of_conflicts(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of questions under the conditions in which their partitions disagree."""
    asked = {(row["item"], condition_of(row)) for row in rows if _is_conflict(row)}
    return [row for row in rows if (row["item"], condition_of(row)) in asked]


def _conflicts(rows: Sequence[Row], condition: Mapping[str, Any]) -> dict[str, Any]:
    """Count the conflicts under a condition that may leave the position open."""
    some = [row for row in rows if condition.items() <= row["condition"].items()]
    mapped = [row for row in answered(some) if row["method"] == _MAPPED]
    conflicting = [row for row in mapped if _is_conflict(row)]
    resolved, n = sum(row["outcome"] == "right" for row in conflicting), len(conflicting)
    differences = [
        one["score"] - other["score"]
        for one, other in paired(_of_conflicts(some), _MAPPED, VANILLA)
    ]
    return {
        "condition": dict(condition),
        "questions": len(mapped),
        "partitions": sum(row["partitions"] for row in mapped),
        "without_choice": sum(row["partitions_without_choice"] for row in mapped),
        "n": n,
        "resolved": resolved,
        "chosen_by_a_partition": sum(
            row["choice"] in row["partition_choices"] for row in conflicting
        ),
        "unparsed": sum(row["outcome"] in ("unparsed", "abstained") for row in conflicting),
        "compared": len(differences),
        **tally(differences),
        **({"share": resolved / n, **wilson(resolved, n)._asdict()} if n else {}),
    }
