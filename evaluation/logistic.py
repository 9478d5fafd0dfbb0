"""Fitting the preflight's logistic regression, and choosing its threshold, without looking at what it is tested on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import MissingExtraError

__all__ = ["FOLDS", "LogisticModel", "fit", "held_out_log_odds", "recall_threshold", "stratified_folds", "tune"]

FOLDS = 5
REGULARISATIONS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""C of the logistic regression, from which cross-validation chooses."""
TUNING_REPEATS = 3
"""Times that the questions are cut anew into folds to choose the threshold."""


@dataclass(frozen=True)
class LogisticModel:
    """A logistic regression over standardised features."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercept: float

    def log_odds(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds (n,) for raw features (n, f)."""
        scores: NDArray[np.float64] = (features - self.mean) / self.sd @ self.coefficients + self.intercept
        return scores


@dataclass(frozen=True)
class Tuned:
    """A model with what cross-validation chose for it."""

    model: LogisticModel
    regularisation: float
    held_out: NDArray[np.float64]
    """Log-odds (n,) of its own questions, each from models that were not fitted on it."""


def fit(features: NDArray[np.float64], labels: NDArray[np.bool_], regularisation: float) -> LogisticModel:
    """Fit a model on raw features (n, f) and labels (n,); a feature that does not vary gets no weight.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("Calibrating needs scikit-learn: pip install 'briefcontext[experiments]'.") from error
    mean, sd = features.mean(axis=0), features.std(axis=0)
    sd = np.where(sd > 1e-12, sd, 1.0)
    regression = LogisticRegression(C=regularisation, max_iter=1000).fit((features - mean) / sd, labels)
    return LogisticModel(mean, sd, regression.coef_[0].astype(np.float64), float(regression.intercept_[0]))


def stratified_folds(labels: NDArray[np.bool_], folds: int, seed: int) -> NDArray[np.int64]:
    """Deal questions into folds (n,), each with its share of both labels."""
    random = np.random.default_rng(seed)
    fold = np.empty(len(labels), dtype=np.int64)
    dealt = 0
    for label in (True, False):
        places = random.permutation(np.flatnonzero(labels == label))
        fold[places] = (np.arange(len(places)) + dealt) % folds
        dealt += len(places)
    return fold


def held_out_log_odds(
    features: NDArray[np.float64], labels: NDArray[np.bool_], regularisation: float, seed: int, repeats: int
) -> NDArray[np.float64]:
    """Return log-odds (n,) from models not fitted on the question, averaged over several cuts into folds."""
    total = np.zeros(len(labels))
    for repeat in range(repeats):
        fold = stratified_folds(labels, FOLDS, seed * TUNING_REPEATS + repeat)
        for held in range(FOLDS):
            model = fit(features[fold != held], labels[fold != held], regularisation)
            total[fold == held] += model.log_odds(features[fold == held])
    return total / repeats


def tune(features: NDArray[np.float64], labels: NDArray[np.bool_], seed: int) -> Tuned:
    """Choose C by the held-out log loss, and fit on all questions with it."""
    tried = {C: held_out_log_odds(features, labels, C, seed, 1) for C in REGULARISATIONS}
    best = min(tried, key=lambda C: float(np.logaddexp(0, np.where(labels, -tried[C], tried[C])).mean()))
    held_out = held_out_log_odds(features, labels, best, seed, TUNING_REPEATS)
    return Tuned(fit(features, labels, best), best, held_out)


def recall_threshold(held_out: Sequence[float] | NDArray[np.float64], target: float) -> float:
    """Return the log-odds at which new misplaced questions are expected to be caught with a recall of `target`.

    Two estimates from the held-out log-odds (m,) of the m misplaced questions, averaged. By order: of m + 1
    exchangeable questions the newest is as likely to fall into each gap between the others, so that the
    (m + 1)(1 - target)-th lowest is undercut with probability 1 - target; this holds for any distribution, but with
    few questions it rests on the one or two lowest. By a normal distribution's prediction interval: steadier, but
    wrong where the distribution is another. The plain quantile of the m themselves would promise too much.
    """
    from scipy.stats import t as student

    ordered = np.sort(np.asarray(held_out, dtype=np.float64))
    m = len(ordered)
    place = max((m + 1) * (1 - target) - 1, 0.0)
    by_order = float(np.interp(place, np.arange(m), ordered))
    if m < 2:
        return by_order
    spread = float(ordered.std(ddof=1)) * math.sqrt(1 + 1 / m)
    by_normal = float(ordered.mean()) - float(student.ppf(target, m - 1)) * spread
    return (by_order + by_normal) / 2
