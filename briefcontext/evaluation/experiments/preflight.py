"""The preflight check, measured: BriefContext's overlap and a calibrated one, side by side."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, questions_sha256
from briefcontext.evaluation.experiments.corpus import Corpus
from briefcontext.evaluation.figures.plots import roc_plot
from briefcontext.evaluation.runs.folder import STUDY_ROWS, RunFolder
from briefcontext.evaluation.runs.settings import provenance, versions
from briefcontext.evaluation.statistics.calibrate import Decisions, calibrate
from briefcontext.evaluation.statistics.inference import auc, count_decisions
from briefcontext.evaluation.statistics.labelled import KINDS, LabelledQuestions, label_questions
from briefcontext.evaluation.statistics.tables import (
    Columns,
    Record,
    Table,
    interval_of,
    percent,
    percent_of,
    with_interval,
)
from briefcontext.files import json_line, sha256, write_whole
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.calibration import Calibration, Positive
from briefcontext.retrievers.ranking_retriever import DEFAULT_K
from briefcontext.retrievers.rankings import PREFLIGHT_IOU_THRESHOLD, PREFLIGHT_TOP_N

TARGET_RECALL = 0.95
KS = (8, 16, 32, 64)
N_VALUES = (1, 2, 3, 5, 8)
THRESHOLDS = (0.0, 0.2, 0.5)
"""Numbers of documents, top n and thresholds in the grid of the IoU check."""
GRID = "grid.csv"
MIN_POSITIVES = 5
"""With fewer positives than this, no area under the ROC curve is given."""
PAPER = {"tp": 426, "fp": 423, "fn": 34, "tn": 235}
"""The paper's decisions (npj Digital Medicine, text), on 1,118 questions."""
_NAMES = {"iou": "IoU", "calibrated": "Calibrated"}
_POSITIVES = {"ranked_below": "ranked below 3", "not_retrieved": "not retrieved",
              "misplaced": "both"}  # fmt: skip
_COUNTS = ("tp", "fp", "fn", "tn")
_SHARES = ("precision", "recall", "specificity")
_NOTE = (
    "tp: the key document is misplaced and the question is sent to the map. Shares and areas in "
    "per cent, with Wilson's and bootstrap intervals; no area (–) below 5 positives."
)

Flags = NDArray[np.bool_]


def run_preflight(
    kb: str,
    items: Sequence[Item],
    out: Path,
    *,
    calibration: Path | None = None,
    k: int | None = None,
    ks: Sequence[int] = KS,
    seed: int = 0,
    target_recall: float = TARGET_RECALL,
    positive: Positive = "ranked_below",
    iou_threshold: float = PREFLIGHT_IOU_THRESHOLD,
    figures: bool = True,
    progress: Callable[[int], object] = lambda done: None,
) -> dict[str, Any]:
    """Measure the preflight check on questions with gold ids, and return the summary.

    Writes rows.jsonl (one row a question), grid.csv (the IoU check at other k, n and thresholds),
    summary.json, report.md and the figure into the folder `out`. Without a calibration, the
    calibrated check is measured by nested cross-validation, to which seed, target_recall and
    positive belong. `k` is the calibration's by default, or 16; `progress` is called with the
    number of further questions done.

    Raises InputError if the calibration is for another encoder or k, no question can be labelled,
    or the folder is another run's.
    """
    Settings(iou_threshold=iou_threshold)  # Raises InputError unless it is from 0 to 1.
    given = Calibration.read(calibration) if calibration is not None else None
    k = k or (DEFAULT_K if given is None else given.k)
    folder, warnings = RunFolder(out), []
    with KnowledgeBase.open(kb) as base, folder.locked():
        if given is not None:
            warnings = [given.check(base.manifest, k), given.shortfall()]
        folder.claim(
            {
                "experiment": "preflight",
                "knowledge_base": base.manifest.id,
                "encoder": base.manifest.encoder.name,
                "items_sha256": questions_sha256(items),
                "k": k,
                "ks": list(ks),
                "iou_threshold": iou_threshold,
                "calibration": None if given is None else sha256(given.model_dump_json()),
                "target_recall": target_recall,
                "positive": positive,
                "seed": seed,
                "versions": versions(),
                "provenance": provenance(base.manifest.encoder.revision),
            }
        )
        labelled_at = label_questions(base, items, sorted({k, *ks}), progress)
        labelled, corpus = labelled_at[k], Corpus(base).fingerprint()
        decided, reason = None, None
        if given is not None:
            predictions = [given.predict(question.rankings) for question in labelled.questions]
            decided = Decisions(
                np.array([prediction.probability for prediction in predictions]),
                np.array([prediction.misplaced for prediction in predictions]),
            )
            positive = given.positive
            if given.fitted_on.sha256 == questions_sha256([q.item for q in labelled.questions]):
                warnings.append("The calibration was fitted on these very questions.")
        else:
            try:
                fitted, decided = calibrate(
                    labelled, base.manifest, target_recall, positive=positive, seed=seed
                )
                warnings.append(fitted.shortfall())
            except InputError as error:
                reason = str(error)
    result = measured(labelled, decided, iou_threshold=iou_threshold, seed=seed)
    summary: dict[str, Any] = {
        "experiment": "preflight",
        "model": None,
        "simulation": False,
        **result,
        "positive": positive,
        "calibrated_by": "nested cross-validation" if given is None else "calibration",
        "calibrated_reason": reason,
        "warnings": [*filter(None, warnings), *_warnings(labelled)],
        "knowledge_base": corpus,
        "questions_sha256": questions_sha256([q.item for q in labelled.questions]),
        "left_out": labelled.left_out,
        "missing_gold_ids": labelled.missing_gold_ids,
        "seed": seed,
    }
    write_whole(out / STUDY_ROWS, "".join(map(json_line, _rows(labelled, decided, iou_threshold))))
    write_whole(out / GRID, _grid(labelled_at, iou_threshold))
    drawn = figures and _draw(out / "roc", labelled, decided, summary)
    table = decisions_table(summary)
    summary["tables"] = [asdict(table)]
    folder.finish(_report(summary, table, drawn=drawn), summary, STUDY_ROWS)
    return summary


def measured(
    labelled: LabelledQuestions,
    decided: Decisions | None,
    *,
    iou_threshold: float = PREFLIGHT_IOU_THRESHOLD,
    seed: int,
) -> dict[str, Any]:
    """Return the decisions of both checks, in all and by data set, for `decisions_table`."""
    labels, overlap = labelled.misplaced, labelled.iou(PREFLIGHT_TOP_N)
    checks = {"iou": Decisions(-overlap, overlap <= iou_threshold)}
    if decided is not None:
        checks["calibrated"] = decided
    groups = np.array([question.item.group for question in labelled.questions])
    names = sorted(set(groups)) if len(set(groups)) > 1 else []
    every = np.ones(len(labels), dtype=bool)
    return {
        "n": len(labels),
        "misplaced": int(labels.sum()),
        **{kind: int((labelled.kinds == kind).sum()) for kind in ("ranked_below", "not_retrieved")},
        "base_rate": float(labels.mean()),
        "items": len(labels),
        "data_set": ", ".join(dict.fromkeys(map(str, groups))),
        "k": labelled.k,
        "threshold": iou_threshold,
        "calibrated": None,
        **_decided(labelled, checks, every, seed),
        "groups": {
            str(g) or "(none)": _decided(labelled, checks, groups == g, seed) for g in names
        },
    }


def _decided(
    labelled: LabelledQuestions, checks: Mapping[str, Decisions], of: Flags, seed: int
) -> dict[str, Any]:
    labels, result = labelled.misplaced, {}
    for check, (scores, mapped) in checks.items():
        kinds = {}
        for kind in KINDS:
            some = of & labelled.counted(kind)
            positives = labels[some].sum()
            kinds[kind] = count_decisions(labels[some], mapped[some])
            if MIN_POSITIVES <= positives < some.sum():
                interval = auc(scores[some & labels], scores[some & ~labels], seed=seed)
                area = float(roc_auc_score(labels[some], scores[some]))
                kinds[kind] |= {"auc": area, **interval._asdict()}
        result[check] = {**kinds["misplaced"], "kinds": kinds}
    return result


def decisions_table(summary: Record) -> Table:
    """Return the decisions of the checks by data set and kind of positives."""
    groups = {**summary["groups"], "pooled" if summary["groups"] else "all": summary}
    records = []
    for group, counted in groups.items():
        for check, name in _NAMES.items():
            for kind, counts in (counted.get(check) or {"kinds": {}})["kinds"].items():
                if kind == "misplaced" or counts["tp"] + counts["fn"]:
                    head = {"questions": group, "k": summary["k"], "check": name}
                    records.append({**head, "positives": _POSITIVES[kind], **counts})
    columns: Columns = {
        **{name: itemgetter(name) for name in ("questions", "k", "check", "positives")},
        "n": lambda one: sum(itemgetter(*_COUNTS)(one)),
        **{name: itemgetter(name) for name in _COUNTS},
        **{name: _share_of(name) for name in _SHARES},
        "F1": percent_of("f1"),
        "skip the map": percent_of("skip_share"),
        "AUC": interval_of("auc"),
    }
    return Table.from_records("Decisions", records, columns, _NOTE)


def _share_of(name: str) -> Callable[[Record], str]:
    return lambda one: with_interval(one[name], *(one[f"{name}_interval"] or (None, None)))


def calibration_report(
    labelled: LabelledQuestions, fitted: Calibration, decided: Decisions, *, seed: int
) -> str:
    """Return the report of a fit: cautions, held-out decisions, threshold and weights."""
    table = decisions_table(measured(labelled, decided, seed=seed))
    weights = sorted(fitted.features, key=lambda feature: -abs(feature.coefficient))
    lines = [*filter(None, [fitted.shortfall()]), *_warnings(labelled), table.markdown()]
    lines.append(f"\nMapped from a probability of {fitted.threshold:.4f}. Weights (log-odds):")
    return "\n".join([*lines, *(f"  {one.coefficient:+.2f}  {one.name}" for one in weights)])


def _warnings(labelled: LabelledQuestions) -> list[str]:
    named = {
        "Questions left out, without gold ids or documents": labelled.left_out,
        "Gold ids that the knowledge base does not have (not retrieved)": labelled.missing_gold_ids,
    }
    return [f"{what}: {len(ids):,} ({', '.join(ids[:10])})." for what, ids in named.items() if ids]


def _rows(
    labelled: LabelledQuestions, decided: Decisions | None, iou_threshold: float
) -> list[dict[str, Any]]:
    rows = []
    for place, question in enumerate(labelled.questions):
        item, overlap = question.item, question.iou(PREFLIGHT_TOP_N)
        row: dict[str, Any] = {"id": item.id, "group": item.group, "gold_rank": question.rank}
        row |= {"kind": question.kind, "misplaced": question.kind != "placed"}
        row |= {"iou": overlap, "iou_maps": overlap <= iou_threshold}
        if decided:
            row["probability"] = float(decided.probability[place])
            row["calibrated_maps"] = bool(decided.mapped[place])
        rows.append(row)
    return rows


def _grid(labelled_at: Mapping[int, LabelledQuestions], iou_threshold: float) -> str:
    lines = io.StringIO()
    names = ("k", "n", "threshold", *_COUNTS, *_SHARES, "f1", "skip_share")
    writer = csv.DictWriter(lines, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for k, labelled in labelled_at.items():
        for n in N_VALUES:
            overlap = labelled.iou(n)
            for threshold in sorted({*THRESHOLDS, iou_threshold}):
                counts = count_decisions(labelled.misplaced, overlap <= threshold)
                writer.writerow({"k": k, "n": n, "threshold": threshold, **counts})
    return lines.getvalue()


def _draw(
    path: Path, labelled: LabelledQuestions, decided: Decisions | None, summary: Record
) -> bool:
    labels = labelled.misplaced
    if not MIN_POSITIVES <= labels.sum() < len(labels):
        return False
    scores = {"iou": -labelled.iou(PREFLIGHT_TOP_N)}
    if decided is not None:
        scores["calibrated"] = decided.probability
    curves = {}
    for check, values in scores.items():
        false, true, _ = roc_curve(labels, values)
        counts = summary[check]
        curves[_NAMES[check]] = (false, true, (1 - counts["specificity"], counts["recall"]))
    caption = f"n = {len(labels):,} questions, {labels.sum()} misplaced"
    false = PAPER["fp"] / (PAPER["fp"] + PAPER["tn"])
    recall = PAPER["tp"] / (PAPER["tp"] + PAPER["fn"])
    roc_plot(curves, path, caption=caption, paper=(false, recall))
    return True


def _report(summary: Record, table: Table, *, drawn: bool) -> str:
    n, misplaced = summary["n"], summary["misplaced"]
    parts = [
        "# Preflight check",
        f"The key document is misplaced for {misplaced:,} of {n:,} questions, "
        f"{percent(summary['base_rate'])}% (the papers: 41.1%, 460 of 1,118): "
        f"{summary['ranked_below']:,} ranked below 3, which a map can repair, and "
        f"{summary['not_retrieved']:,} not retrieved, which it cannot.",
    ]
    for check, name in _NAMES.items():
        if counts := summary[check]:
            low_high = (counts.get("low"), counts.get("high"))
            parts.append(
                f"{name} check: recall {percent(counts['recall'])}%, specificity "
                f"{percent(counts['specificity'])}%, AUC "
                f"{with_interval(counts.get('auc'), *low_high)}; "
                f"{percent(counts['skip_share'])}% of the questions skip the map"
                f"{' (the papers: 92.6%, 35.7%, 24.1% skip)' if check == 'iou' else ''}."
            )
    by, reason = summary["calibrated_by"], summary["calibrated_reason"]
    kind = "" if summary["positive"] == "ranked_below" else " or not retrieved"
    how = f"The calibrated check predicts: ranked below 3{kind}. Measured by {by}."
    parts += [f"No calibrated check: {reason}" if reason else how]
    parts += [f"> {warning}" for warning in summary["warnings"]]
    parts += [table.markdown(), f"The IoU check at other k, n and thresholds: [{GRID}]({GRID})."]
    parts += ["![ROC curves of both checks and the papers' point](roc.png)"] if drawn else []
    return "\n\n".join(parts) + "\n"
