"""The report of a preflight study, in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["preflight_report"]

_COUNTS = ("tp", "fp", "fn", "tn")


def preflight_report(summary: Mapping[str, Any], *, figures: bool = True) -> str:
    """Return the report of a summary that `run_preflight` made, with its figures where they were drawn."""
    lines = [
        "# Preflight check",
        "",
        f"{summary['n']:,} questions, k = {summary['k']}. Positive is a misplaced key document: below rank 3 of the "
        f"dense ranking, or not retrieved. That is so for {summary['misplaced']} of them "
        f"({summary['base_rate']:.1%}). Intervals are Wilson's, at 95%.",
        "",
        *(f"> {warning}\n" for warning in summary["warnings"]),
        *_table(
            ["check", *_COUNTS, "precision", "recall", "specificity", "F1", "skip the map"],
            [_row("IoU", summary["iou"]), *([_row("calibrated", summary["calibrated"])] if _has(summary) else [])],
        ),
        "",
    ]
    if not _has(summary):
        lines += [f"No calibrated check: {summary['calibrated_reason']}", ""]
    elif (nested := summary["nested_cross_validation"]) is not None:
        low, high = nested["recall_range"]
        least, most = nested["specificity_range"]
        lines += [
            "The calibrated check is measured by nested cross-validation: model, regularisation and threshold are "
            f"chosen without the questions that they are tested on ({nested['folds']} folds; the table has the first "
            f"of {nested['repeats']} repeats). Over the repeats, recall is {nested['recall_mean']:.3f} "
            f"({low:.3f} to {high:.3f}) and specificity {nested['specificity_mean']:.3f} ({least:.3f} to {most:.3f}). "
            f"The area under the ROC curve is {nested['auc']:.3f}, against {nested['iou_auc']:.3f} for the overlap; "
            f"the Brier score is {nested['brier']:.4f}.",
            "",
        ]
    else:
        lines += ["The calibrated check is the calibration given, as it stands.", ""]
    if summary["groups"]:
        lines += ["## By data set", ""]
        rows = []
        for group, counted in summary["groups"].items():
            for name, label in (("iou", "IoU"), ("calibrated", "calibrated")):
                if counted[name] is not None:
                    rows.append(_row(f"{group} ({counted['n']:,}), {label}", counted[name]))
        lines += [*_table(["check", *_COUNTS, "precision", "recall", "specificity", "F1", "skip the map"], rows), ""]
    if figures and _has(summary) and 0 < summary["misplaced"] < summary["n"]:
        lines += [f"![{name}]({name}.png)" for name in ("calibration_curve", "precision_recall", "cost_curve")]
        lines += [""]
    lines += ["## IoU check, by k, n and threshold", ""]
    lines += _table(
        ["k", "n", "threshold", "precision", "recall", "specificity", "F1", "skip the map"],
        [
            [str(row["k"]), str(row["n"]), f"{row['threshold']:g}", *_shares(row, intervals=False)]
            for row in summary["iou_table"]
        ],
    )
    return "\n".join(lines) + "\n"


def _has(summary: Mapping[str, Any]) -> bool:
    return summary["calibrated"] is not None


def _row(name: str, counts: Mapping[str, Any]) -> list[str]:
    return [name, *(str(counts[count]) for count in _COUNTS), *_shares(counts, intervals=True)]


def _shares(counts: Mapping[str, Any], *, intervals: bool) -> list[str]:
    cells = []
    for name in ("precision", "recall", "specificity", "f1", "skip_share"):
        value, interval = counts[name], counts.get(f"{name}_interval")
        shown = "" if value is None else f"{value:.3f}"
        cells.append(f"{shown} ({interval[0]:.3f}–{interval[1]:.3f})" if intervals and shown and interval else shown)
    return cells


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]
