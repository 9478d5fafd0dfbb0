"""The report of a preflight study, in Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any

from briefcontext.evaluation.statistics.tables import Table, percent, with_interval

__all__ = ["COUNTS", "decisions", "preflight_report"]

COUNTS = ("tp", "fp", "fn", "tn")

_HEAD = ["questions", "check", "positives", *COUNTS, "precision", "recall", "specificity", "F1", "skip the map", "AUC"]
_KINDS = {"ranked_below": "ranked below 3", "not_retrieved": "not retrieved", "misplaced": "both"}
_CHECKS = {"iou": "IoU", "calibrated": "Calibrated"}


def preflight_report(summary: Mapping[str, Any], *, figures: bool = True) -> str:
    """Return the report of a summary that `run_preflight` made, with its figures where they were drawn."""
    lines = [
        "# Preflight check",
        "",
        f"{summary['n']:,} questions, k = {summary['k']}. Positives are of two kinds: a key document ranked below 3 in "
        f"the dense ranking, which a map can repair ({summary['ranked_below']:,}), and one that was not retrieved, "
        f"which it cannot ({summary['not_retrieved']:,}); together {percent(summary['base_rate'])}% of the questions. "
        "The paper counts both. Negatives are the same in all rows. Shares and areas under the ROC curve are in per "
        "cent; intervals of shares are Wilson's, those of areas by bootstrap, at 95%.",
        "",
        *(f"> {warning}\n" for warning in summary["warnings"]),
    ]
    rows = []
    for group, counted in summary["groups"].items():
        titles = ", titles of their papers" if counted["titles"] == counted["n"] else ""
        rows += _rows(f"{group} ({counted['n']:,}{titles})", counted)
    rows += _rows(f"pooled ({summary['n']:,})" if rows else f"all ({summary['n']:,})", summary)
    lines += [Table("Decisions", _HEAD, rows).markdown(), ""]
    if not _has(summary):
        lines += [f"No calibrated check: {summary['calibrated_reason']}", ""]
    elif (nested := summary["nested_cross_validation"]) is not None:
        low, high = nested["recall_range"]
        least, most = nested["specificity_range"]
        lines += [
            f"The calibrated check predicts positives of the kind: {_KINDS[summary['positive']]}. It is measured by "
            "nested cross-validation: model, regularisation and threshold are chosen without the questions that they "
            f"are tested on ({nested['folds']} folds; the table has the first of {nested['repeats']} repeats). Over "
            f"the repeats, recall of that kind is {percent(nested['recall_mean'])} ({percent(low)} to {percent(high)}) "
            f"and specificity {percent(nested['specificity_mean'])} ({percent(least)} to {percent(most)}); the area "
            f"under the ROC curve is {percent(nested['auc'])}, against {percent(nested['iou_auc'])} for the overlap, "
            f"and the Brier score {nested['brier']:.4f}.",
            "",
        ]
    else:
        lines += ["The calibrated check is the calibration given, as it stands.", ""]
    if figures and _has(summary) and 0 < summary["misplaced"] < summary["n"]:
        lines += [f"![{name}]({name}.png)" for name in ("calibration_curve", "precision_recall", "cost_curve")]
        lines += [""]
    heads = ["k", "n", "threshold", "precision", "recall", "specificity", "F1", "skip the map"]
    table = [
        [str(row["k"]), str(row["n"]), f"{row['threshold']:g}", *_shares(row, intervals=False)]
        for row in summary["iou_table"]
    ]
    return "\n".join([*lines, Table("IoU check, by k, n and threshold", heads, table).markdown()]) + "\n"


def _has(summary: Mapping[str, Any]) -> bool:
    return summary["calibrated"] is not None


def decisions(counted: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, float] | None]]:
    """Yield each check and kind of positives that there are, with the counts and the area under the ROC curve."""
    for check, title in _CHECKS.items():
        if decided := counted.get(check):
            for kind, words in _KINDS.items():
                counts = decided if kind == "misplaced" else (decided.get("kinds") or {}).get(kind)
                if counts and (kind == "misplaced" or counts["tp"] + counts["fn"]):
                    yield title, words, counts, (decided.get("auc") or {}).get(kind)


def _rows(questions: str, counted: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for title, words, counts, area in decisions(counted):
        shown = with_interval(area["auc"], area["low"], area["high"]) if area else ""
        numbers = [str(counts[count]) for count in COUNTS]
        rows.append([questions, title, words, *numbers, *_shares(counts, intervals=True), shown])
    return rows


def _shares(counts: Mapping[str, Any], *, intervals: bool) -> list[str]:
    cells = []
    for name in ("precision", "recall", "specificity", "f1", "skip_share"):
        value, interval = counts[name], counts.get(f"{name}_interval")
        cells.append(with_interval(value, *interval) if intervals and interval else percent(value))
    return cells
