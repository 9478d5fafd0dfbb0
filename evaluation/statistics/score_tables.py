"""Scores with intervals, by method and condition."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from briefcontext.evaluation.methods.method import METHODS
from briefcontext.evaluation.statistics.inference import bootstrap, wilson

__all__ = [
    "SCORE_NAMES",
    "Bounds",
    "Cell",
    "Row",
    "Table",
    "answered",
    "bootstrap_bounds",
    "by_metric",
    "cells",
    "cells_table",
    "cells_tables",
    "conditional_methods",
    "is_choice",
    "p_value",
    "percent",
    "points_with_interval",
    "scored",
    "title_of",
    "titled_by_metric",
    "with_interval",
]

Row = dict[str, Any]
"""One line of items.jsonl."""

Cell = dict[str, Any]
"""One method under one condition by one metric: n, score, interval, what went wrong, tokens."""

Bounds = tuple[float | None, float | None]
"""Of an interval; None where the data cannot tell."""

SCORE_NAMES = {"accuracy": "Accuracy", "f1": "F1", "none": "Answers without a key"}
"""What tables and figures call a metric. Means are never taken over two of them."""


@dataclass(frozen=True)
class Table:
    """A table of a report."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def answered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the model answered; those whose calls failed say nothing of a method."""
    return [row for row in rows if row["status"] == "ok"]


def is_choice(rows: Sequence[Row]) -> bool:
    """Return whether all rows are multiple choice, right or wrong."""
    return all(row["metric"] == "accuracy" for row in rows)


def scored(rows: Sequence[Row]) -> list[Row]:
    """Return the answered rows of questions with a key; without one there is nothing to score an answer by."""
    return [row for row in answered(rows) if row["metric"] != "none"]


def by_metric(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each metric, in the order of `SCORE_NAMES`; also of cells, comparisons and spreads."""
    groups = {metric: [row for row in rows if row["metric"] == metric] for metric in SCORE_NAMES}
    return {metric: some for metric, some in groups.items() if some}


def titled_by_metric(title: str, rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield a table's title, the metric and its rows, for each metric; it is named where there are several."""
    groups = by_metric(rows)
    for metric, some in groups.items():
        yield f"{title}, {SCORE_NAMES[metric]}" if len(groups) > 1 else title, metric, some


def bootstrap_bounds(values: Sequence[float], *, seed: int) -> Bounds:
    """Return a bootstrap's 95% bounds of a mean; none where no value differs, and resampling cannot tell."""
    if min(values) == max(values):
        return None, None
    interval = bootstrap(values, seed=seed)
    return interval.low, interval.high


def _mean_bounds(rows: Sequence[Row], scores: Sequence[float], seed: int) -> Bounds:
    """Return the 95% bounds of a mean score: Wilson's for shares, a bootstrap's for F1."""
    if not is_choice(rows):
        return bootstrap_bounds(scores, seed=seed)
    interval = wilson(round(sum(scores)), len(scores))
    return interval.low, interval.high


def cells(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Cell]:
    """Return one cell for each metric, method and condition: metric by metric, in the order of the rows.

    Args:
        rows: of items.jsonl.
        seed: for bootstraps.
        by: condition values to keep apart; none means all. Others are pooled.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in (row for some in by_metric(rows).values() for row in some):
        condition = {name: value for name, value in row["condition"].items() if not by or name in by}
        groups.setdefault((row["metric"], row["method"], tuple(condition.items())), []).append(row)
    return [_cell(metric, method, dict(condition), some, seed) for (metric, method, condition), some in groups.items()]


def _cell(metric: str, method: str, condition: Mapping[str, Any], rows: Sequence[Row], seed: int) -> Cell:
    good = answered(rows)
    cell: Cell = {
        "metric": metric,
        "method": method,
        "condition": condition,
        "n": len(good),
        "failed": len(rows) - len(good),
        "unparsed": sum(row["outcome"] == "unparsed" for row in good),
        "abstained": sum(row["outcome"] == "abstained" for row in good),
        "truncated": sum(bool(row.get("truncated")) for row in good),
        "in_parts": sum(bool(row.get("in_parts")) for row in good),
    }
    if good:
        if metric != "none":
            scores = [float(row["score"]) for row in good]
            low, high = _mean_bounds(good, scores, seed)
            cell.update(score=fmean(scores), low=low, high=high)
        for name in ("calls", "input_tokens", "output_tokens"):
            cell[name] = fmean(row["usage"][name] for row in good)
        if metric == "f1":
            cell["exact_match"] = fmean(float(row["exact_match"]) for row in good)
    return cell


def conditional_methods(rows: Sequence[Row]) -> list[str]:
    """Return the methods that were run under conditions, in order."""
    return list(dict.fromkeys(row["method"] for row in rows if row["condition"]))


def title_of(method: str) -> str:
    """Return what tables call a method."""
    return METHODS[method].title if method in METHODS else method


def percent(share: float | None) -> str:
    """Write a share in per cent."""
    return "–" if share is None else f"{100 * share:.1f}"


def p_value(value: float) -> str:
    """Write a p-value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """Write a share in per cent with its interval, if there is one."""
    bounds = "–" if low is None and high is None else f"{percent(low)}, {percent(high)}"
    return "–" if value is None else f"{percent(value)} [{bounds}]"


def points_with_interval(difference: float, low: float | None, high: float | None) -> str:
    """Write a difference in percentage points with its interval, if there is one."""
    bounds = "–" if low is None or high is None else f"{100 * low:+.1f}, {100 * high:+.1f}"
    return f"{100 * difference:+.1f} [{bounds}]"


def cells_tables(what: str, found: Sequence[Cell]) -> list[Table]:
    """Make a table for each metric of cells: "Accuracy by position", "F1 by position"."""
    return [cells_table(f"{SCORE_NAMES[metric]} {what}", some) for metric, some in by_metric(found).items()]


def cells_table(title: str, found: Sequence[Cell]) -> Table:
    """Make a table of the cells of one metric."""
    names = list(dict.fromkeys(name for cell in found for name in cell["condition"]))
    metric = found[0]["metric"]
    extra = {
        "Truncated": "Truncated: what did not fit into the model's input window was left out of the prompt. ",
        "In parts": "In parts: the documents did not fit, and were read by map and reduce in place of one call. ",
    }
    extra = {head: note for head, note in extra.items() if any(cell[_key(head)] for cell in found)}
    exact = any("exact_match" in cell for cell in found)
    rows = []
    for cell in found:
        row = [title_of(cell["method"]), *(str(cell["condition"].get(name, "any")) for name in names)]
        row.append(str(cell["n"]))
        if metric != "none":
            row.append(with_interval(cell.get("score"), cell.get("low"), cell.get("high")))
        row += [percent(cell.get("exact_match"))] if exact else []
        row += [str(cell[name]) for name in ("unparsed", "abstained", "failed")]
        row += [str(cell[_key(head)]) for head in extra]
        row += [f"{cell[name]:,.1f}" if name in cell else "–" for name in ("calls", "input_tokens", "output_tokens")]
        rows.append(row)
    columns = ["Method", *names, "n", *([f"{SCORE_NAMES[metric]} [95% CI]"] if metric != "none" else [])]
    columns += [*(["Exact match"] if exact else []), "Unparsed", "Abstained", "Failed", *extra]
    return Table(
        title,
        [*columns, "Calls", "Input tokens", "Output tokens"],
        rows,
        f"{_NOTES[metric]}Questions whose calls failed are not part of n. {''.join(extra.values())}"
        "Calls and tokens are means for one question, as the method alone would need them.",
    )


_NOTES = {
    "accuracy": "In per cent, with Wilson's intervals. Unparsed and abstained answers are part of n and count as "
    "wrong. ",
    "f1": "In per cent; intervals by bootstrap, and none (–) where all scores are alike and resampling cannot tell. "
    "Abstained answers are part of n and count as wrong. ",
    "none": "",
}


def _key(head: str) -> str:
    return head.lower().replace(" ", "_")
