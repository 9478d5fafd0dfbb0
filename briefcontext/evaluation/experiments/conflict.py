"""Experiment `conflict`: partitions that disagree, and the final answers."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar

from briefcontext.evaluation.data_sets.data_set import Item, sample
from briefcontext.evaluation.experiments.controlled import Position
from briefcontext.evaluation.experiments.experiment import OnCorpus, Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import WIN_TIE_LOSE_COLOURS, stacked_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.runs.published import PREPRINT, SHORT, published_curves
from briefcontext.evaluation.statistics.comparison import compare_methods, paired, tally
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.evaluation.statistics.tables import (
    WIN_TIE_LOSE,
    Columns,
    Row,
    answered,
    condition_of,
    grouped,
    interval_of,
    percent,
    with_interval,
)

_MAPPED = "map_reduce"
SHARE = 0.2
"""Share of the questions in the paper's experiment: a fifth of PubMedQA."""
_OUTCOMES = ("win", "tie", "lose")


def _label(conflict: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in conflict["condition"].items())


_COLUMNS: Columns = {
    "Rankings": _label,
    "Answers": itemgetter("questions"),
    "Partitions without a choice": lambda c: f"{c['without_choice']} of {c['partitions']}",
    "Conflicting (n)": lambda c: f"{c['n']} ({percent(c['n'] / max(c['questions'], 1))}%)",
    "Resolved": itemgetter("resolved"),
    "Share [95% CI]": interval_of("share"),
    "Chosen by a partition": itemgetter("chosen_by_a_partition"),
    "Unparsed": itemgetter("unparsed"),
    **WIN_TIE_LOSE,
}
_NOTE = (
    "Conflicting: at least two partitions chose different options; a partition without a choice "
    "disagrees with none. Resolved: the final answer is right. Win, tie and lose are against "
    "vanilla RAG on the conflicting answers that both answered."
)


class _Conflicts(OnCorpus):
    """Questions whose partitions chose different options, and the share answered rightly."""

    name = "conflict"
    title = "Conflicting partitions"
    question = "When partitions choose different options, how often is the final answer right?"
    methods: ClassVar[tuple[str, ...]] = (VANILLA, _MAPPED)
    ks: ClassVar[tuple[int, ...]] = (8, 16)
    repeatable = False

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        if item.options:
            return super().left_out(item, oracle=oracle)
        return "is a free question; the experiment conflict takes multiple choice. Add `options`."

    def report(self, report: Report) -> None:
        rows, every_k = report.rows, [{"k": k} for k in report.config["ks"]]
        conditions = [dict(key) for key in dict.fromkeys(map(condition_of, rows)) if key]
        single = [condition for condition in conditions if condition not in every_k]
        results = [_conflicts(rows, condition) for condition in [*every_k, *single]]
        report.show("conflicts", results, "Conflicts and what became of them", _COLUMNS, _NOTE)
        comparisons = compare_methods(_of_conflicts(rows), seed=report.seed, by=("k",))
        report.compare("comparisons", comparisons)
        report.scores("on all questions, conflicting or not", by=("k",))
        for one in results[: len(every_k)]:
            share = with_interval(one.get("share"), one.get("low"), one.get("high"))
            report.sentences.append(
                f"{_label(one)}: partitions disagreed in {one['n']} of {one['questions']} answers; "
                f"{one['resolved']} final answers were right, {share}% (the papers: 396 of 530)."
            )
        report.say_differences(comparisons, "map-reduce minus vanilla RAG on conflicts")
        bars = {
            _label(c): [_share(c, name) for name in _OUTCOMES] for c in results if c["compared"]
        }
        counts = [str(c["compared"]) for c in results if c["compared"]]
        curves = [curve for curve in published_curves(self.name) if curve.position.isdigit()]
        published = {}
        for (k, position), own in grouped(curves, lambda each: (each.k, each.position)).items():
            name = f"k = {k}, position = {position}"
            if name in bars:
                values = [float(curve.value) for curve in own]
                published[f"{name}\n({own[0].model})"] = values
        report.draw(
            stacked_plot,
            {**bars, **published},
            parts=[name.capitalize() for name in _OUTCOMES],
            x_label="Conflicting answers (%), map-reduce against vanilla RAG",
            caption=f"n = {', '.join(counts)} answers",
            colours=WIN_TIE_LOSE_COLOURS,
            published=[*published],
            paper=SHORT[PREPRINT],
            percent=True,
        )


class Conflict(_Conflicts, Position):
    """The papers' experiment: the key document at five places, on a fifth of the questions."""

    def drawn(self, items: Sequence[Item], seed: int) -> tuple[list[Item], str | None]:
        count = max(1, round(SHARE * len(items)))
        words = f"{count} of {len(items)} questions, a fifth, as in the paper"
        return sample(items, count, seed), words


class ConflictOnRealRankings(_Conflicts, RealRankings):
    """The same count on the corpus's own rankings."""


def _share(conflict: Mapping[str, Any], outcome: str) -> float:
    return float(100 * conflict[outcome] / conflict["compared"])


def _is_conflict(row: Row) -> bool:
    return row["status"] == "ok" and row["method"] == _MAPPED and len(row["partition_choices"]) > 1


def _of_conflicts(rows: Sequence[Row]) -> list[Row]:
    asked = {(row["item"], condition_of(row)) for row in rows if _is_conflict(row)}
    return [row for row in rows if (row["item"], condition_of(row)) in asked]


def _conflicts(rows: Sequence[Row], condition: Mapping[str, Any]) -> dict[str, Any]:
    some = [row for row in rows if condition.items() <= row["condition"].items()]
    mapped = [row for row in answered(some) if row["method"] == _MAPPED]
    conflicting = [row for row in mapped if _is_conflict(row)]
    resolved, n = sum(row["outcome"] == "right" for row in conflicting), len(conflicting)
    pairs = paired(_of_conflicts(some), _MAPPED, VANILLA)
    differences = [one["score"] - other["score"] for one, other in pairs]
    chosen = sum(row["choice"] in row["partition_choices"] for row in conflicting)
    return {
        "condition": dict(condition),
        "questions": len(mapped),
        "partitions": sum(row["partitions"] for row in mapped),
        "without_choice": sum(row["partitions_without_choice"] for row in mapped),
        "n": n,
        "resolved": resolved,
        "chosen_by_a_partition": chosen,
        "unparsed": sum(row["outcome"] in ("unparsed", "abstained") for row in conflicting),
        "compared": len(differences),
        **tally(differences),
        **({"share": resolved / n, **wilson(resolved, n)._asdict()} if n else {}),
    }
