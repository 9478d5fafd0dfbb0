"""Tables of results, and how figures are written in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Self

from briefcontext.evaluation.methods.method import METHODS

__all__ = [
    "METHOD",
    "P_VALUES",
    "WIN_TIE_LOSE",
    "Columns",
    "N",
    "Record",
    "Table",
    "amount_of",
    "head_of",
    "interval_of",
    "label_of",
    "p_value",
    "percent",
    "percent_of",
    "points_with_interval",
    "title_of",
    "under",
    "win_tie_lose",
    "with_interval",
]

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
        return cls(title, list(columns), [[str(show(one)) for show in columns.values()] for one in records], note)

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
"""The column of methods."""
N: Columns = {"n": itemgetter("n")}
WIN_TIE_LOSE: Columns = {"Win / tie / lose": lambda one: win_tie_lose(one)}
P_VALUES: Columns = {"p": lambda one: p_value(one["p"]), "p (Holm)": lambda one: p_value(one["p_holm"])}


def under(*names: str) -> Columns:
    """Return a column for each value of the conditions."""
    return {name: lambda one, name=name: one["condition"].get(name, "any") for name in names}  # type: ignore[misc]


def percent_of(name: str) -> Callable[[Record], str]:
    """Show a share in per cent; a dash where there is none."""
    return lambda one: percent(one.get(name))


def interval_of(name: str) -> Callable[[Record], str]:
    """Show a share in per cent with its interval."""
    return lambda one: with_interval(one.get(name), one.get("low"), one.get("high"))


def amount_of(name: str, form: str = ",.1f") -> Callable[[Record], str]:
    """Show a number; a dash where there is none."""
    return lambda one: format(one[name], form) if name in one else "–"


def head_of(name: str) -> str:
    """Return what a column of a value is called."""
    return name.capitalize().replace("_", " ")


def label_of(condition: Record) -> str:
    """Write a condition in one line."""
    return ", ".join(f"{name} {value}" for name, value in condition.items())


def win_tie_lose(one: Record) -> str:
    """Write how often the first did better, alike and worse."""
    return f"{one['win']} / {one['tie']} / {one['lose']}"


def percent(share: float | None) -> str:
    """Write a share in per cent."""
    return "–" if share is None else f"{100 * share:.1f}"


def p_value(value: float | None) -> str:
    """Write a p-value; a dash where the test has none."""
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """Write a share in per cent with its interval, if there is one."""
    bounds = "–" if low is None and high is None else f"{percent(low)}, {percent(high)}"
    return "–" if value is None else f"{percent(value)} [{bounds}]"


def points_with_interval(difference: float, low: float | None, high: float | None) -> str:
    """Write a difference in percentage points with its interval, if there is one."""
    bounds = "–" if low is None or high is None else f"{100 * low:+.1f}, {100 * high:+.1f}"
    return f"{100 * difference:+.1f} [{bounds}]"
