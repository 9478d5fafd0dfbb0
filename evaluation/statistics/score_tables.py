"""Scores with intervals, by method and condition."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
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
    "question_scores",
    "repeat_rows",
    "repeat_tables",
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
    """Return whether all rows are multiple choice, right or wrong, and none an average over several answers."""
    return all(row["metric"] == "accuracy" and float(row["score"]) in (0, 1) for row in rows)


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


def bootstrap_bounds(*groups: Sequence[float], seed: int) -> Bounds:
    """Return a bootstrap's 95% bounds of a mean, or of the groups' average, each resampled by itself.

    None where no value differs, and resampling cannot tell.
    """
    if all(min(values) == max(values) for values in groups):
        return None, None
    interval = bootstrap(*groups, seed=seed)
    return interval.low, interval.high


def question_scores(rows: Sequence[Row]) -> list[float]:
    """Return a score for each question: the mean where it has several answers, at positions or in repeats."""
    by_item: dict[str, list[float]] = {}
    for row in rows:
        by_item.setdefault(row["item"], []).append(float(row["score"]))
    return [fmean(scores) for scores in by_item.values()]


def _mean_bounds(rows: Sequence[Row], scores: Sequence[float], seed: int) -> Bounds:
    """Return the 95% bounds of a mean score: Wilson's for shares, a bootstrap's over questions for other means."""
    if len(scores) < len(rows) or not is_choice(rows):
        return bootstrap_bounds(scores, seed=seed)
    interval = wilson(round(sum(scores)), len(scores))
    return interval.low, interval.high


def cells(rows: Sequence[Row], *, seed: int, by: Sequence[str] = ()) -> list[Cell]:
    """Return one cell for each metric, method and condition: metric by metric, in the order of the rows.

    Args:
        rows: of items.jsonl.
        seed: for bootstraps.
        by: condition values to keep apart; none means all. Answers that differ in others are averaged for each
            question, as are those of repeats.
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
        "n": len({row["item"] for row in good}),
        "failed": len(rows) - len(good),
        "unparsed": sum(row["outcome"] == "unparsed" for row in good),
        "abstained": sum(row["outcome"] == "abstained" for row in good),
        "truncated": sum(bool(row.get("truncated")) for row in good),
        "in_parts": sum(bool(row.get("in_parts")) for row in good),
    }
    if good:
        if metric != "none":
            scores = question_scores(good)
            low, high = _mean_bounds(good, scores, seed)
            cell.update(score=fmean(scores), low=low, high=high)
        for name in ("calls", "input_tokens", "output_tokens"):
            cell[name] = fmean(row["usage"][name] for row in good)
        if metric == "accuracy" and all("mirage_score" in row for row in good):
            cell["mirage"] = fmean(float(row["mirage_score"]) for row in good)
        if metric == "f1":
            cell["exact_match"] = fmean(float(row["exact_match"]) for row in good)
    return cell


def conditional_methods(rows: Sequence[Row]) -> list[str]:
    """Return the methods that were run under conditions, in order."""
    return list(dict.fromkeys(row["method"] for row in rows if row["condition"]))


def repeat_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the mean of the repeats' scores and their standard deviation, by metric, method and condition.

    Also on average over the positions of the key document, where there are such.
    """
    groups: dict[tuple[Any, ...], dict[int, list[float]]] = {}
    for row in scored(rows):
        conditions = [row["condition"]]
        if "position" in row["condition"]:
            conditions.append({name: value for name, value in row["condition"].items() if name != "position"})
        for condition in conditions:
            key = (row["metric"], row["method"], tuple(condition.items()))
            groups.setdefault(key, {}).setdefault(row.get("repeat", 0), []).append(float(row["score"]))
    found = []
    for (metric, method, condition), by_repeat in groups.items():
        means = [fmean(scores) for scores in by_repeat.values()]
        if len(means) > 1:
            found.append({"metric": metric, "method": method, "condition": dict(condition), "repeats": len(means),
                          "mean": fmean(means), "sd": stdev(means)})  # fmt: skip
    return found


def repeat_tables(found: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Make a table of the repeats by each metric."""
    return [
        Table(
            heading,
            ["Method", "Condition", "Repeats", "Mean", "SD"],
            [
                [title_of(one["method"]), ", ".join(f"{name} {value}" for name, value in one["condition"].items()),
                 str(one["repeats"]), percent(one["mean"]), percent(one["sd"])]
                for one in some
            ],
            "In per cent: the mean over the repeats, each sampled afresh, and the standard deviation between them. It "
            "tells how much the model's sampling matters, and nothing of how much the choice of questions does.",
        )
        for heading, _, some in titled_by_metric("Over the repeats", [dict(one) for one in found])
    ]  # fmt: skip


def title_of(method: str) -> str:
    """Return what tables call a method."""
    return METHODS[method].title if method in METHODS else method


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
    beside = {"MIRAGE": "mirage", "Exact match": "exact_match"}
    beside = {head: name for head, name in beside.items() if any(name in cell for cell in found)}
    rows = []
    for cell in found:
        row = [title_of(cell["method"]), *(str(cell["condition"].get(name, "any")) for name in names)]
        row.append(str(cell["n"]))
        if metric != "none":
            row.append(with_interval(cell.get("score"), cell.get("low"), cell.get("high")))
        row += [percent(cell.get(name)) for name in beside.values()]
        row += [str(cell[name]) for name in ("unparsed", "abstained", "failed")]
        row += [str(cell[_key(head)]) for head in extra]
        row += [f"{cell[name]:,.1f}" if name in cell else "–" for name in ("calls", "input_tokens", "output_tokens")]
        rows.append(row)
    columns = ["Method", *names, "n", *([f"{SCORE_NAMES[metric]} [95% CI]"] if metric != "none" else [])]
    columns += [*beside, "Unparsed", "Abstained", "Failed", *extra]
    return Table(
        title,
        [*columns, "Calls", "Input tokens", "Output tokens"],
        rows,
        f"{_NOTES[metric]}Questions whose calls failed are not part of n. {''.join(extra.values())}"
        "Calls and tokens are means for one question, as the method alone would need them.",
    )


_NOTES = {
    "accuracy": "In per cent, with Wilson's intervals, and by bootstrap over questions that have several answers each. "
    "Strict: an answer that settles on no option (unparsed, abstained) is part of n and counts as wrong. MIRAGE: "
    "the same answers scored as that benchmark does it, and with it the papers' baselines: of several letters the "
    "first, and A where there is none. ",
    "f1": "In per cent; intervals by bootstrap, and none (–) where all scores are alike and resampling cannot tell. "
    "Abstained answers are part of n and count as wrong. ",
    "none": "",
}


def _key(head: str) -> str:
    return head.lower().replace(" ", "_")
