"""The report of a preflight study, in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["preflight_report"]

_COUNTS = ("tp", "fp", "fn", "tn")


_HEAD = ["questions", "check", "positives", *_COUNTS, "precision", "recall", "specificity", "F1", "skip the map", "AUC"]
_KINDS = {"ranked_below": "ranked below 3", "not_retrieved": "not retrieved", "misplaced": "both"}
_CHECKS = {"iou": "IoU", "calibrated": "calibrated"}


def preflight_report(summary: Mapping[str, Any], *, figures: bool = True) -> str:
    """Return the report of a summary that `run_preflight` made, with its figures where they were drawn."""
    lines = [
        "# Preflight check",
        "",
        f"{summary['n']:,} questions, k = {summary['k']}. Positives are of two kinds: a key document ranked below 3 in "
        f"the dense ranking, which a map can repair ({summary['ranked_below']:,}), and one that was not retrieved, "
        f"which it cannot ({summary['not_retrieved']:,}); together {summary['base_rate']:.1%} of the questions. The "
        "paper counts both. Negatives are the same in all rows. Intervals of shares are Wilson's, those of areas under "
        "the ROC curve by bootstrap, at 95%.",
        "",
        *(f"> {warning}\n" for warning in summary["warnings"]),
    ]
    rows = []
    for group, counted in summary["groups"].items():
        titles = ", titles of their papers" if counted["titles"] == counted["n"] else ""
        rows += _rows(f"{group} ({counted['n']:,}{titles})", counted)
    rows += _rows(f"pooled ({summary['n']:,})" if rows else f"all ({summary['n']:,})", summary)
    lines += [*_table(_HEAD, rows), ""]
    if not _has(summary):
        lines += [f"No calibrated check: {summary['calibrated_reason']}", ""]
    elif (nested := summary["nested_cross_validation"]) is not None:
        low, high = nested["recall_range"]
        least, most = nested["specificity_range"]
        lines += [
            f"The calibrated check predicts positives of the kind: {_KINDS[summary['positive']]}. It is measured by "
            "nested cross-validation: model, regularisation and threshold are chosen without the questions that they "
            f"are tested on ({nested['folds']} folds; the table has the first of {nested['repeats']} repeats). Over "
            f"the repeats, recall of that kind is {nested['recall_mean']:.3f} ({low:.3f} to {high:.3f}) and "
            f"specificity {nested['specificity_mean']:.3f} ({least:.3f} to {most:.3f}); the area under the ROC curve "
            f"is {nested['auc']:.3f}, against {nested['iou_auc']:.3f} for the overlap, and the Brier score "
            f"{nested['brier']:.4f}.",
            "",
        ]
    else:
        lines += ["The calibrated check is the calibration given, as it stands.", ""]
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


def _rows(questions: str, counted: Mapping[str, Any]) -> list[list[str]]:
    """A row for each check and kind of positives that there are."""
    rows = []
    for check, label in _CHECKS.items():
        if (decided := counted[check]) is not None:
            for kind, words in _KINDS.items():
                counts = decided if kind == "misplaced" else decided["kinds"][kind]
                if kind == "misplaced" or counts["tp"] + counts["fn"]:
                    area = decided["auc"].get(kind)
                    shown = f"{area['auc']:.3f} ({area['low']:.3f}–{area['high']:.3f})" if area else ""
                    numbers = [str(counts[count]) for count in _COUNTS]
                    rows.append([questions, label, words, *numbers, *_shares(counts, intervals=True), shown])
    return rows


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
