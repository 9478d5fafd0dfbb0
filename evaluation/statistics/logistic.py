"""Fitting the preflight's logistic regression, and choosing its threshold, without looking at what it is tested on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import (  # type: ignore[import-untyped]
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

__all__ = ["FOLDS", "Tuned", "folds", "held_out_log_odds", "recall_threshold", "tune"]

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
    """Return the log-odds at which new misplaced questions are expected to be caught with a recall of `target`.

    Two estimates from the held-out log-odds (m,) of the m misplaced questions, averaged. By order: of m + 1
    exchangeable questions the newest is as likely to fall into each gap between the others, so that the
    (m + 1)(1 - target)-th lowest is undercut with probability 1 - target; this holds for any distribution, but with
    few questions it rests on the one or two lowest. By a normal distribution's prediction interval: steadier, but
    wrong where the distribution is another. The plain quantile of the m themselves would promise too much.
    """
    ordered = np.sort(np.asarray(held_out, dtype=np.float64))
    m = len(ordered)
    place = max((m + 1) * (1 - target) - 1, 0.0)
    by_order = float(np.interp(place, np.arange(m), ordered))
    if m < 2:
        return by_order
    spread = float(ordered.std(ddof=1)) * math.sqrt(1 + 1 / m)
    by_normal = float(ordered.mean()) - float(student.ppf(target, m - 1)) * spread
    return (by_order + by_normal) / 2
