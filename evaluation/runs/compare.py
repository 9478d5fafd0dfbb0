"""Runs side by side, and beside the papers' figures, which are of other models and corpora.

OP-RAG's were checked against its text. BriefContext's two texts, the journal's and the preprint's, differ in places;
theirs were noted and not checked again, and where a note does not name the place, neither does the list here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.folder import RunFolder
from briefcontext.evaluation.runs.results import SIMULATION
from briefcontext.evaluation.statistics.tables import Record, Table, grouped

NPJ = "Zhang et al., BriefContext, npj Digital Medicine 8, 239, 2025"
PREPRINT = "Zhang et al., BriefContext, arXiv 2412.15271, 2024"
OP_RAG = "Yu et al., OP-RAG, arXiv 2409.01666, 2024"

_PAPERS = {"npj": NPJ, "preprint": PREPRINT, "OP-RAG": OP_RAG}
_PLACES = {
    "?": "table not available here",
    "text?": "text; not checked",
    "S1": "Supplementary Table 1",
    "S2": "Figure 4 and Supplementary Table 2",
    # The preprint's table is transposed against its own text.
    "S4": "Supplementary Table 4; its labels give precision 92.61 and recall 50.18, the text is followed",
    "3": "Figure 3, as its text gives it",
    "4": "Figure 4, as its text gives it",
}


class Published(NamedTuple):
    """One figure as its paper gives it."""

    experiment: str
    paper: str
    place: str
    """The table or figure."""
    row: str
    column: str
    figure: str


_NOTED = """
position | npj | ? | GPT-3.5, k = 8 | Mean over five positions, vanilla -> BriefContext | 54.82 -> 58.11
position | npj | ? | GPT-3.5, k = 16 | Mean over five positions, vanilla -> BriefContext | 52.12 -> 58.51
position | npj | ? | Mixtral, k = 16 | Mean over five positions, vanilla -> BriefContext | 57.66 -> 60.41
position | preprint | S1 | GPT-3.5, k = 8 | Mean over five positions, vanilla -> BriefContext | 53.33 -> 59.51
position | preprint | S1 | GPT-3.5, k = 8 | Best minus worst of five positions, vanilla (computed) | 15.2 points
position | preprint | S1 | GPT-3.5, k = 8 | Best minus worst of five positions, BriefContext (computed) | 4.4 points
position | preprint | S1 | GPT-3.5, k = 8 | BriefContext minus vanilla at position 0 (computed) | -5.3 points
integration | npj | ? | Llama2-70B | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 55.81 -> 66.47
integration | npj | ? | Llama3-70B | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 76.75 -> 79.03
integration | npj | ? | Mixtral | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 70.52 -> 72.20
integration | npj | ? | GPT-3.5 | Mean of MedMCQA, PubMedQA and BioASQ, vanilla -> BriefContext | 69.19 -> 72.51
conflict | npj | S2 | Conflicting partitions | Resolved | 396 of 530
cost | npj | ? | Vanilla, k = 8 | Input and output tokens of a question | 3066 and 183
cost | npj | ? | BriefContext, k = 8 | Input and output tokens of a question | 5496.5 and 247.5
cost | npj | ? | BriefContext | Saved by the preflight | up to 35%
preflight | npj | text? | Check | Precision | 50.2
preflight | npj | text? | Check | Recall | 92.6
preflight | npj | text? | Check | Specificity (true negatives filtered) | 35.7
preflight | preprint | S4 | Check | TP, FP, FN, TN of 1,118 questions | 426, 423, 34, 235
preflight | preprint | S4 | Check | Precision | 50.18
preflight | preprint | S4 | Check | Recall | 92.61
preflight | preprint | S4 | Check | F1 | 65.09
preflight | preprint | S4 | Check | Specificity (true negatives filtered) | 35.71 (computed from the counts)
preflight | preprint | S4 | Check | Questions that skip the map | 24.1%
open_ended | npj | ? | BriefContext against vanilla | Win / tie / lose, in per cent | 29.2 / 58.3 / 12.5
order | OP-RAG | 4 | 128 chunks, Llama3.1-70B | EN.QA F1, vanilla -> OP-RAG | 38.40 -> 44.43
order | OP-RAG | 4 | 192 chunks, Llama3.1-70B | EN.MC accuracy, vanilla -> OP-RAG | 81.22 -> 88.65
order | OP-RAG | 3 | Llama3.1-8B | Best context length, EN.QA and EN.MC | 16K and 16K
order | OP-RAG | 3 | Llama3.1-70B | Best context length, EN.QA and EN.MC | 48K and 32K
"""
_TABLE_1 = """
Long context, Llama3.1-70B | 34.26 | 117K | 71.62 | 117K
Long context, GPT-4o | 32.36 | 117K | 78.42 | 117K
Long context, Gemini-1.5-Pro | 43.08 | 196K | 85.57 | 188K
SELF-ROUTE, GPT-4o | 34.95 | 85K | 77.29 | 62K
SELF-ROUTE, Gemini-1.5-Pro | 37.51 | 83K | 76.86 | 62K
OP-RAG-16K (128 chunks), Llama3.1-70B | 44.43 | 16K | 84.72 | 16K
OP-RAG-24K (192 chunks), Llama3.1-70B | 45.45 | 24K | 88.65 | 24K
OP-RAG-48K (384 chunks), Llama3.1-70B | 47.25 | 48K | 85.59 | 48K
"""
_COLUMNS_1 = ("EN.QA F1", "EN.QA tokens", "EN.MC accuracy", "EN.MC tokens")
PUBLISHED = (
    *(
        Published(name, _PAPERS[paper], _PLACES[place], *rest)
        for name, paper, place, *rest in (line.split(" | ") for line in _NOTED.strip().splitlines())
    ),
    *(
        Published("order", OP_RAG, "Table 1", row, column, figure)
        for row, *figures in (line.split(" | ") for line in _TABLE_1.strip().splitlines())
        for column, figure in zip(_COLUMNS_1, figures, strict=True)
    ),
)

NOT_AVAILABLE = ("context_length", "attention_bias")
"""Experiments of the papers whose figures are not available here, so that a run has none to stand beside."""


def compare_runs(folders: Sequence[Path]) -> str:
    """Return runs side by side as Markdown, an experiment after another, and the papers' figures under each.

    Raises:
        InputError: there is none, or a folder is not one of a finished run.
    """
    if not folders:
        raise InputError("There is no run to compare. Name the folders of one or more.")
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    summaries = {name: RunFolder(folder).summary() for name, folder in zip(names, folders, strict=True)}
    if old := [name for name, summary in summaries.items() if "tables" not in summary]:
        raise InputError(f"Of an older version, without tables: {', '.join(old)}. Give the command of each again.")
    parts = ["# Runs compared", ""]
    if marked := [name for name, summary in summaries.items() if summary["simulation"]]:
        parts += [f"{SIMULATION} This holds for: {', '.join(marked)}.", ""]
    parts += [_runs_table(summaries).markdown(), ""]
    for experiment in dict.fromkeys(str(summary["experiment"]) for summary in summaries.values()):
        some = {name: summary for name, summary in summaries.items() if summary["experiment"] == experiment}
        parts += [f"## {experiment}", ""]
        tables = [(name, Table(**table)) for name, summary in some.items() for table in summary["tables"]]
        joined = [_joined(title, own) for title, own in grouped(tables, lambda one: one[1].title).items()]
        for table in (*joined, _published_table(experiment)):
            if table.rows:
                parts += [table.markdown(), ""]
        if experiment in NOT_AVAILABLE:
            parts += ["The papers' figures of this experiment are not available here.", ""]
    return "\n".join(parts)


def _runs_table(summaries: Mapping[str, Record]) -> Table:
    columns = ("items", "answers", "failed", "calls", "input_tokens", "output_tokens")
    rows = [
        [
            name,
            str(summary["experiment"]),
            str(summary["model"] or "none"),
            str(summary["data_set"] or "–"),
            "{passages:,} passages, {encoder}".format(**base) if (base := summary["knowledge_base"]) else "–",
            *(format(summary.get(column, "–"), "," if column in summary else "") for column in columns),
            "yes" if summary["simulation"] else "no",
        ]
        for name, summary in summaries.items()
    ]
    heads = ["Experiment", "Model", "Data set", "Knowledge base", "n", "Answers", "Failed", "Requests"]
    return Table("Runs", ["Run", *heads, "Input tokens", "Output tokens", "Simulation"], rows)


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
        [*of, *(next((f"{p.figure} ({p.place})" for p in own if p.paper == paper), "–") for paper in papers)]
        for of, own in grouped(figures, lambda p: (p.row, p.column)).items()
    ]
    return Table(
        "What the papers report",
        ["Row", "Column", *papers],
        rows,
        "Other models, corpora and questions: to be set beside a run, and not to be tested against it. OP-RAG's "
        "figures were checked against its text; BriefContext's were noted from its two texts, and not checked again.",
    )
