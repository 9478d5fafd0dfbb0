"""The rows of a run, the scores of methods in them, and tables of results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean, stdev
from typing import Any, Self, TypeVar

from briefcontext.evaluation.methods.method import METHODS
from briefcontext.evaluation.statistics.inference import bootstrap, wilson

Record = Mapping[str, Any]
"""One row of a table, as an entry of a list in summary.json."""
Columns = Mapping[str, Callable[[Any], Any]]
"""The heads of columns, each with the function that shows its value of a record."""
Row = dict[str, Any]
Cell = dict[str, Any]
"""One method under one condition by one metric: n, score, interval, counts, tokens."""
Some = TypeVar("Some")
Key = TypeVar("Key")


@dataclass(frozen=True)
class Table:
    """A table of a report."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    @classmethod
    def from_records(
        cls, title: str, records: Iterable[Record], columns: Columns, *notes: str
    ) -> Self:
        """Make a row of each record."""
        rows = [[str(show(record)) for show in columns.values()] for record in records]
        return cls(title, list(columns), rows, notes)

    def markdown(self, shown: set[str] | None = None) -> str:
        """Return Markdown with the notes that are not in `shown`, to which they are added."""
        shown = set() if shown is None else shown
        notes = [note for note in self.notes if note not in shown]
        shown.update(notes)
        lines = [f"### {self.title}", "", _line(self.columns), "|" + " --- |" * len(self.columns)]
        lines += map(_line, self.rows)
        return "\n".join([*lines, "", " ".join(notes)] if notes else lines)


def _line(values: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(value.split()).replace("|", "\\|") for value in values) + " |"


def title_of(method: str) -> str:
    """Return the name of a method in tables and figures."""
    return METHODS[method].title if method in METHODS else method


METHOD: Columns = {"Method": lambda one: title_of(one["method"])}
N: Columns = {"n": itemgetter("n")}
WIN_TIE_LOSE: Columns = {
    "Win / tie / lose": lambda one: f"{one['win']} / {one['tie']} / {one['lose']}"
}
P_VALUES: Columns = {
    "p": lambda one: p_value(one["p"]),
    "p (Holm)": lambda one: p_value(one["p_holm"]),
}


def under(*names: str) -> Columns:
    """Return a column for each value of the conditions."""

    def column(name: str) -> Callable[[Record], Any]:
        return lambda one: one["condition"].get(name, "any")

    return {name: column(name) for name in names}


def percent_of(name: str) -> Callable[[Record], str]:
    """Show a share in per cent; a dash without one."""
    return lambda one: percent(one.get(name))


def interval_of(name: str, form: str = ".1f") -> Callable[[Record], str]:
    """Show a share in per cent, or a difference in points, with its interval."""
    return lambda one: with_interval(one.get(name), one.get("low"), one.get("high"), form)


def amount_of(name: str, form: str = ",.1f") -> Callable[[Record], str]:
    """Show a number; a dash without one."""
    return lambda one: format(one[name], form) if name in one else "–"


def label_of(condition: Record) -> str:
    """Write a condition in one line."""
    return ", ".join(f"{name} {value}" for name, value in condition.items())


def percent(share: float | None) -> str:
    """Write a share in per cent."""
    return "–" if share is None else f"{100 * share:.1f}"


def p_value(value: float | None) -> str:
    """Write a p-value."""
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def with_interval(
    value: float | None, low: float | None, high: float | None, form: str = ".1f"
) -> str:
    """Write a share in per cent with its interval."""
    bounds = "–" if low is None or high is None else f"{100 * low:{form}}, {100 * high:{form}}"
    return "–" if value is None else f"{100 * value:{form}} [{bounds}]"


SCORE_NAMES = {"accuracy": "Accuracy", "f1": "F1", "none": "Answers without a key"}
"""The metrics' names in tables and figures. No mean is taken over two of them."""
_SECOND_SCORES = {
    "accuracy": ("MIRAGE", "mirage", "mirage_score"),
    "f1": ("Exact match", "exact_match", "exact_match"),
}
"""A second score for a metric: its column, and its name in cells and in rows."""


def grouped(rows: Iterable[Some], key: Callable[[Some], Key]) -> dict[Key, list[Some]]:
    """Return rows by a key, in the order in which the keys appear."""
    groups: dict[Key, list[Some]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def condition_of(row: Record, by: Sequence[str] = ()) -> tuple[tuple[str, Any], ...]:
    """Return a row's condition as a hashable key; all its values, or those named in `by`."""
    return tuple((name, value) for name, value in row["condition"].items() if not by or name in by)


def answered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose calls did not fail."""
    return [row for row in rows if row["status"] == "ok"]


def reported(rows: Sequence[Row]) -> list[Row]:
    """Return the rows for all of whose calls the provider reported tokens."""
    return [row for row in rows if all(call["input_tokens"] for call in row["calls"])]


def scored(rows: Sequence[Row]) -> list[Row]:
    """Return the answered rows of questions with a key."""
    return [row for row in answered(rows) if row["metric"] != "none"]


def by_metric(rows: Iterable[Record]) -> dict[str, list[Any]]:
    """Return the rows, cells or comparisons of each metric, in the order of `SCORE_NAMES`."""
    groups = grouped(rows, lambda row: row.get("metric", "none"))
    return {metric: groups[metric] for metric in SCORE_NAMES if metric in groups}


def by_method(rows: Sequence[Row], by: Sequence[str] = ()) -> Iterator[tuple[Cell, list[Row]]]:
    """Yield each metric, method and condition with its rows."""
    for metric, some in by_metric(rows).items():
        groups = grouped(some, lambda row: (row["method"], condition_of(row, by)))
        for (method, condition), own in groups.items():
            yield {"metric": metric, "method": method, "condition": dict(condition)}, own


def titled_by_metric(title: str, rows: Iterable[Record]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the title and the rows of each metric's table."""
    groups = by_metric(rows)
    for metric, some in groups.items():
        yield f"{title}, {SCORE_NAMES[metric]}" if len(groups) > 1 else title, some


def question_means(values: Iterable[tuple[str, float]]) -> list[float]:
    """Return the mean of each question's values: it has several at positions or in repeats."""
    return [fmean(value for _, value in some) for some in grouped(values, itemgetter(0)).values()]


def cells(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Cell]:
    """Return one cell for each metric, method and condition: see `by_method`.

    Answers that differ in other values of the condition are averaged for each question, as are
    those of repeats.
    """
    return [_cell(head, own, seed) for head, own in by_method(rows, by)]


def _cell(head: Cell, rows: Sequence[Row], seed: int) -> Cell:
    good, metric = answered(rows), head["metric"]
    cell: Cell = {
        **head,
        "n": len({row["item"] for row in good}),
        "failed": len(rows) - len(good),
        **{name: sum(row["outcome"] == name for row in good) for name in _OUTCOMES},
        **{signal: sum(bool(row.get(signal)) for row in good) for signal in _SIGNALS},
    }
    if not good:
        return cell
    if metric != "none":
        scores = question_means((row["item"], float(row["score"])) for row in good)
        shares = len(scores) == len(good) and metric == "accuracy"
        low, high = (
            wilson(round(sum(scores)), len(scores)) if shares else bootstrap(scores, seed=seed)
        )
        _, name, own = _SECOND_SCORES[metric]
        cell.update(score=fmean(scores), low=low, high=high)
        cell[name] = fmean(question_means((row["item"], float(row[own])) for row in good))
    cell["calls"] = fmean(row["usage"]["calls"] for row in good)
    with_tokens = reported(good)
    for name in ("input_tokens", "output_tokens") if with_tokens else ():
        cell[name] = fmean(row["usage"][name] for row in with_tokens)
    return cell


def repeats_table(rows: Sequence[Row]) -> tuple[list[Cell], Iterator[Table]]:
    """Return the mean and standard deviation of the repeats' scores, and their tables."""
    each = []
    for row in scored(rows):
        whole = condition_of(row)
        without_position = tuple(pair for pair in whole if pair[0] != "position")
        for condition in dict.fromkeys((whole, without_position)):
            each.append({**row, "condition": dict(condition)})
    results = []
    for head, some in by_method(each):
        means = [
            fmean(question_means((row["item"], float(row["score"])) for row in own))
            for own in grouped(some, lambda row: row.get("repeat", 0)).values()
        ]
        if len(means) > 1:
            n = len({row["item"] for row in some})
            spread = {"repeats": len(means), "mean": fmean(means), "sd": stdev(means)}
            results.append({**head, "n": n, **spread})
    columns: Columns = {
        **METHOD,
        "Condition": lambda one: label_of(one["condition"]),
        **N,
        "Repeats": itemgetter("repeats"),
        "Mean": percent_of("mean"),
        "SD": percent_of("sd"),
    }
    note = "Mean and standard deviation over the repeats, in per cent; not over the questions."
    groups = titled_by_metric("Over the repeats", results)
    return results, (Table.from_records(title, some, columns, note) for title, some in groups)


_OUTCOMES = ("unparsed", "abstained")
_SIGNALS = {
    "truncated": "Truncated: text that did not fit into the model's input window was left out.",
    "in_parts": "In parts: the documents did not fit into one call and were read by map and "
    "reduce; there a method is not what its name says.",
}
"""Columns that are shown only if a count is above 0, and their notes."""
_NOTES = {
    "accuracy": "In per cent; Wilson's intervals, or a bootstrap's if a question has several "
    "answers. An answer that settles on no option (unparsed, abstained) counts as wrong. MIRAGE: "
    "the same answers by that benchmark's score, as in the papers: of several letters the first, "
    "and A without one.",
    "f1": "In per cent; bootstrap intervals, none (–) if all scores are equal. Abstained answers "
    "count as wrong.",
}
_COUNTS_NOTE = (
    "Unparsed, abstained and failed count answers; failed ones are in no mean. Calls and tokens "
    "are means for one answer."
)


def cells_tables(what: str, result: Sequence[Cell]) -> list[Table]:
    """Make a table for each metric of cells: "Accuracy by position", "F1 by position"."""
    return [
        cells_table(f"{SCORE_NAMES[metric]} {what}", some)
        for metric, some in by_metric(result).items()
    ]


def cells_table(title: str, result: Sequence[Cell]) -> Table:
    """Make a table of the cells of one metric."""
    metric = result[0]["metric"]
    signals = [signal for signal in _SIGNALS if any(cell[signal] for cell in result)]
    columns = {**METHOD, **under(*(name for cell in result for name in cell["condition"])), **N}
    if metric != "none":
        head, name, _ = _SECOND_SCORES[metric]
        columns[f"{SCORE_NAMES[metric]} [95% CI]"] = interval_of("score")
        columns[head] = percent_of(name)
    for name in (*_OUTCOMES, "failed", *signals):
        columns[name.capitalize().replace("_", " ")] = itemgetter(name)
    for name in ("calls", "input_tokens", "output_tokens"):
        columns[name.capitalize().replace("_", " ")] = amount_of(name)
    notes = [_NOTES[metric]] if metric in _NOTES else []
    notes += [_COUNTS_NOTE, *(_SIGNALS[signal] for signal in signals)]
    return Table.from_records(title, result, columns, *notes)


def pivoted(
    title: str, records: Sequence[Record], across: str, show: Callable[[Record], str], *notes: str
) -> Table:
    """Make a table with a column for each value of a condition."""
    values = list(dict.fromkeys(one["condition"].get(across, "any") for one in records))
    others = [name for one in records for name in one["condition"] if name != across]
    names = list(dict.fromkeys(others))

    def head(one: Record) -> tuple[str, ...]:
        return title_of(one["method"]), *(str(one["condition"].get(n, "any")) for n in names)

    rows = []
    for own, some in grouped(records, head).items():
        by_value = {one["condition"].get(across, "any"): show(one) for one in some}
        rows.append([*own, *(by_value.get(value, "–") for value in values)])
    return Table(title, ["Method", *names, *(f"{across} {v}" for v in values)], rows, notes)
