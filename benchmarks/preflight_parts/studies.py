"""What the benchmark of the preflight measures, each as rows of a table."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from preflight_parts.tried_signals import TRIED
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from briefcontext.errors import InputError
from briefcontext.evaluation.statistics.calibrate import (
    CONFIDENCE,
    calibrate,
    held_out_log_odds,
    nested_cross_validation,
    recall_threshold,
    tune,
)
from briefcontext.evaluation.statistics.inference import auc
from briefcontext.evaluation.statistics.labelled import LabelledQuestions, count_decisions
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.calibration import Calibration, Positive
from briefcontext.retrievers.rankings import (
    PREFLIGHT_IOU_THRESHOLD,
    PREFLIGHT_TOP_N,
    intersection_over_union,
    rank_by_bm25,
)
from briefcontext.retrievers.signals import SIGNALS, TwoRankings

Row = dict[str, Any]

TARGETS = (0.93, 0.95)
POSITIVES: tuple[Positive, ...] = ("ranked_below", "misplaced")
LEAST_GAIN = 0.002
"""AUC that a further signal has to bring."""
ABLATION_REPEATS = 3
ABLATION_C = 0.3
"""The same for all, so that only the signals differ."""
HALVES = 40
"""How often the questions are cut into two halves."""


def of_groups(labelled: LabelledQuestions, groups: Iterable[str]) -> LabelledQuestions:
    """Only the questions of some data sets."""
    wanted = set(groups)
    return replace(labelled, questions=[q for q in labelled.questions if q.item.group in wanted])


def nested(base: KnowledgeBase, at: dict[int, LabelledQuestions], name: str) -> list[Row]:
    """Both checks on the same questions, by what counts as positive; the calibrated one by nested cross-validation."""
    rows: list[Row] = []
    for k, labelled in at.items():
        for positive in POSITIVES:
            counted, head = labelled.counted(positive), {"positives": positive, "k": k}
            labels, overlap = labelled.misplaced[counted], labelled.iou(PREFLIGHT_TOP_N)[counted]
            decided = _flat(count_decisions(labels, overlap <= PREFLIGHT_IOU_THRESHOLD))
            interval = auc(-overlap[labels], -overlap[~labels])
            area = {"auc": float(roc_auc_score(labels, -overlap)), "auc_95": _span((interval.low, interval.high))}
            rows.append({"check": f"IoU, {name}", **head, **decided, **area})
            for target in TARGETS:
                try:
                    measured = calibrate(labelled, base.manifest, target, positive=positive)[0].measured
                except InputError as error:
                    refused = str(error).split(", and a recall")[0]
                    rows.append({"check": f"calibrated, {name}", **head, "target": target, "refused": refused})
                    continue
                rows.append(
                    {
                        "check": f"calibrated, {name}",
                        **head,
                        "target": target,
                        **_flat(measured.calibrated),
                        "auc": measured.auc,
                        "auc_95": _span(measured.auc_interval),
                        "recall_mean": measured.recall_mean,
                        "specificity_mean": measured.specificity_mean,
                    }
                )
    return rows


def selected(chosen_on: LabelledQuestions, reported_on: Mapping[str, LabelledQuestions], target: float) -> list[Row]:
    """Choose the signals on some questions, and report on others what a model of them decides by cross-validation.

    Forward selection by the held-out AUC, among all signals, for as long as one brings at least LEAST_GAIN.
    """
    every, names, best = {**SIGNALS, **TRIED}, list[str](), 0.5
    rows: list[Row] = []
    for positive in POSITIVES:
        names, best = [], 0.5
        of = chosen_on.counted(positive)
        values, labels = _values(chosen_on, list(every))[of], chosen_on.misplaced[of]
        places = {name: place for place, name in enumerate(every)}
        while len(names) < len(SIGNALS):
            found = {
                name: float(
                    roc_auc_score(
                        labels,
                        held_out_log_odds(values[:, [places[n] for n in [*names, name]]], labels, ABLATION_C, 0, 1),
                    )
                )
                for name in every
                if name not in names
            }
            name = max(found, key=lambda one: found[one])
            if found[name] < best + LEAST_GAIN:
                break
            names, best = [*names, name], found[name]
        for title, labelled in reported_on.items():
            counted = labelled.counted(positive)
            (run,) = nested_cross_validation(
                _values(labelled, names), labelled.misplaced, target, repeats=1, seed=0, counted=counted
            )
            area = float(roc_auc_score(labelled.misplaced[counted], run.probability[counted]))
            row: Row = {"positives": positive, "reported on": title, "target": target}
            row |= _flat(count_decisions(labelled.misplaced[counted], run.mapped[counted])) | {"auc": area}
            rows.append({**row, "signals": ", ".join(names)})
    return rows


def promises(labelled: LabelledQuestions, *, fits: int = 200, n: int = 600, fresh: int = 20_000) -> list[Row]:
    """Fit on simulated questions, and count how often the true recall of new ones reaches the target.

    The signals of either label are drawn from a normal distribution with the mean and covariance that they have among
    the labelled questions.
    """
    values, labels = labelled.signals, labelled.misplaced
    with_label = {label: values[labels == label] for label in (True, False)}
    moments = {label: (some.mean(axis=0), np.cov(some.T)) for label, some in with_label.items()}
    rng = np.random.default_rng(0)
    reached: dict[float, list[float]] = {target: [] for target in TARGETS}
    for fit in range(fits):
        drawn = rng.random(n) < labels.mean()
        two = [rng.multivariate_normal(*moments[label], size=n) for label in (True, False)]
        features = np.where(drawn[:, None], *two)
        tuned = tune(features, drawn, fit)
        new = tuned.model.decision_function(rng.multivariate_normal(*moments[True], size=fresh))
        for target, recalls in reached.items():
            recalls.append(float((new >= recall_threshold(tuned.held_out[drawn], target)).mean()))
    return [
        {"target": target, "fits": fits, "questions": n, "mean recall": float(np.mean(recalls)),
         "fits that reach it": float(np.mean(np.array(recalls) >= target)), "promised": CONFIDENCE}
        for target, recalls in reached.items()
    ]  # fmt: skip


def halves(labelled: LabelledQuestions) -> list[Row]:
    """Fit on one half and decide on the other, many times: does the threshold keep what it promises?"""
    labels, features = labelled.misplaced, labelled.signals
    rows: list[Row] = []
    results: dict[float, list[tuple[float, float]]] = {target: [] for target in TARGETS}
    for repeat in range(HALVES):
        first, _ = train_test_split(np.arange(len(labels)), test_size=0.5, stratify=labels, random_state=1000 + repeat)
        inside = np.isin(np.arange(len(labels)), first)
        tuned = tune(features[inside], labels[inside], repeat)
        log_odds = tuned.model.decision_function(features[~inside])
        for target in TARGETS:
            mapped = log_odds >= recall_threshold(tuned.held_out[labels[inside]], target)
            counted = count_decisions(labels[~inside], mapped)
            results[target].append((counted.recall or 0.0, counted.specificity or 0.0))
    for target, pairs in results.items():
        recalls, specificities = np.array(pairs).T
        row: Row = {"target": target, "halvings": HALVES}
        for name, values in (("recall", recalls), ("specificity", specificities)):
            row |= {name: float(values.mean()), f"{name}_sd": float(values.std(ddof=1))}
            row |= {f"{name}_p10": float(np.quantile(values, 0.1)), f"{name}_p90": float(np.quantile(values, 0.9))}
        row["recall >= 92.6%"] = float((recalls >= 0.926).mean())
        row["and specificity >= 70%"] = float(((recalls >= 0.926) & (specificities >= 0.7)).mean())
        rows.append(row)
    return rows


def ablation(sets: dict[str, LabelledQuestions]) -> list[Row]:
    """The area under the ROC curve of each signal alone, and of the model without or with it."""

    def auc(labelled: LabelledQuestions, names: Sequence[str]) -> float:
        labels = labelled.misplaced
        held_out = held_out_log_odds(_values(labelled, names), labels, ABLATION_C, 0, ABLATION_REPEATS)
        return float(roc_auc_score(labels, held_out))

    every = {**SIGNALS, **TRIED}
    whole = {name: auc(labelled, list(SIGNALS)) for name, labelled in sets.items()}
    rows: list[Row] = [{"signal": "the model", **{f"model, {name}": value for name, value in whole.items()}}]
    rows.append({"signal": "all signals", **{f"model, {name}": auc(of, list(every)) for name, of in sets.items()}})
    for signal in every:
        inside = signal in SIGNALS
        others = [name for name in SIGNALS if name != signal] if inside else [*SIGNALS, signal]
        row: Row = {"signal": signal, "in the model": "yes" if inside else ""}
        for name, labelled in sets.items():
            alone = float(roc_auc_score(labelled.misplaced, _values(labelled, [signal])[:, 0]))
            row[f"alone, {name}"] = max(alone, 1 - alone)
            brings = whole[name] - auc(labelled, others)
            row[f"brings, {name}"] = brings if inside else -brings
        rows.append(row)
    return rows


def _values(labelled: LabelledQuestions, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the signals (n, len(names)), in the model or not."""
    every = {**SIGNALS, **TRIED}
    return np.array([[every[name](question.rankings) for name in names] for question in labelled.questions])


def transfer(pairs: Sequence[tuple[str, LabelledQuestions, str, LabelledQuestions]], target: float) -> list[Row]:
    """Fit and choose the threshold on some questions, and decide on others."""
    rows = []
    for fitted_on, inside, tested_on, outside in pairs:
        tuned = tune(inside.signals, inside.misplaced, 0)
        threshold = recall_threshold(tuned.held_out[inside.misplaced], target)
        log_odds = tuned.model.decision_function(outside.signals)
        row: Row = {"fitted on": fitted_on, "misplaced": int(inside.misplaced.sum()), "tested on": tested_on}
        row |= _flat(count_decisions(outside.misplaced, log_odds >= threshold))
        row["auc"] = float(roc_auc_score(outside.misplaced, log_odds))
        rows.append(row)
    return rows


def latency(base: KnowledgeBase, questions: Sequence[str], calibration: Calibration, ks: Sequence[int]) -> list[Row]:
    """Milliseconds of the preflight, from documents that are retrieved to the decision."""
    vectors = base.encoder.encode_queries(list(questions))
    statistics = base.term_statistics
    rows = []
    for k in ks:
        found = [base.search_by_vector(vector, k) for vector in vectors]
        for name, decide in (
            ("IoU", lambda question, documents: _overlap(question, documents, statistics)),
            ("calibrated", lambda question, documents: _calibrated(question, documents, statistics, calibration)),
        ):
            decide(questions[0], found[0])
            taken, busy = [], time.process_time()
            for question, documents in zip(questions, found, strict=True):
                start = time.perf_counter()
                decide(question, documents)
                taken.append(1000 * (time.perf_counter() - start))
            busy = 1000 * (time.process_time() - busy) / len(taken)
            wall = {"median ms": float(np.median(taken)), "p95 ms": float(np.quantile(taken, 0.95))}
            rows.append({"k": k, "preflight": name, **wall, "mean CPU ms": busy})
    return rows


def shorter_map(labelled: LabelledQuestions) -> list[Row]:
    """Beyond one decision: read fewer documents in the map where the signals say that it is enough.

    Counts only questions that go to the map and whose key document was retrieved. Documents of the map are dropped
    from the end of the ranking, by the probability held out, or for all questions alike.
    """
    labels = labelled.misplaced
    (run,) = nested_cross_validation(labelled.signals, labels, 0.95, repeats=1, seed=0)
    mapped = [q for q, goes in zip(labelled.questions, run.mapped, strict=True) if goes]
    probability = run.probability[run.mapped]
    words = [_fused_order(q.rankings.dense, q.rankings.bm25) for q in mapped]
    rows = []
    for kept in (4, 8, 12):
        sure = probability < np.median(probability)
        for rule, cut, orders in (
            ("all alike, dense order", np.ones(len(mapped), bool), None),
            ("the surer half, dense order", sure, None),
            ("the less sure half, dense order", ~sure, None),
            ("all alike, dense and BM25 order", np.ones(len(mapped), bool), words),
            ("the surer half, dense and BM25 order", sure, words),
        ):
            lost = total = read = 0
            for place, question in enumerate(mapped):
                limit = kept if cut[place] else labelled.k
                read += min(limit, len(question.rankings.dense))
                if question.rank is None:
                    continue
                total += 1
                at = question.rank if orders is None else orders[place].index(question.rank - 1) + 1
                lost += at > limit
            rows.append(
                {
                    "rule": rule,
                    "documents kept": kept,
                    "questions": len(mapped),
                    "documents saved": 1 - read / (labelled.k * len(mapped)),
                    "best gold lost": lost,
                    "of": total,
                    "share lost": lost / total,
                }
            )
    return rows


def _fused_order(dense: NDArray[np.float64], bm25: NDArray[np.float64]) -> list[int]:
    places = np.argsort(np.argsort(-bm25, kind="stable"), kind="stable")
    fused = 1 / (60 + np.arange(len(dense))) + 1 / (60 + places)
    return [int(place) for place in np.argsort(-fused, kind="stable")]


def _overlap(question: str, documents: Sequence[Document], statistics: Any) -> object:
    return _agreement(rank_by_bm25(question, documents, statistics).order)


def _calibrated(question: str, documents: Sequence[Document], statistics: Any, calibration: Calibration) -> object:
    rankings = TwoRankings.of(question, documents, statistics)
    return _agreement(rankings.bm25_order), calibration.predict(rankings)


def _agreement(bm25: Sequence[int]) -> float:
    return intersection_over_union(range(min(PREFLIGHT_TOP_N, len(bm25))), bm25[:PREFLIGHT_TOP_N])


def _flat(estimate: Any) -> Row:
    row: Row = {"n": estimate.tp + estimate.fp + estimate.fn + estimate.tn, "positive": estimate.tp + estimate.fn}
    row |= {"recall": estimate.recall, "recall_95": _span(estimate.recall_interval)}
    row |= {"specificity": estimate.specificity, "specificity_95": _span(estimate.specificity_interval)}
    return {**row, "precision": estimate.precision, "skip": estimate.skip_share}


def _span(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{100 * interval[0]:.1f}-{100 * interval[1]:.1f}"
