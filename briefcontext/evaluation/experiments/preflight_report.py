"""The tables and the report of a preflight study."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from briefcontext.evaluation.statistics.tables import (
    Columns,
    Record,
    Table,
    interval_of,
    percent,
    percent_of,
    with_interval,
)

_SHARES = ("precision", "recall", "specificity")
"""Those that have an interval."""
_COUNTS = ("tp", "fp", "fn", "tn")
_N: Columns = {"n": lambda one: sum(itemgetter(*_COUNTS)(one))}
_MEANS: Columns = {"F1": percent_of("f1"), "skip the map": percent_of("skip_share")}
_KINDS = {"ranked_below": "ranked below 3", "not_retrieved": "not retrieved", "misplaced": "both"}
_CHECKS = {"iou": "IoU", "calibrated": "Calibrated"}


def decisions_table(summary: Record) -> Table:
    """Return what the checks decide of each data set and kind of positives; the summary is one of `run_preflight`."""
    groups = {
        f"{group}{' (titles of their papers)' if counted['titles'] == counted['n'] else ''}": counted
        for group, counted in summary["groups"].items()
    }
    groups["pooled" if groups else "all"] = summary
    decided = [
        {**one, "questions": group, "k": summary["k"]}
        for group, counted in groups.items()
        for one in _decided(counted)
    ]
    columns: Columns = {
        **{name: itemgetter(name) for name in ("questions", "k", "check", "positives")},
        **_N,
        **{name: itemgetter(name) for name in _COUNTS},
        **{name: _share_of(name) for name in _SHARES},
        **_MEANS,
        "AUC": interval_of("auc"),
    }
    return Table.of("Decisions", decided, columns, _calibrated(summary))


def iou_table(summary: Record) -> Table:
    """Return what the IoU check decides with other numbers of documents and thresholds."""
    columns: Columns = {
        "k": itemgetter("k"),
        "top n": itemgetter("n"),
        "threshold": lambda row: f"{row['threshold']:g}",
        **_N,
        **{name: percent_of(name) for name in _SHARES},
        **_MEANS,
    }
    return Table.of(
        "IoU check, by k, top n and threshold",
        summary["iou_table"],
        columns,
        "Positives are those of both kinds.",
    )


def _calibrated(summary: Record) -> str:
    """Say how the calibrated check was measured."""
    if summary["calibrated"] is None:
        return f"No calibrated check: {summary['calibrated_reason']}"
    if (nested := summary["nested_cross_validation"]) is None:
        return "The calibrated check is the calibration given, as it stands."
    low, high = nested["recall_range"]
    least, most = nested["specificity_range"]
    return (
        f"The calibrated check predicts positives of the kind: {_KINDS[summary['positive']]}. It is measured by "
        "nested cross-validation: model, regularisation and threshold are chosen without the "
        "questions that they "
        f"are tested on ({nested['folds']} folds; the table has the first of {nested['repeats']} repeats). Over "
        f"the repeats, recall of that kind is {percent(nested['recall_mean'])} ({percent(low)} to {percent(high)}) "
        f"and specificity {percent(nested['specificity_mean'])} ({percent(least)} to {percent(most)}); the area "
        f"under the ROC curve is {percent(nested['auc'])}, against {percent(nested['iou_auc'])} for the overlap, "
        f"and the Brier score {nested['brier']:.4f}."
    )


def preflight_report(summary: Record, tables: Sequence[Table], figures: Sequence[str]) -> str:
    """Return the report of a summary of `run_preflight` in Markdown, with its tables and the figures of these names."""
    parts = [
        "# Preflight check",
        f"Questions: {summary['n']:,}; k = {summary['k']}. Positives are of two kinds: a key document ranked below 3 "
        f"in the dense ranking, which a map can repair ({summary['ranked_below']:,}), and one that was not retrieved, "
        f"which it cannot ({summary['not_retrieved']:,}); together {percent(summary['base_rate'])}% of the questions. "
        "The paper counts both. Negatives are the same in all rows. Shares and areas under the ROC "
        "curve are in per "
        "cent; intervals of shares are Wilson's, those of areas by bootstrap, at 95%.",
        *(f"> {warning}" for warning in summary["warnings"]),
        *(table.markdown() for table in tables),
        *(f"![{name}]({name}.png)" for name in figures),
    ]
    return "\n\n".join(parts) + "\n"


def _decided(counted: Record) -> Iterator[dict[str, Any]]:
    """Yield for each check and kind of positives that there are the counts, and the area under the ROC curve."""
    for check, title in _CHECKS.items():
        if decided := counted[check]:
            for kind, words in _KINDS.items():
                counts = decided["kinds"].get(kind, decided)
                if kind == "misplaced" or counts["tp"] + counts["fn"]:
                    yield {
                        **counts,
                        "check": title,
                        "positives": words,
                        "auc": None,
                        **decided["auc"].get(kind, {}),
                    }


def _share_of(name: str) -> Callable[[Record], str]:
    """Show a share with Wilson's interval."""
    return lambda one: with_interval(one[name], *(one[f"{name}_interval"] or (None, None)))
