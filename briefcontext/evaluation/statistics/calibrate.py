"""Fits a calibrated preflight, and measures it on questions that it was not fitted on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, expit
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import (  # type: ignore[import-untyped]
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import Pipeline, make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import questions_sha256
from briefcontext.evaluation.statistics.labelled import LabelledQuestions
from briefcontext.knowledge.store.manifest import Manifest, timestamp
from briefcontext.retrievers.calibration import Calibration, Feature, FittedOn, Positive
from briefcontext.retrievers.rankings import SIGNALS

CONFIDENCE = 0.95
"""Confidence that the recall of new questions reaches the target."""
FOLDS = 5
REGULARISATIONS = (0.03, 0.1, 0.3, 1.0, 3.0)
MIN_OF_A_LABEL = 10
"""Fewer questions of a label than this leave folds with one or none."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Decisions(NamedTuple):
    """A probability (n,) for each question, and the questions (n,) that are sent to the map."""

    probability: Floats
    mapped: Flags


def recall_threshold(log_odds: ArrayLike, target: float) -> float:
    """Return the threshold at which the recall of new questions reaches `target`.

    With the r-th lowest of the held-out log-odds (m,) of positives as threshold, the recall of new
    ones is distributed as Beta(m - r + 1, r), a binomial tail (Wilks 1941). r is the largest that
    `CONFIDENCE` allows, or 1.
    """
    ordered = np.sort(np.asarray(log_odds, dtype=np.float64))
    ranks = np.arange(1, len(ordered) + 1)
    sure = betaincc(len(ordered) - ranks + 1, ranks, target) >= CONFIDENCE
    return float(ordered[max(0, int(np.count_nonzero(sure)) - 1)])


def fit(features: Floats, labels: Flags, target: float, seed: int = 0) -> tuple[Pipeline, float]:
    """Fit the model to raw features (n, f), and choose its threshold on held-out log-odds."""
    if not 0.5 <= target < 1:
        raise InputError(f"The target recall must be from 0.5 to below 1, got {target:g}.")
    fewest = min(labels.sum(), (~labels).sum())
    if fewest < MIN_OF_A_LABEL:
        raise InputError(
            f"Too few labelled questions: of {len(labels)}, {labels.sum()} are positive, and "
            f"{MIN_OF_A_LABEL} of each label are needed. Label more, or use the preflight 'iou'."
        )
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": REGULARISATIONS}
    with threadpool_limits(1):  # Small fits are about ten times as fast with one thread.
        search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds).fit(features, labels)
        best = search.best_estimator_
        held_out = cross_val_predict(best, features, labels, cv=folds, method="decision_function")
    return best, recall_threshold(held_out[labels], target)


def calibrate(
    labelled: LabelledQuestions,
    manifest: Manifest,
    target: float,
    *,
    positive: Positive = "ranked_below",
    seed: int = 0,
) -> tuple[Calibration, Decisions]:
    """Fit a calibration for a knowledge base, and decide on its questions by held-out models.

    By default positive are key documents ranked below 3, and questions whose key document was not
    retrieved are left out of the fits. Raises InputError if there are too few labelled questions.
    """
    features, labels, counted = labelled.signals, labelled.misplaced, labelled.counted(positive)
    model, threshold = fit(features[counted], labels[counted], target, seed)
    scale, regression = model["standardscaler"], model["logisticregression"]
    columns = zip(SIGNALS, scale.mean_, scale.scale_, regression.coef_[0], strict=True)
    items = [question.item for question in labelled.questions]
    calibration = Calibration(
        created=timestamp(),
        encoder=manifest.encoder.name,
        encoder_revision=manifest.encoder.revision,
        k=labelled.k,
        knowledge_base=manifest.id,
        positive=positive,
        target_recall=target,
        confidence=CONFIDENCE,
        threshold=expit(threshold),
        intercept=regression.intercept_[0],
        features=[
            Feature(name=name, mean=mean, sd=sd, coefficient=weight)
            for name, mean, sd, weight in columns
        ],
        regularisation=regression.C,
        fitted_on=FittedOn(
            n=counted.sum(),
            misplaced=labels[counted].sum(),
            base_rate=labels[counted].mean(),
            sha256=questions_sha256(items),
            gold_missing=sum({*labelled.missing_gold_ids} >= {*item.gold_ids} for item in items),
            not_retrieved=(~counted).sum(),
        ),
    )
    log_odds, mapped = np.empty(len(labels)), np.empty(len(labels), dtype=bool)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for within, outside in folds.split(features, labels & counted):
        inside = within[counted[within]]
        model, threshold = fit(features[inside], labels[inside], target, seed)
        log_odds[outside] = model.decision_function(features[outside])
        mapped[outside] = log_odds[outside] >= threshold
    return calibration, Decisions(expit(log_odds), mapped)
