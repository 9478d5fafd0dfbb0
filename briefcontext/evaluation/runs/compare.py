"""Runs side by side, and the figures that the papers print for the same experiments."""

import csv
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.folder import RunFolder
from briefcontext.evaluation.runs.results import SIMULATION
from briefcontext.evaluation.statistics.tables import Record, Table, grouped

NPJ = "Zhang et al., BriefContext, npj Digital Medicine 8, 239, 2025"
PREPRINT = "Zhang et al., BriefContext, arXiv 2412.15271, 2024"
OP_RAG = "Yu et al., OP-RAG, arXiv 2409.01666, 2024"

_HASH = 8
"""Characters of a SHA-256 that tell runs' questions apart."""
_PAPERS = {"preprint": PREPRINT, "npj": NPJ, "op-rag": OP_RAG}
_LISTS = ("data sets", "corpus")
"""Tables of the papers that belong to no experiment."""
_NOTES = {
    "preflight": "The preprint labels the two axes of Supplementary Table 4 the other way round: by both "
    "papers' texts, precision is 50.18 and recall 92.61.",
    "context_length": "Figure 5 prints no numbers. Accuracy falls as documents are added.",
    "attention_bias": "Figure 6 prints no numbers. Accuracy is higher among random documents.",
}


class Published(NamedTuple):
    """One figure as its paper prints it."""

    paper: str
    place: str
    """The table or figure."""
    experiment: str
    model: str
    k: str
    """The number of documents or chunks."""
    position: str
    """The place of the key document, in per cent of the context."""
    method: str
    dataset: str
    metric: str
    value: str


_ROWS = csv.DictReader(
    (files(__package__) / "published.csv").read_text(encoding="utf-8").splitlines()
)
PUBLISHED = tuple(Published(**{**row, "paper": _PAPERS[row["paper"]]}) for row in _ROWS)


def compare_runs(folders: Sequence[Path]) -> str:
    """Return runs side by side as Markdown, an experiment after another, and the papers' figures under each.

    Raises:
        InputError: there is none, or a folder is named twice, or is not one of a finished run.
    """
    if not folders:
        raise InputError("There is no run to compare. Name the folders of one or more.")
    named: dict[Path, Path] = {}
    for folder in folders:
        if (place := folder.resolve()) in named:
            raise InputError(f"{folder} is the same run as {named[place]}. Name each run once.")
        named[place] = folder
    names = [place.name for place in named]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    summaries = {
        name: RunFolder(folder).summary() for name, folder in zip(names, folders, strict=True)
    }
    parts = ["# Runs compared"]
    if marked := [name for name, summary in summaries.items() if summary["simulation"]]:
        parts.append(f"{SIMULATION} This holds for: {', '.join(marked)}.")
    parts.append(_runs_table(summaries).markdown())
    for experiment, some in grouped(
        summaries, lambda name: str(summaries[name]["experiment"])
    ).items():
        parts.append(f"## {experiment}")
        tables = [(name, Table(**table)) for name in some for table in summaries[name]["tables"]]
        joined = [
            _joined(title, own) for title, own in grouped(tables, lambda one: one[1].title).items()
        ]
        parts += [table.markdown() for table in joined if table.rows]
        parts += [table.markdown() for table in published_tables(experiment)]
        if experiment in _NOTES:
            parts.append(_NOTES[experiment])
    parts.append("## Data sets and corpora of the papers")
    parts += [table.markdown() for name in _LISTS for table in published_tables(name)]
    return "\n\n".join(parts) + "\n"


def _runs_table(summaries: Mapping[str, Record]) -> Table:
    columns = ("items", "answers", "failed", "calls", "input_tokens", "output_tokens")
    rows = [
        [
            name,
            str(summary["experiment"]),
            str(summary["model"] or "none"),
            str(summary["data_set"] or "–"),
            "{passages:,} passages, {encoder}".format(**base)
            if (base := summary["knowledge_base"])
            else "–",
            summary.get("questions_sha256", "–")[:_HASH],
            *("–" if summary.get(column) is None else f"{summary[column]:,}" for column in columns),
            "yes" if summary["simulation"] else "no",
        ]
        for name, summary in summaries.items()
    ]
    heads = [
        "Experiment",
        "Model",
        "Data set",
        "Knowledge base",
        "Questions",
        "n",
        "Answers",
        "Failed",
        "Requests",
    ]
    note = (
        "Runs of an experiment that have the same hash in the column Questions asked the same ones."
    )
    return Table("Runs", ["Run", *heads, "Input tokens", "Output tokens", "Simulation"], rows, note)


def _joined(title: str, tables: Sequence[tuple[str, Table]]) -> Table:
    """Join the tables of runs: rows that begin alike, up to the column n, stand together."""
    columns = list(dict.fromkeys(column for _, table in tables for column in table.columns))
    rows = [
        [name, *(cells.get(column, "–") for column in columns)]
        for name, table in tables
        for cells in (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    ]
    end = 1 + (columns.index("n") if "n" in columns else 1)
    rows = [row for alike in grouped(rows, lambda row: tuple(row[1:end])).values() for row in alike]
    notes = grouped(tables, lambda one: one[1].note)
    told = [f"{', '.join(name for name, _ in own)}: {note}" for note, own in notes.items()]
    return Table(title, ["Run", *columns], rows, " ".join(told if len(notes) > 1 else notes))


def published_tables(experiment: str) -> list[Table]:
    """Return the papers' figures of an experiment, a table for each place that prints some."""
    figures = [each for each in PUBLISHED if each.experiment == experiment]
    return [
        _pivoted(own) for own in grouped(figures, lambda each: (each.paper, each.place)).values()
    ]


def _pivoted(figures: Sequence[Published]) -> Table:
    """Lay figures out with a column for each position, data set or metric."""
    fields = [
        name for name in Published._fields[3:-1] if len({getattr(f, name) for f in figures}) > 1
    ]
    across = next((name for name in ("position", "dataset", "metric") if name in fields), "")
    if fields == [across]:
        across = ""
    rows_by = [name for name in fields if name != across]
    columns = list(dict.fromkeys(getattr(each, across) if across else "value" for each in figures))
    rows = []
    for key, own in grouped(figures, lambda each: tuple(getattr(each, n) for n in rows_by)).items():
        cells = {getattr(each, across) if across else "value": each.value for each in own}
        rows.append([*key, *(cells.get(column, "–") for column in columns)])
    same = {name: getattr(figures[0], name) for name in Published._fields[3:-1]}
    same = {name: value for name, value in same.items() if value and name not in fields}
    note = "; ".join(f"k = {value}" if name == "k" else value for name, value in same.items())
    heads = [
        f"{column} %" if across == "position" and column.isdigit() else column for column in columns
    ]
    first = figures[0]
    title = f"{first.place} ({first.paper})"
    return Table(
        title,
        [*(name.capitalize() for name in rows_by), *heads],
        rows,
        note,
    )
