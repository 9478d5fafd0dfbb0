"""What several raters agree on: their consensus on each pair, and kappa."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from briefcontext.errors import MissingExtraError
from briefcontext.evaluation.judging.verdicts import Verdict
from briefcontext.evaluation.statistics.inference import AUC_RESAMPLES, CONFIDENCE

try:
    from statsmodels.stats import inter_rater  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("Experiments need statsmodels: pip install 'briefcontext[experiments]'.") from error

__all__ = ["OUTCOMES", "Agreement", "agreement", "consensus", "outcomes_of"]

OUTCOMES = ("win", "tie", "lose")


@dataclass(frozen=True)
class Agreement:
    """How far raters agree beyond chance, on the pairs that all of them judged."""

    name: str
    """Cohen's kappa of two raters, Fleiss' of more."""
    raters: int
    pairs: int
    kappa: float | None
    """None where all verdicts are alike, and chance cannot be told from agreement."""
    low: float | None
    high: float | None


def consensus(outcomes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return for each pair the outcome that more than half of its raters gave; a tie where there is none.

    Args:
        outcomes: win, tie or lose by rater, by pair.
    """
    found = {}
    for pair, by_rater in outcomes.items():
        outcome, count = Counter(by_rater.values()).most_common(1)[0]
        found[pair] = outcome if 2 * count > len(by_rater) else "tie"
    return found


def agreement(outcomes: Mapping[str, Mapping[str, str]], raters: Sequence[str], *, seed: int) -> Agreement | None:
    """Return Cohen's kappa of two raters with its 95% interval, or Fleiss' of more; None where no pair has all.

    The interval of Cohen's is statsmodels'; of Fleiss', for which it has none, a percentile bootstrap over the pairs.
    """
    judged = [[OUTCOMES.index(by_rater[rater]) for rater in raters]
              for by_rater in outcomes.values() if all(rater in by_rater for rater in raters)]  # fmt: skip
    if len(raters) < 2 or not judged:
        return None
    name = "Cohen's kappa" if len(raters) == 2 else "Fleiss' kappa"
    codes = np.array(judged)
    if len(np.unique(codes)) == 1:
        return Agreement(name, len(raters), len(judged), None, None, None)
    if len(raters) == 2:
        with np.errstate(invalid="ignore"):  # where a rater's verdicts are all alike, its test divides 0 by 0
            found = inter_rater.cohens_kappa(inter_rater.to_table(codes, len(OUTCOMES))[0])
        bounds = float(found.kappa_low), float(found.kappa_upp)
        return Agreement(name, 2, len(judged), float(found.kappa), *bounds)
    counts, _ = inter_rater.aggregate_raters(codes, len(OUTCOMES))

    def kappa(places: np.ndarray) -> float:
        return float(inter_rater.fleiss_kappa(counts[places]))

    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = stats.bootstrap(
            (np.arange(len(counts)),), kappa, vectorized=False, n_resamples=AUC_RESAMPLES, method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution  # fmt: skip
    # A resample whose verdicts are all alike has no kappa.
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = (None, None) if len(counts) < 2 else map(float, np.nanquantile(resampled, ends))
    return Agreement(name, len(raters), len(judged), kappa(np.arange(len(counts))), low, high)


def outcomes_of(
    verdicts: Sequence[Verdict], key: Mapping[str, Mapping[str, str]], preferred: str
) -> dict[str, dict[str, str]]:
    """Return win, tie or lose for the preferred method, by rater, by pair of the key; a later verdict counts."""
    found: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        if verdict.pair in key:
            word = "tie" if verdict.verdict == "tie" else "lose"
            if verdict.verdict != "tie" and key[verdict.pair][verdict.verdict] == preferred:
                word = "win"
            found.setdefault(verdict.pair, {})[verdict.rater] = word
    return found
