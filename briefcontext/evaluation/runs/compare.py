"""Runs side by side, and beside the papers' figures, which are of other models and corpora.

OP-RAG's were checked against its text. BriefContext's two texts, the journal's and the preprint's,
differ in places; theirs were noted and not checked again, and where a note does not name the place,
neither does the list here.
"""

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
_PAPERS = {"npj": NPJ, "preprint": PREPRINT, "OP-RAG": OP_RAG}


class Published(NamedTuple):
    """One figure as its paper gives it."""

    experiment: str
    paper: str
    place: str
    """The table or figure."""
    row: str
    column: str
    figure: str


_FIGURES = csv.DictReader(
    (files(__package__) / "published.csv").read_text(encoding="utf-8").splitlines()
)
PUBLISHED = tuple(Published(**{**row, "paper": _PAPERS[row["paper"]]}) for row in _FIGURES)


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
        published = _published_table(experiment)
        missing = "The papers' figures of this experiment are not available here."
        parts.append(published.markdown() if published.rows else missing)
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


def _published_table(experiment: str) -> Table:
    """The papers' figures, a row each, with a column a paper: where two texts differ, both stand side by side."""
    figures = [p for p in PUBLISHED if p.experiment == experiment]
    papers = list(dict.fromkeys(p.paper for p in figures))
    rows = [
        [
            *of,
            *(
                next((f"{p.figure} ({p.place})" for p in own if p.paper == paper), "–")
                for paper in papers
            ),
        ]
        for of, own in grouped(figures, lambda p: (p.row, p.column)).items()
    ]
    return Table(
        "What the papers report",
        ["Row", "Column", *papers],
        rows,
        "Other models, corpora and questions: to be set beside a run, and not to be tested against it. OP-RAG's "
        "figures were checked against its text; BriefContext's were noted from its two texts, and not checked again.",
    )
