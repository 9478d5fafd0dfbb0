"""Rows added up: scores with intervals, by method and condition."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from briefcontext.evaluation.experiment import Row, Table
from briefcontext.evaluation.methods import METHODS
from briefcontext.evaluation.statistics import Interval, bootstrap, wilson

__all__ = [
    "Cell",
    "answered",
    "cells",
    "cells_table",
    "conditional_methods",
    "is_choice",
    "mean_interval",
    "p_value",
    "percent",
    "score_name",
    "title_of",
    "with_interval",
]

Cell = dict[str, Any]
"""One method under one condition: n, score, interval, what went wrong, tokens."""


def answered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the model answered; those whose calls failed say nothing of a method."""
    return [row for row in rows if row["status"] == "ok"]


def is_choice(rows: Sequence[Row]) -> bool:
    """Return whether all rows are multiple choice, right or wrong."""
    return all(row["metric"] == "accuracy" for row in rows)


def score_name(rows: Sequence[Row]) -> str:
    """Return what the scores of these rows are."""
    kinds = {row["metric"] for row in answered(rows)}
    return {frozenset({"accuracy"}): "Accuracy", frozenset({"f1"}): "F1"}.get(frozenset(kinds), "Score")


def mean_interval(rows: Sequence[Row], *, seed: int) -> tuple[float, Interval]:
    """Return the mean score of rows and its 95% interval: Wilson's for shares, a bootstrap's for F1."""
    scores = [float(row["score"]) for row in rows]
    if is_choice(rows):
        return fmean(scores), wilson(round(sum(scores)), len(scores))
    return fmean(scores), bootstrap(scores, seed=seed)


def cells(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Cell]:
    """Return one cell for each method and condition, in the order of the rows.

    Args:
        rows: of items.jsonl.
        seed: for bootstraps.
        by: condition values to keep apart; none means all. Others are pooled.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        condition = {name: value for name, value in row["condition"].items() if not by or name in by}
        groups.setdefault((row["method"], tuple(condition.items())), []).append(row)
    return [_cell(method, dict(condition), some, seed) for (method, condition), some in groups.items()]


def _cell(method: str, condition: Mapping[str, Any], rows: Sequence[Row], seed: int) -> Cell:
    good = answered(rows)
    cell: Cell = {
        "method": method,
        "condition": condition,
        "n": len(good),
        "failed": len(rows) - len(good),
        "unparsed": sum(row["outcome"] == "unparsed" for row in good),
        "abstained": sum(row["outcome"] == "abstained" for row in good),
        "truncated": sum(bool(row.get("truncated")) for row in good),
    }
    if good:
        if all(row["metric"] != "none" for row in good):
            mean, interval = mean_interval(good, seed=seed)
            cell.update(score=mean, low=interval.low, high=interval.high)
        for name in ("calls", "input_tokens", "output_tokens"):
            cell[name] = fmean(row["usage"][name] for row in good)
        if all(row["metric"] == "f1" for row in good):
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
    """Write a share in per cent with its interval."""
    return "–" if value is None else f"{percent(value)} [{percent(low)}, {percent(high)}]"


def cells_table(title: str, found: Sequence[Cell]) -> Table:
    """Make a table of cells."""
    names = list(dict.fromkeys(name for cell in found for name in cell["condition"]))
    truncated = any(cell["truncated"] for cell in found)
    exact = any("exact_match" in cell for cell in found)
    rows = []
    for cell in found:
        row = [title_of(cell["method"]), *(str(cell["condition"].get(name, "any")) for name in names)]
        row += [str(cell["n"]), with_interval(cell.get("score"), cell.get("low"), cell.get("high"))]
        row += [percent(cell.get("exact_match"))] if exact else []
        row += [str(cell[name]) for name in ("unparsed", "abstained", "failed")]
        row += [str(cell["truncated"])] if truncated else []
        row += [f"{cell[name]:,.1f}" if name in cell else "–" for name in ("calls", "input_tokens", "output_tokens")]
        rows.append(row)
    columns = ["Method", *names, "n", "Score [95% CI]", *(["Exact match"] if exact else [])]
    columns += ["Unparsed", "Abstained", "Failed", *(["Truncated"] if truncated else [])]
    return Table(
        title,
        [*columns, "Calls", "Input tokens", "Output tokens"],
        rows,
        "Scores in per cent. Unparsed and abstained answers are part of n and count as wrong; questions whose calls "
        "failed are not part of n. Calls and tokens are means for one question, as the method alone would need them.",
    )
