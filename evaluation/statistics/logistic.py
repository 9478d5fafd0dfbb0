"""Fitting the preflight's logistic regression, and choosing its threshold, without looking at what it is tested on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import (  # type: ignore[import-untyped]
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

__all__ = [
    "CONFIDENCE",
    "FOLDS",
    "Tuned",
    "folds",
    "held_out_log_odds",
    "recall_threshold",
    "tune",
]

CONFIDENCE = 0.95
"""How sure a threshold is of the recall that it is chosen for."""
FOLDS = 5
REGULARISATIONS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""C of the logistic regression, from which cross-validation chooses."""
TUNING_REPEATS = 3
"""Times that the questions are cut anew into folds to choose the threshold."""


@dataclass(frozen=True)
class Tuned:
    """A model with what cross-validation chose for it."""

    model: Pipeline
    """Steps `scale` and `regression`; `decision_function` gives log-odds (n,) for raw features (n, f)."""
    regularisation: float
    held_out: NDArray[np.float64]
    """Log-odds (n,) of its own questions, each from models that were not fitted on it."""


def folds(seed: int) -> StratifiedKFold:
    """Return the cut of questions into folds, each with its share of both labels."""
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def held_out_log_odds(
    features: NDArray[np.float64], labels: NDArray[np.bool_], regularisation: float, seed: int, repeats: int
) -> NDArray[np.float64]:
    """Return log-odds (n,) from models not fitted on the question, averaged over several cuts into folds."""
    model = _pipeline(regularisation)
    cuts = (folds(seed * TUNING_REPEATS + repeat) for repeat in range(repeats))
    found = [cross_val_predict(model, features, labels, cv=cut, method="decision_function") for cut in cuts]
    return np.asarray(np.mean(found, axis=0), dtype=np.float64)


def tune(features: NDArray[np.float64], labels: NDArray[np.bool_], seed: int) -> Tuned:
    """Choose C by the held-out log loss, and fit on all questions (n, f) with it."""
    search = GridSearchCV(
        _pipeline(1.0),
        {"regression__C": REGULARISATIONS},
        scoring="neg_log_loss",
        cv=folds(seed * TUNING_REPEATS),
        error_score="raise",
    ).fit(features, labels)
    best = float(search.best_params_["regression__C"])
    return Tuned(search.best_estimator_, best, held_out_log_odds(features, labels, best, seed, TUNING_REPEATS))


def _pipeline(regularisation: float) -> Pipeline:
    regression = LogisticRegression(C=regularisation, max_iter=1000)
    return Pipeline([("scale", StandardScaler()), ("regression", regression)])


def recall_threshold(held_out: Sequence[float] | NDArray[np.float64], target: float) -> float:
    """Return the log-odds from which on questions are mapped, so that the recall of new ones reaches `target`.

    That holds with a probability of at least `CONFIDENCE`, whatever the distribution: with the r-th lowest of the
    held-out log-odds (m,) of m misplaced questions as threshold, the recall of new ones is distributed as
    Beta(m - r + 1, r) (Wilks 1941), and r is the greatest for which it is sure enough. Where m is too small for
    any, all are mapped that are as high as the lowest: `Calibration.promised_recall` is what that is sure of.
    """
    ordered = np.sort(np.asarray(held_out, dtype=np.float64))
    ranks = np.arange(1, len(ordered) + 1)
    sure = beta.sf(target, len(ordered) - ranks + 1, ranks) >= CONFIDENCE
    return float(ordered[max(0, int(np.count_nonzero(sure)) - 1)])
