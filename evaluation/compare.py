"""Runs side by side, and beside the papers' figures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.experiment import Table
from briefcontext.evaluation.outcomes import title_of, with_interval
from briefcontext.evaluation.published import PUBLISHED
from briefcontext.evaluation.run_folder import SUMMARY
from briefcontext.evaluation.run_report import SIMULATION, markdown_table

__all__ = ["compare_runs"]


def compare_runs(folders: Sequence[Path]) -> str:
    """Return runs side by side as Markdown, an experiment after another, and the papers' figures under each.

    Raises:
        InputError: there is none, or a folder is not one of a finished run.
    """
    if not folders:
        raise InputError("There is no run to compare. Name the folders of one or more.")
    names = _names(folders)
    summaries = {name: _summary(folder) for name, folder in zip(names, folders, strict=True)}
    parts = ["# Runs compared", ""]
    if any(summary.get("simulation") for summary in summaries.values()):
        marked = ", ".join(name for name, summary in summaries.items() if summary.get("simulation"))
        parts += [f"{SIMULATION} This holds for: {marked}.", ""]
    parts += [markdown_table(_runs_table(summaries)), ""]
    for experiment in dict.fromkeys(str(summary["experiment"]) for summary in summaries.values()):
        some = {name: summary for name, summary in summaries.items() if summary["experiment"] == experiment}
        parts += [f"## {experiment}", ""]
        for table in (*_score_tables(some), *_own_tables(some), _published_table(experiment)):
            if table.rows:
                parts += [markdown_table(table), ""]
    return "\n".join(parts)


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' names; their whole paths where two are alike."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _summary(folder: Path) -> dict[str, Any]:
    file = folder / SUMMARY
    try:
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no finished run: there is no {SUMMARY}. Give the same experiment command to finish it."
        ) from None
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Run the experiment command again.") from error
    # The study of the preflight asks no model, and its folder has no other mark.
    summary.setdefault("experiment", "preflight")
    return summary


def _runs_table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = (
        "experiment",
        "model",
        "data_set",
        "items",
        "answers",
        "failed",
        "calls",
        "input_tokens",
        "output_tokens",
    )
    rows = [
        [name, *(_number(summary.get(column, "–")) for column in columns), "yes" if summary.get("simulation") else "no"]
        for name, summary in summaries.items()
    ]
    heads = ["Experiment", "Model", "Data set", "n", "Answers", "Failed", "Requests", "Input tokens", "Output tokens"]
    return Table("Runs", ["Run", *heads, "Simulation"], rows)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _score_tables(summaries: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Scores by data set, method and condition, a column a run."""
    by_group: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
    for name, summary in summaries.items():
        groups = summary.get("groups") or {str(summary.get("data_set", "")): summary.get("cells") or []}
        for group, cells in groups.items():
            for cell in cells:
                label = ", ".join(f"{key} {value}" for key, value in cell["condition"].items()) or "any"
                score = with_interval(cell.get("score"), cell.get("low"), cell.get("high"))
                values = by_group.setdefault(group, {}).setdefault((cell["method"], label), {})
                values[name] = f"{score} (n = {cell['n']})"
    return [
        Table(
            f"Scores on {group}",
            ["Method", "Condition", *summaries],
            [
                [title_of(method), label, *(values.get(name, "–") for name in summaries)]
                for (method, label), values in found.items()
            ],
            "In per cent, with 95% intervals.",
        )
        for group, found in by_group.items()
    ]


def _own_tables(summaries: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """What an experiment has beside scores: spreads, conflicts, costs, and the means over data sets."""
    rows: dict[tuple[str, str], dict[str, str]] = {}

    def put(run: str, what: str, condition: str, value: str) -> None:
        rows.setdefault((what, condition), {})[run] = value

    for name, summary in summaries.items():
        for spread in summary.get("spread", []):
            value = f"{with_interval(spread['spread'], spread['low'], spread['high'])} (n = {spread['n']})"
            put(name, f"Spread, {title_of(spread['method'])}", f"k {spread['k']}", value)
        for conflict in summary.get("conflicts", []):
            value = f"{conflict['resolved']} of {conflict['n']}"
            put(name, "Conflicts resolved", f"k {conflict['k']}", value)
        for cost in summary.get("costs", []):
            value = f"{cost['input_tokens']:,.1f} and {cost['output_tokens']:,.1f} (n = {cost['n']})"
            label = ", ".join(f"{key} {value}" for key, value in cost["condition"].items()) or "any"
            put(name, f"Input and output tokens, {title_of(cost['method'])}", label, value)
        for average in summary.get("averages", []):
            label = ", ".join(f"{key} {value}" for key, value in average["condition"].items()) or "any"
            value = f"{100 * average['score']:.2f} (n = {average['groups']} data sets)"
            put(name, f"Mean over data sets, {title_of(average['method'])}", label, value)
    table = [
        [what, condition, *(values.get(name, "–") for name in summaries)] for (what, condition), values in rows.items()
    ]
    return [Table("Beside the scores", ["What", "Condition", *summaries], table)]


def _published_table(experiment: str) -> Table:
    rows = [[p.what, p.figure, p.source] for p in PUBLISHED if p.experiment == experiment]
    return Table(
        "What the papers report",
        ["What", "Figure", "Source"],
        rows,
        "Other models, corpora and questions: to be set beside a run, and not to be tested against it.",
    )
