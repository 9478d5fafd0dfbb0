"""Runs side by side, with the figures that the papers print for the same experiments."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.folder import RunFolder
from briefcontext.evaluation.runs.published import published_tables
from briefcontext.evaluation.runs.results import SIMULATION
from briefcontext.evaluation.statistics.tables import Record, Table, grouped

_HASH_CHARACTERS = 8
_LISTS = ("data sets", "corpus")
"""Tables of the papers that belong to no experiment."""
_NOTES = {
    "preflight": "The preprint labels the two axes of Supplementary Table 4 the other way round: "
    "by both papers' texts, precision is 50.18 and recall 92.61.",
    "context_length": "Figure 5 prints no numbers. Accuracy falls as documents are added.",
    "attention_bias": "Figure 6 prints no numbers. Accuracy is higher among random documents.",
}
_HEADS = (
    "Run", "Experiment", "Model", "Data set", "Knowledge base", "Questions", "n", "Answers",
    "Failed", "Requests", "Input tokens", "Output tokens", "Simulation",
)  # fmt: skip
_COUNTS = ("items", "answers", "failed", "calls", "input_tokens", "output_tokens")


def compare_runs(folders: Sequence[Path]) -> str:
    """Return runs side by side as Markdown, one experiment after another, with the papers' figures.

    Raises InputError if there is no folder, one is given twice, or one has no finished run.
    """
    if not folders:
        raise InputError("There is no run to compare. Name the folders of one or more.")
    places: dict[Path, Path] = {}
    for folder in folders:
        place = folder.resolve()
        if place in places:
            raise InputError(f"{folder} is the same run as {places[place]}. Name each run once.")
        places[place] = folder
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    runs = zip(names, folders, strict=True)
    summaries = {name: RunFolder(folder).summary() for name, folder in runs}
    parts = ["# Runs compared"]
    simulated = [name for name, summary in summaries.items() if summary["simulation"]]
    if simulated:
        parts.append(f"{SIMULATION} This holds for: {', '.join(simulated)}.")
    parts.append(_runs_table(summaries).markdown())
    by_experiment = grouped(summaries, lambda name: str(summaries[name]["experiment"]))
    for experiment, some in by_experiment.items():
        parts.append(f"## {experiment}")
        tables = [(name, Table(**table)) for name in some for table in summaries[name]["tables"]]
        by_title = grouped(tables, lambda pair: pair[1].title)
        joined = [_joined(title, own) for title, own in by_title.items()]
        shown: set[str] = set()
        parts += [table.markdown(shown) for table in joined if table.rows]
        parts += [table.markdown() for table in published_tables(experiment)]
        if experiment in _NOTES:
            parts.append(_NOTES[experiment])
    parts.append("## Data sets and corpora of the papers")
    parts += [table.markdown() for name in _LISTS for table in published_tables(name)]
    return "\n\n".join(parts) + "\n"


def _runs_table(summaries: Mapping[str, Record]) -> Table:
    rows = []
    for name, summary in summaries.items():
        base = summary["knowledge_base"]
        counts = [summary.get(count) for count in _COUNTS]
        rows.append(
            [
                name,
                str(summary["experiment"]),
                str(summary["model"] or "none"),
                str(summary["data_set"] or "–"),
                f"{base['passages']:,} passages, {base['encoder']}" if base else "–",
                summary.get("questions_sha256", "–")[:_HASH_CHARACTERS],
                *("–" if count is None else f"{count:,}" for count in counts),
                "yes" if summary["simulation"] else "no",
            ]
        )
    note = "Runs with the same hash in the column Questions asked the same questions."
    return Table("Runs", _HEADS, rows, [note])


def _joined(title: str, tables: Sequence[tuple[str, Table]]) -> Table:
    columns = list(dict.fromkeys(column for _, table in tables for column in table.columns))
    rows = []
    for name, table in tables:
        for row in table.rows:
            values = dict(zip(table.columns, row, strict=True))
            rows.append([name, *(values.get(column, "–") for column in columns)])
    end = 1 + (columns.index("n") if "n" in columns else 1)
    groups = grouped(rows, lambda row: tuple(row[1:end]))
    notes = dict.fromkeys(note for _, table in tables for note in table.notes)
    return Table(
        title, ["Run", *columns], [row for own in groups.values() for row in own], [*notes]
    )
