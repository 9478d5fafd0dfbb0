"""The preflight check, measured: BriefContext's overlap and a calibrated one, side by side on labelled questions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.corpus import Corpus
from briefcontext.evaluation.experiments.preflight_report import (
    decisions_table,
    iou_table,
    preflight_report,
)
from briefcontext.evaluation.figures.plots import draw_preflight
from briefcontext.evaluation.runs.folder import STUDY_ROWS, RunFolder
from briefcontext.evaluation.runs.settings import provenance, versions
from briefcontext.evaluation.statistics.calibrate import NestedRun, calibrate
from briefcontext.evaluation.statistics.inference import auc
from briefcontext.evaluation.statistics.labelled import (
    KINDS,
    LabelledQuestions,
    count_decisions,
    label_questions,
    questions_sha256,
)
from briefcontext.evaluation.statistics.tables import Record
from briefcontext.files import json_line, sha256, write_whole
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.calibration import Calibration, Positive
from briefcontext.retrievers.ranking_retriever import DEFAULT_K
from briefcontext.retrievers.rankings import PREFLIGHT_IOU_THRESHOLD, PREFLIGHT_TOP_N

TARGET_RECALL = 0.95
"""Of the nested cross-validation, where no calibration is given."""
HELD_OUT = "nested cross-validation"
WITHOUT_TITLES = "pooled, without questions that are titles"
_NAMED = {"created", "threshold", "target_recall", "positive", "confidence", "fitted_on", "k"}
"""What the summary has of a calibration that is given."""
KS = (8, 16, 32, 64)
"""Numbers of documents that the table over k goes through, unless told otherwise."""
N_VALUES = (1, 2, 3, 5, 8)
THRESHOLDS = (0.0, 0.2, 0.5)
"""What the IoU check is tabulated over beside."""

Checks = Mapping[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]
"""The scores (n,) that each check decides by, higher for the map, and what it maps (n,)."""


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
    data_set_left_out: Mapping[str, int] | None = None,
    figures: bool = True,
    progress: Callable[[int], object] = lambda done: None,
) -> dict[str, Any]:
    """Measure the preflight check on questions whose key documents are known, and return the summary.

    Writes into the folder `out` rows.jsonl (one row a question), summary.json, report.md, and the
    figures as PNG and SVG. The summary has `n`, `base_rate`, and `iou` and `calibrated` with `tp`,
    `fp`, `fn`, `tn`, `precision`, `recall`, `specificity`, `f1`, `skip_share` and intervals;
    positive is a misplaced key document, as in the paper, and a question that goes to the map.
    Under `kinds` stand the same for each kind of positive by itself: ranked below 3, which a map
    can repair, and not retrieved, which it cannot; under `auc` the areas under the ROC curve. With
    a calibration, `calibrated` is what that fixed model decides. Without one, it is what models
    decide that were fitted on other folds of these very questions, or None with
    `calibrated_reason`.

    The folder is taken as a run's is: not that of another run, or of other settings. The same study
    writes it anew.

    Args:
        kb: a knowledge base's folder, or `demo`.
        items: those without gold ids are left out, and counted.
        k: documents retrieved for the two checks, by default the calibration's, or 16; n is the
            settings' default.
        ks, iou_threshold: what the IoU check is tabulated over, and decides by.
        seed, target_recall, positive: of the nested cross-validation; what it is fitted to predict.
        data_set_left_out: why questions of the data set are not among the items, and how many.
        progress: called with how many more questions are done.

    Raises:
        InputError: the calibration is for another encoder or k; no question can be labelled; or the
            folder is another run's.
        KnowledgeBaseError: the knowledge base cannot be opened.
        MissingExtraError: matplotlib is not installed.
    """
    Settings(iou_threshold=iou_threshold)  # It is from 0 to 1, or is refused.
    given = Calibration.read(calibration) if calibration is not None else None
    if k is None:
        k = DEFAULT_K if given is None else given.k
    folder = RunFolder(out)
    with KnowledgeBase.open(kb) as base, folder.locked():
        caution = given.check(base.manifest, k) if given is not None else None
        folder.claim(
            {
                "experiment": "preflight",
                "knowledge_base": base.manifest.id,
                "encoder": base.manifest.encoder.name,
                "items_sha256": questions_sha256(items),
                "k": k,
                "ks": list(ks),
                "n_values": list(N_VALUES),
                "thresholds": list(THRESHOLDS),
                "iou_threshold": iou_threshold,
                "calibration": None if given is None else sha256(given.model_dump_json()),
                "target_recall": target_recall,
                "positive": positive,
                "seed": seed,
                "versions": versions(),
                "provenance": provenance(base.manifest.encoder.revision),
            }
        )
        at = label_questions(base, items, sorted({k, *ks}), progress)
        labelled, knowledge_base = at[k], Corpus(base).fingerprint()
        reason, shortfall, run, nested = None, None, None, None
        if given is not None:
            predictions = [given.predict(question.rankings) for question in labelled.questions]
            probability = np.array([prediction.probability for prediction in predictions])
            run = NestedRun(
                probability, np.array([prediction.misplaced for prediction in predictions])
            )
            positive, shortfall = given.positive, given.shortfall()
        else:
            try:
                fitted, (run, *_), nested = calibrate(
                    labelled, base.manifest, target_recall, positive=positive, seed=seed
                )
                shortfall = fitted.shortfall()
            except InputError as error:
                reason = str(error)
    summary: dict[str, Any] = {
        "experiment": "preflight",
        "model": None,
        "simulation": False,
        **measured(
            labelled, run, nested, positive=positive, iou_threshold=iou_threshold, seed=seed
        ),
        "calibrated_by": HELD_OUT if given is None else "calibration",
        "calibrated_reason": reason,
        "calibration": given and given.model_dump(mode="json", include=_NAMED),
        "warnings": warnings_of(labelled, [caution, shortfall], data_set_left_out or {}, given),
        "knowledge_base": knowledge_base,
        "questions_sha256": labelled.sha256,
        "left_out": labelled.left_out,
        "data_set_left_out": dict(data_set_left_out or {}),
        "missing_gold_ids": labelled.missing_gold_ids,
        "seed": seed,
        "iou_table": [
            {
                "k": at_k,
                "n": n,
                "threshold": threshold,
                **count_decisions(some.misplaced, some.iou(n) <= threshold),
            }
            for at_k, some in at.items()
            for n in N_VALUES
            for threshold in sorted({*THRESHOLDS, iou_threshold})
        ],
    }
    labels = labelled.misplaced
    write_whole(out / STUDY_ROWS, "".join(map(json_line, _rows(labelled, run, iou_threshold))))
    of = labelled.counted(positive)
    drawn: list[str] = []
    if figures and run is not None and 0 < labels[of].sum() < of.sum():
        held_out = HELD_OUT if given is None else "by the calibration given"
        overlap = labelled.iou(PREFLIGHT_TOP_N) <= iou_threshold
        counts = [count_decisions(labels[of], mapped[of]) for mapped in (run.mapped, overlap)]
        drawn = draw_preflight(
            out, labels[of], run.probability[of], *counts, positive=positive, held_out=held_out
        )
    tables = [decisions_table(summary), iou_table(summary)]
    summary["tables"] = list(map(asdict, tables))
    folder.finish(preflight_report(summary, tables, drawn), summary, STUDY_ROWS)
    return summary


def measured(
    labelled: LabelledQuestions,
    run: NestedRun | None,
    nested: Record | None,
    *,
    positive: Positive,
    iou_threshold: float = PREFLIGHT_IOU_THRESHOLD,
    seed: int,
) -> dict[str, Any]:
    """Return the part of the summary that `decisions_table` shows: what both checks decide, in all and by data set.

    `run` is what a calibrated check decides, if there is one, and `nested` how its kind is measured
    over the repeats.
    """
    labels, overlap = labelled.misplaced, labelled.iou(PREFLIGHT_TOP_N)
    checks: Checks = {
        "iou": (-overlap, overlap <= iou_threshold),
        **({} if run is None else {"calibrated": run}),
    }
    decided = _decided(labelled, checks, np.ones(len(labels), dtype=bool), seed)
    return {
        "n": len(labels),
        "misplaced": int(labels.sum()),
        **{kind: int((labelled.kinds == kind).sum()) for kind in ("ranked_below", "not_retrieved")},
        "positive": positive,
        "base_rate": float(labels.mean()),
        "items": len(labels),
        "data_set": ", ".join(
            dict.fromkeys(question.item.group for question in labelled.questions)
        ),
        "k": labelled.k,
        "iou": {"n": PREFLIGHT_TOP_N, "threshold": iou_threshold, **decided["iou"]},
        "calibrated": decided["calibrated"],
        "nested_cross_validation": nested,
        "groups": _groups(labelled, checks, seed),
    }


def warnings_of(
    labelled: LabelledQuestions,
    cautions: Sequence[str | None],
    left_out: Mapping[str, int],
    calibration: Calibration | None = None,
) -> list[str]:
    """Say what makes the figures less than they seem, and which questions are not among them."""
    warnings = [caution for caution in cautions if caution]
    warnings += [
        f"Questions left out as the data set was read, {why}: {count}."
        for why, count in left_out.items()
    ]
    if calibration is not None and calibration.fitted_on.sha256 == labelled.sha256:
        warnings.append(
            "The calibration was fitted on these very questions, so that its figures here are "
            "better than it is: give "
            "others, or leave the calibration out for nested cross-validation."
        )
    if labelled.left_out:
        warnings.append(
            f"Questions left out, without gold ids or documents: {_listed(labelled.left_out)}."
        )
    if missing := labelled.missing_gold_ids:
        without = sum(not question.has_gold for question in labelled.questions)
        warnings.append(
            f"Gold ids that the knowledge base does not hold: {_listed(missing)}. Questions with "
            f"no gold id that it "
            f"holds: {without}; they count as not retrieved."
        )
    if labelled.titled.any() and not labelled.titled.all():
        warnings.append(
            "Questions worded as the title of their key paper, which makes it easy to retrieve: "
            f"{int(labelled.titled.sum())}. Pooled figures with them say little of other "
            f"questions: see those by data "
            "set, and those pooled without them."
        )
    return warnings


def _listed(ids: Sequence[str], most: int = 10) -> str:
    more = f" and {len(ids) - most:,} more" if len(ids) > most else ""
    return f"{len(ids):,} ({', '.join(ids[:most])}{more})"


def _rows(
    labelled: LabelledQuestions, run: NestedRun | None, iou_threshold: float
) -> list[dict[str, Any]]:
    return [
        {
            "id": question.item.id,
            "group": question.item.group,
            "gold_rank": question.rank,
            "kind": question.kind,
            "is_title": question.is_title,
            "misplaced": question.misplaced,
            "iou": (overlap := question.iou(PREFLIGHT_TOP_N)),
            "iou_maps": overlap <= iou_threshold,
            "probability": float(run.probability[place]) if run else None,
            "calibrated_maps": bool(run.mapped[place]) if run else None,
        }
        for place, question in enumerate(labelled.questions)
    ]


def _decided(
    labelled: LabelledQuestions, checks: Checks, of: NDArray[np.bool_], seed: int
) -> dict[str, Any]:
    """Count each check's decisions on some questions: over both kinds of positives, and for each kind."""
    labels, found = labelled.misplaced, dict[str, Any](calibrated=None)
    for check, (scores, mapped) in checks.items():
        kinds, areas = {}, {}
        for kind in KINDS:
            some = of & labelled.counted(kind)
            kinds[kind] = count_decisions(labels[some], mapped[some])
            if 0 < labels[some].sum() < some.sum():
                interval = auc(scores[some & labels], scores[some & ~labels], seed=seed)
                areas[kind] = {
                    "auc": float(roc_auc_score(labels[some], scores[some])),
                    **interval._asdict(),
                }
        found[check] = {**kinds.pop("misplaced"), "kinds": kinds, "auc": areas}
    return found


def _groups(labelled: LabelledQuestions, checks: Checks, seed: int) -> dict[str, Any]:
    """The same counts for each data set, where there are several, and pooled without questions that are titles."""
    groups = np.array([question.item.group for question in labelled.questions])
    if len(set(groups)) < 2:
        return {}
    parts = {str(group) or "(none)": groups == group for group in sorted(set(groups))}
    if 0 < labelled.titled.sum() < len(groups) and len(set(groups[~labelled.titled])) > 1:
        parts[WITHOUT_TITLES] = ~labelled.titled
    return {
        name: {
            "n": int(of.sum()),
            "titles": int(labelled.titled[of].sum()),
            **_decided(labelled, checks, of, seed),
        }
        for name, of in parts.items()
    }
