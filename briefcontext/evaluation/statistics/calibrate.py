"""Fitting a calibrated preflight, a logistic regression, and measuring it on questions that it was not fitted on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, expit
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict  # type: ignore[import-untyped]
from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.statistics.inference import auc
from briefcontext.evaluation.statistics.labelled import LabelledQuestions, count_decisions
from briefcontext.knowledge.store.manifest import Manifest, timestamp
from briefcontext.retrievers.calibration import (
    Calibration,
    Feature,
    FittedOn,
    Positive,
    more_questions,
    sigmoid,
)
from briefcontext.retrievers.rankings import PREFLIGHT_IOU_THRESHOLD, PREFLIGHT_TOP_N, SIGNALS

CONFIDENCE = 0.95
"""How sure a threshold is of the recall that it is chosen for."""
FOLDS = 5
REGULARISATIONS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""C of the logistic regression, from which cross-validation chooses."""
TUNING_REPEATS = 3
"""Times that the questions are cut anew into folds to choose the threshold."""
REPEATS = 5
LEAST_OF_A_LABEL = 10
"""Fewer questions of a label than this leave folds with one or none."""


class Tuned(NamedTuple):
    """A model with what cross-validation chose for it."""

    model: Pipeline
    """Steps `scale` and `regression`; `decision_function` gives log-odds (n,) for raw features (n, f)."""
    held_out: NDArray[np.float64]
    """Log-odds (n,) of its own questions, each from models that were not fitted on it."""


def folds(seed: int) -> StratifiedKFold:
    """Return the cut of questions into folds, each with its share of both labels."""
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def tune(features: NDArray[np.float64], labels: NDArray[np.bool_], seed: int) -> Tuned:
    """Choose C by the held-out log loss, the folds' mean, and fit on all questions (n, f) with it."""
    cuts = [folds(seed * TUNING_REPEATS + repeat) for repeat in range(TUNING_REPEATS)]
    model = Pipeline(
        [("scale", StandardScaler()), ("regression", LogisticRegression(max_iter=1000))]
    )
    search = GridSearchCV(
        model, {"regression__C": REGULARISATIONS}, scoring="neg_log_loss", cv=cuts[0]
    )
    best = search.fit(features, labels).best_estimator_
    held_out = [
        cross_val_predict(best, features, labels, cv=cut, method="decision_function")
        for cut in cuts
    ]
    return Tuned(best, np.asarray(np.mean(held_out, axis=0)))


def recall_threshold(held_out: Sequence[float] | NDArray[np.float64], target: float) -> float:
    """Return the log-odds from which on questions are mapped, so that the recall of new ones reaches `target`.

    That holds with a probability of at least `CONFIDENCE`, whatever the distribution: with the r-th
    lowest of the held-out log-odds (m,) of m misplaced questions as threshold, the recall of new
    ones is distributed as Beta(m - r + 1, r) (Wilks 1941), and r is the greatest for which it is
    sure enough. Where m is too small for any, all are mapped that are as high as the lowest:
    `Calibration.promised_recall` is what that is sure of.
    """
    ordered = np.sort(np.asarray(held_out, dtype=np.float64))
    ranks = np.arange(1, len(ordered) + 1)
    sure = betaincc(len(ordered) - ranks + 1, ranks, target) >= CONFIDENCE
    return float(ordered[max(0, int(np.count_nonzero(sure)) - 1)])


class NestedRun(NamedTuple):
    """One pass of nested cross-validation: each question judged by a model, C and threshold chosen without it."""

    probability: NDArray[np.float64]
    mapped: NDArray[np.bool_]
    """What is decided for each question (n,)."""


def check_enough(
    labels: NDArray[np.bool_], target_recall: float, positive: Positive = "misplaced"
) -> None:
    """Raise InputError when the labelled questions are too few to fit on, or the target is no share."""
    if not 0.5 <= target_recall < 1:
        raise InputError(
            f"The target recall is {target_recall:g}, and must be from 0.5 to below 1, such as "
            f"0.95."
        )
    misplaced, placed = int(labels.sum()), int((~labels).sum())
    if misplaced < LEAST_OF_A_LABEL:
        what = (
            "ranked below 3"
            if positive == "ranked_below"
            else "misplaced (ranked below 3, or not retrieved)"
        )
        other = ", or count those that were not retrieved with them (--positives misplaced)"
        raise InputError(
            f"Too few labelled questions: {misplaced} of {len(labels)} have their key document "
            f"{what}, and "
            f"{LEAST_OF_A_LABEL} are needed. Label about "
            f"{more_questions(misplaced, len(labels), LEAST_OF_A_LABEL):,} "
            f"more questions{other if positive == 'ranked_below' else ''}; until then the preflight 'iou' decides."
        )
    if placed < LEAST_OF_A_LABEL:
        raise InputError(
            f"Too few labelled questions: {placed} of {len(labels)} have their key document among "
            f"the first three, and "
            f"{LEAST_OF_A_LABEL} are needed. With so few, let every question go to the map: "
            f"--route map_reduce."
        )


def nested_cross_validation(
    features: NDArray[np.float64],
    labels: NDArray[np.bool_],
    target_recall: float,
    *,
    repeats: int,
    seed: int,
    counted: NDArray[np.bool_] | None = None,
) -> list[NestedRun]:
    """Decide on each question with a model, a C and a threshold that are chosen without it, `repeats` times.

    Args:
        features, labels: raw (n, f) and (n,), True for misplaced.
        counted: which questions (n,) are fitted on; the others are decided on only. None for all.
    """
    counted = np.ones(len(labels), dtype=bool) if counted is None else counted
    runs = []
    for repeat in range(repeats):
        log_odds, mapped = np.empty(len(labels)), np.empty(len(labels), dtype=bool)
        for within, outside in folds(seed + repeat).split(features, labels & counted):
            inside = within[counted[within]]
            tuned = tune(features[inside], labels[inside], seed + repeat)
            threshold = recall_threshold(tuned.held_out[labels[inside]], target_recall)
            log_odds[outside] = tuned.model.decision_function(features[outside])
            mapped[outside] = log_odds[outside] >= threshold
        runs.append(NestedRun(expit(log_odds), mapped))
    return runs


def calibrate(
    labelled: LabelledQuestions,
    manifest: Manifest,
    target_recall: float,
    *,
    positive: Positive = "ranked_below",
    repeats: int = REPEATS,
    seed: int = 0,
) -> tuple[Calibration, list[NestedRun], dict[str, Any]]:
    """Fit a calibration for a knowledge base, and measure it by nested cross-validation.

    Args:
        manifest: of the knowledge base over which the questions are labelled.
        positive: what it is to predict. By default a key document ranked below 3, which reading in
            partitions repairs; questions whose key document was not retrieved are then neither
            fitted on nor measured.
        seed: of the folds; the same seed gives the same calibration.

    Returns:
        the calibration, the decisions of each repeat on all questions, and how well they do, by
        name.

    Raises:
        InputError: there are too few labelled questions to fit on.
    """
    labels, counted = labelled.misplaced, labelled.counted(positive)
    check_enough(labels[counted], target_recall, positive)
    features = labelled.signals
    # Threads take longer to start than such small fits take: with one thread they are some ten
    # times as fast.
    with threadpool_limits(1):
        runs = nested_cross_validation(
            features, labels, target_recall, repeats=repeats, seed=seed, counted=counted
        )
        tuned = tune(features[counted], labels[counted], seed)
    scale, regression = tuned.model["scale"], tuned.model["regression"]
    columns = zip(SIGNALS, scale.mean_, scale.scale_, regression.coef_[0], strict=True)
    threshold = recall_threshold(tuned.held_out[labels[counted]], target_recall)
    calibration = Calibration(
        created=timestamp(),
        encoder=manifest.encoder.name,
        encoder_revision=manifest.encoder.revision,
        k=labelled.k,
        knowledge_base=manifest.id,
        positive=positive,
        target_recall=target_recall,
        confidence=CONFIDENCE,
        threshold=sigmoid(threshold),
        intercept=float(regression.intercept_[0]),
        features=[
            Feature(name=name, mean=float(mean), sd=float(sd), coefficient=float(coefficient))
            for name, mean, sd, coefficient in columns
        ],
        regularisation=regression.C,
        fitted_on=FittedOn(
            n=int(counted.sum()),
            misplaced=int(labels[counted].sum()),
            base_rate=float(labels[counted].mean()),
            sha256=labelled.sha256,
            gold_missing=sum(not question.has_gold for question in labelled.questions),
            not_retrieved=int((~counted).sum()),
        ),
    )
    return calibration, runs, _measured(labelled, runs, counted, seed)


def _measured(
    labelled: LabelledQuestions, runs: Sequence[NestedRun], counted: NDArray[np.bool_], seed: int
) -> dict[str, Any]:
    """Say how well nested cross-validation decides: means over the repeats, and the least and greatest of them.

    `calibrated` and the intervals are of the first repeat, whose folds hold each question out once;
    `iou` is BriefContext's check on the same questions, `auc` the area under the curve of the
    held-out probabilities, with an interval by bootstrap over the questions of each label, and
    `brier` their mean squared error.
    """
    labels, iou = labelled.misplaced[counted], labelled.iou(PREFLIGHT_TOP_N)[counted]
    estimates = [count_decisions(labels, run.mapped[counted]) for run in runs]
    probabilities = [run.probability[counted] for run in runs]
    shares = {name: [one[name] or 0.0 for one in estimates] for name in ("recall", "specificity")}
    intervals = [
        auc(scores[labels], scores[~labels], seed=seed) for scores in (probabilities[0], -iou)
    ]
    return {
        "folds": FOLDS,
        "repeats": len(runs),
        "seed": seed,
        "calibrated": estimates[0],
        "iou": count_decisions(labels, iou <= PREFLIGHT_IOU_THRESHOLD),
        **{f"{name}_mean": float(np.mean(values)) for name, values in shares.items()},
        **{f"{name}_range": (min(values), max(values)) for name, values in shares.items()},
        "auc": float(np.mean([roc_auc_score(labels, scores) for scores in probabilities])),
        "auc_interval": intervals[0],
        "iou_auc": float(roc_auc_score(labels, -iou)),
        "iou_auc_interval": intervals[1],
        "brier": float(np.mean([np.mean((scores - labels) ** 2) for scores in probabilities])),
    }
