"""The figures that the papers print, for comparison with a run's own."""

import csv
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from briefcontext.evaluation.statistics.tables import Table, grouped, title_of

NPJ = "Zhang et al., BriefContext, npj Digital Medicine 8, 239, 2025"
PREPRINT = "Zhang et al., BriefContext, arXiv 2412.15271, 2024"
OP_RAG = "Yu et al., OP-RAG, arXiv 2409.01666, 2024"
SHORT = {NPJ: "npj 2025", PREPRINT: "BriefContext preprint", OP_RAG: "OP-RAG"}
_PAPERS = {"preprint": PREPRINT, "npj": NPJ, "op-rag": OP_RAG}
_MODELS = ("GPT-3.5-turbo-0125", "Llama3.1-70B", "")
"""The model of a paper whose curve is drawn."""
_SCORES = ("accuracy, %", "F1, %", "win against vanilla, %", "tie, %", "lose, %")
_TOKENS = ("input tokens of a request, mean", "output tokens of a request, mean")


class Published(NamedTuple):
    """One figure as its paper prints it."""

    paper: str
    place: str
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

    @property
    def label(self) -> str:
        """The name of its curve in a figure."""
        model = f", {self.model}" if self.model else ""
        return f"{title_of(self.method)} ({SHORT[self.paper]}{model})"


_TEXT = (files(__package__) / "published.csv").read_text(encoding="utf-8")
PUBLISHED = tuple(
    Published(**{**row, "paper": _PAPERS[row["paper"]]})
    for row in csv.DictReader(_TEXT.splitlines())
)


def published_curves(experiment: str) -> list[Published]:
    """Return the scores and tokens of an experiment that are drawn with a run's own."""
    return [
        each
        for each in PUBLISHED
        if each.experiment == experiment
        and each.model in _MODELS
        and each.metric in (*_SCORES, *_TOKENS)
    ]


def published_tables(experiment: str) -> list[Table]:
    """Return the papers' figures of an experiment, a table for each place that prints some."""
    figures = [each for each in PUBLISHED if each.experiment == experiment]
    places = grouped(figures, lambda each: (each.paper, each.place))
    return [_table(own) for own in places.values()]


def _table(figures: Sequence[Published]) -> Table:
    described = Published._fields[3:-1]
    fields = [name for name in described if len({getattr(each, name) for each in figures}) > 1]
    across = next((name for name in ("position", "dataset", "metric") if name in fields), "")
    if fields == [across]:
        across = ""
    rows_by = [name for name in fields if name != across]

    def column(each: Published) -> str:
        return str(getattr(each, across)) if across else "value"

    columns = list(dict.fromkeys(map(column, figures)))
    rows = []
    groups = grouped(figures, lambda each: tuple(str(getattr(each, name)) for name in rows_by))
    for key, own in groups.items():
        values = {column(each): each.value for each in own}
        rows.append([*key, *(values.get(name, "–") for name in columns)])
    first = figures[0]
    same = {name: getattr(first, name) for name in described if name not in fields}
    note = "; ".join(f"k = {v}" if name == "k" else v for name, v in same.items() if v)
    heads = [f"{name} %" if across == "position" and name.isdigit() else name for name in columns]
    heads = [*(name.capitalize() for name in rows_by), *heads]
    return Table(f"{first.place} ({first.paper})", heads, rows, [note] if note else [])
