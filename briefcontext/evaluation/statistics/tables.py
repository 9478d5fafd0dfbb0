"""The rows of a run, the scores of methods in them, and tables of results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean, stdev
from typing import Any, Self, TypeVar

from briefcontext.evaluation.methods.method import METHODS
from briefcontext.evaluation.statistics.inference import bootstrap, wilson

Record = Mapping[str, Any]
"""What is known of one row of a table: an entry of a list in summary.json."""
Columns = Mapping[str, Callable[[Any], Any]]
"""The heads of columns, and what each shows of a record."""


@dataclass(frozen=True)
class Table:
    """A table of a report."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @classmethod
    def of(cls, title: str, records: Iterable[Record], columns: Columns, note: str = "") -> Self:
        """Make a row of each record."""
        return cls(
            title,
            list(columns),
            [[str(show(one)) for show in columns.values()] for one in records],
            note,
        )

    def markdown(self) -> str:
        """Return the table as Markdown, with its title and note."""
        lines = [f"### {self.title}", "", _line(self.columns), "|" + " --- |" * len(self.columns)]
        return "\n".join([*lines, *map(_line, self.rows), *(["", self.note] if self.note else [])])


def _line(values: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(value.split()).replace("|", "\\|") for value in values) + " |"


def title_of(method: str) -> str:
    """Return what tables call a method."""
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
    return {name: lambda one, name=name: one["condition"].get(name, "any") for name in names}  # type: ignore[misc]


def percent_of(name: str) -> Callable[[Record], str]:
    """Show a share in per cent; a dash where there is none."""
    return lambda one: percent(one.get(name))


def interval_of(name: str, form: str = ".1f") -> Callable[[Record], str]:
    """Show a share in per cent, or a difference in points, with its interval."""
    return lambda one: with_interval(one.get(name), one.get("low"), one.get("high"), form)


def amount_of(name: str, form: str = ",.1f") -> Callable[[Record], str]:
    """Show a number; a dash where there is none."""
    return lambda one: format(one[name], form) if name in one else "–"


def label_of(condition: Record) -> str:
    """Write a condition in one line."""
    return ", ".join(f"{name} {value}" for name, value in condition.items())


def percent(share: float | None) -> str:
    """Write a share in per cent."""
    return "–" if share is None else f"{100 * share:.1f}"


def p_value(value: float | None) -> str:
    """Write a p-value; a dash where the test has none."""
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def with_interval(
    value: float | None, low: float | None, high: float | None, form: str = ".1f"
) -> str:
    """Write a share in per cent with its interval, if there is one."""
    bounds = "–" if low is None or high is None else f"{100 * low:{form}}, {100 * high:{form}}"
    return "–" if value is None else f"{100 * value:{form}} [{bounds}]"


Row = dict[str, Any]
"""One line of items.jsonl."""

Cell = dict[str, Any]
"""One method under one condition by one metric: n, score, interval, what went wrong, tokens."""

Some = TypeVar("Some")
Key = TypeVar("Key")

SCORE_NAMES = {"accuracy": "Accuracy", "f1": "F1", "none": "Answers without a key"}
"""What tables and figures call a metric. Means are never taken over two of them."""
_BESIDE = {
    "accuracy": ("MIRAGE", "mirage", "mirage_score"),
    "f1": ("Exact match", "exact_match", "exact_match"),
}
"""What stands beside a metric: its column, and its name in cells and in rows."""


def grouped(rows: Iterable[Some], key: Callable[[Some], Key]) -> dict[Key, list[Some]]:
    """Return rows by a key, in the order in which the keys appear."""
    groups: dict[Key, list[Some]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def condition_of(row: Record, by: Sequence[str] = ()) -> tuple[tuple[str, Any], ...]:
    """Return a row's condition as a key, of which `dict` makes it again; all its values, or those of `by`."""
    return tuple((name, value) for name, value in row["condition"].items() if not by or name in by)


def answered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the model answered; those whose calls failed say nothing of a method."""
    return [row for row in rows if row["status"] == "ok"]


def reported(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of all whose calls the provider reported the tokens; where it reports none, a call has 0."""
    return [row for row in rows if all(call["input_tokens"] for call in row["calls"])]


def scored(rows: Sequence[Row]) -> list[Row]:
    """Return the answered rows of questions with a key; without one there is nothing to score an answer by."""
    return [row for row in answered(rows) if row["metric"] != "none"]


def by_metric(rows: Iterable[Record]) -> dict[str, list[Any]]:
    """Return the rows of each metric, in the order of `SCORE_NAMES`; also cells, and records of no metric together."""
    groups = grouped(rows, lambda row: row.get("metric", "none"))
    return {metric: groups[metric] for metric in SCORE_NAMES if metric in groups}


def by_method(rows: Sequence[Row], by: Sequence[str] = ()) -> Iterator[tuple[Cell, list[Row]]]:
    """Yield each metric, method and condition with its rows: metric by metric, in the order of the rows.

    `by` are the condition values to keep apart; none means all.
    """
    for metric, some in by_metric(rows).items():
        for (method, condition), own in grouped(
            some, lambda row: (row["method"], condition_of(row, by))
        ).items():
            yield {"metric": metric, "method": method, "condition": dict(condition)}, own


def titled_by_metric(title: str, rows: Iterable[Record]) -> Iterator[tuple[str, list[Any]]]:
    """Yield a table's title and its rows, for each metric, which is named where there are several."""
    groups = by_metric(rows)
    for metric, some in groups.items():
        yield f"{title}, {SCORE_NAMES[metric]}" if len(groups) > 1 else title, some


def question_means(values: Iterable[tuple[str, float]]) -> list[float]:
    """Return for each question the mean of its values: it has several at positions or in repeats."""
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
        **{
            outcome: sum(row["outcome"] == outcome for row in good)
            for outcome in ("unparsed", "abstained")
        },
        **{signal: sum(bool(row.get(signal)) for row in good) for signal in _SIGNALS},
    }
    if good:
        if metric != "none":
            scores = question_means((row["item"], float(row["score"])) for row in good)
            shares = len(scores) == len(good) and metric == "accuracy"
            low, high = (
                wilson(round(sum(scores)), len(scores)) if shares else bootstrap(scores, seed=seed)
            )
            cell.update(score=fmean(scores), low=low, high=high)
            _, name, own = _BESIDE[metric]
            cell[name] = fmean(question_means((row["item"], float(row[own])) for row in good))
        cell["calls"] = fmean(row["usage"]["calls"] for row in good)
        if told := reported(good):
            for name in ("input_tokens", "output_tokens"):
                cell[name] = fmean(row["usage"][name] for row in told)
    return cell


def repeat_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the mean of the repeats' scores and their standard deviation, by metric, method and condition.

    Also on average over the positions of the key document, where there are such.
    """
    each = [
        {**row, "condition": dict(condition)}
        for row in scored(rows)
        for condition in dict.fromkeys(
            (condition_of(row), tuple(v for v in condition_of(row) if v[0] != "position"))
        )
    ]
    found = []
    for head, some in by_method(each):
        by_repeat = grouped(some, lambda row: row.get("repeat", 0)).values()
        means = [
            fmean(question_means((row["item"], float(row["score"])) for row in own))
            for own in by_repeat
        ]
        if len(means) > 1:
            n = len({row["item"] for row in some})
            found.append(
                {**head, "n": n, "repeats": len(means), "mean": fmean(means), "sd": stdev(means)}
            )
    return found


REPEATS: Columns = {
    **METHOD,
    "Condition": lambda one: label_of(one["condition"]),
    **N,
    "Repeats": itemgetter("repeats"),
    "Mean": percent_of("mean"),
    "SD": percent_of("sd"),
}
REPEATS_NOTE = (
    "In per cent: the mean over the repeats, each sampled afresh, and the standard deviation "
    "between them. It "
    "tells how much the model's sampling matters, and nothing of how much the choice of questions does."
)


def cells_tables(what: str, found: Sequence[Cell]) -> list[Table]:
    """Make a table for each metric of cells: "Accuracy by position", "F1 by position"."""
    return [
        cells_table(f"{SCORE_NAMES[metric]} {what}", some)
        for metric, some in by_metric(found).items()
    ]


_SIGNALS = {
    "truncated": "Truncated: what did not fit into the model's input window was left out of the prompt. ",
    "in_parts": "In parts: the documents did not fit, and were read by map and reduce in place of one call; there a "
    "method is not what its name says: take a larger input window, or fewer documents. ",
}
"""What is shown where it occurs, and what it means."""
_NOTES = {
    "accuracy": "In per cent, with Wilson's intervals, and by bootstrap over questions that have several answers each. "
    "Strict: an answer that settles on no option (unparsed, abstained) is part of n and counts as "
    "wrong. MIRAGE: "
    "the same answers scored as that benchmark does it, and with it the papers' baselines: of several letters the "
    "first, and A where there is none. ",
    "f1": "In per cent; intervals by bootstrap, and none (–) where all scores are alike and resampling cannot tell. "
    "Abstained answers are part of n and count as wrong. ",
    "none": "",
}


def cells_table(title: str, found: Sequence[Cell]) -> Table:
    """Make a table of the cells of one metric."""
    metric = found[0]["metric"]
    head, name, _ = _BESIDE.get(metric, ("", "", ""))
    signals = [signal for signal in _SIGNALS if any(cell[signal] for cell in found)]
    columns: Columns = {
        **METHOD,
        **under(*(name for cell in found for name in cell["condition"])),
        **N,
        **(
            {f"{SCORE_NAMES[metric]} [95% CI]": interval_of("score"), head: percent_of(name)}
            if head
            else {}
        ),
        **{
            name.capitalize().replace("_", " "): itemgetter(name)
            for name in ("unparsed", "abstained", "failed", *signals)
        },
        "Calls": amount_of("calls"),
        "Input tokens": amount_of("input_tokens"),
        "Output tokens": amount_of("output_tokens"),
    }
    return Table.of(
        title,
        found,
        columns,
        f"{_NOTES[metric]}Unparsed, abstained and failed count answers, of which a question may "
        f"have several; failed "
        f"ones are part of no mean. {''.join(_SIGNALS[signal] for signal in signals)}"
        "Calls and tokens are means for one answer, as the method alone would need them.",
    )
