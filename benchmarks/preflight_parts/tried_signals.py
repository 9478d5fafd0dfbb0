"""Signals that were tried and are not in the model: what others of a ranking's properties would bring.

Pure functions of two rankings, as those of `briefcontext.retrievers.signals`.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from briefcontext.retrievers.rankings import intersection_over_union
from briefcontext.retrievers.signals import SPOTLIGHT, Signal, TwoRankings

RBO_PERSISTENCE = 0.9
"""p of rank-biased overlap: the first ten ranks then hold most of the weight."""


def rank_biased_overlap(first: Sequence[int], second: Sequence[int], persistence: float = RBO_PERSISTENCE) -> float:
    """Return the rank-biased overlap of two rankings, 0 to 1, weighted to their tops (Webber et al. 2010).

    Truncated at the length of the shorter ranking and scaled so that equal rankings give 1. Two empty ones agree.
    """
    depth = min(len(first), len(second))
    if not depth:
        return 1.0
    seen_first: set[int] = set()
    seen_second: set[int] = set()
    total, weights = 0.0, 0.0
    for d in range(1, depth + 1):
        seen_first.add(first[d - 1])
        seen_second.add(second[d - 1])
        weight = persistence ** (d - 1)
        total += weight * len(seen_first & seen_second) / d
        weights += weight
    return total / weights


def _iou(n: int) -> Signal:
    def iou(rankings: TwoRankings) -> float:
        return intersection_over_union(range(min(n, len(rankings.dense))), rankings.bm25_order[:n])

    iou.__doc__ = f"Intersection over union of the two top {n}, 0 to 1 (BriefContext, equation 1)."
    return iou


def rbo(rankings: TwoRankings) -> float:
    """Rank-biased overlap of the two rankings, 0 to 1."""
    return rank_biased_overlap(range(len(rankings.dense)), rankings.bm25_order)


def kendall_tau(rankings: TwoRankings) -> float:
    """Kendall's rank correlation of the two rankings, -1 to 1; 0 for a single document."""
    places, n = rankings.bm25_places, len(rankings.dense)
    if n < 2:
        return 0.0
    later = np.sign(places[None, :] - places[:, None])[np.triu_indices(n, 1)]
    return float(later.mean())


def spearman_rho(rankings: TwoRankings) -> float:
    """Spearman's rank correlation of the two rankings, -1 to 1; 0 for a single document."""
    return _correlation(np.arange(len(rankings.dense)), rankings.bm25_places)


def score_correlation(rankings: TwoRankings) -> float:
    """Pearson's correlation of the two rankings' scores, -1 to 1; 0 where either does not vary."""
    return _correlation(rankings.dense, rankings.bm25)


def bm25_rank_of_dense_top(rankings: TwoRankings) -> float:
    """Logarithm of the rank, from 1, that BM25 gives to the first document of the dense ranking."""
    return math.log(rankings.bm25_places[0] + 1)


def dense_rank_of_bm25_top(rankings: TwoRankings) -> float:
    """Logarithm of the rank, from 1, that the dense ranking gives to BM25's first document."""
    return math.log(rankings.bm25_order[0] + 1)


def dense_top_score(rankings: TwoRankings) -> float:
    """The dense score of the first document."""
    return float(rankings.dense[0])


def dense_margin_third_fourth(rankings: TwoRankings) -> float:
    """The dense score of the third document less that of the fourth: how sharp the edge of the spotlight is."""
    last = len(rankings.dense) - 1
    return float(rankings.dense[min(SPOTLIGHT - 1, last)] - rankings.dense[min(SPOTLIGHT, last)])


def dense_entropy(rankings: TwoRankings) -> float:
    """Entropy of the dense scores, taken above the last, 0 (one document stands out) to 1 (all are alike)."""
    return _entropy(rankings.dense - rankings.dense.min())


def bm25_margin_first_second(rankings: TwoRankings) -> float:
    """BM25's best score less its second best, as a share of the best, 0 to 1."""
    best = np.sort(rankings.bm25)[::-1]
    return float((best[0] - best[min(1, len(best) - 1)]) / best[0]) if best[0] > 0 else 0.0


def bm25_entropy(rankings: TwoRankings) -> float:
    """Entropy of BM25's scores, 0 (one document has all) to 1 (all are alike)."""
    return _entropy(rankings.bm25)


def bm25_best_per_rarity(rankings: TwoRankings) -> float:
    """BM25's best score over the summed rarity of the question's terms: how well words alone can match it."""
    total = rankings.rarity.sum()
    return float(rankings.bm25.max() / total) if total > 0 else 0.0


def coverage_first(rankings: TwoRankings) -> float:
    """The share of the question's terms, weighted by rarity, that the first document holds, 0 to 1."""
    return float(rankings.coverage[0])


def query_rarity_max(rankings: TwoRankings) -> float:
    """Inverse document frequency of the question's rarest term; 0 without terms."""
    return float(rankings.rarity.max()) if len(rankings.rarity) else 0.0


def _correlation(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    a, b = first - first.mean(), second - second.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, float(a @ b) / scale)) if scale > 0 else 0.0


def _entropy(weights: NDArray[np.float64]) -> float:
    total = weights.sum()
    if total <= 0 or len(weights) < 2:
        return 1.0
    shares = weights / total
    shares = shares[shares > 0]
    return float(min(1.0, max(0.0, -(shares * np.log(shares)).sum() / math.log(len(weights)))))


TRIED: dict[str, Signal] = {
    "iou_1": _iou(1),
    "iou_3": _iou(3),
    "iou_5": _iou(5),
    "iou_8": _iou(8),
    **{
        signal.__name__: signal
        for signal in (
            rbo,
            kendall_tau,
            spearman_rho,
            score_correlation,
            bm25_rank_of_dense_top,
            dense_rank_of_bm25_top,
            dense_top_score,
            dense_margin_third_fourth,
            dense_entropy,
            bm25_margin_first_second,
            bm25_entropy,
            bm25_best_per_rarity,
            coverage_first,
            query_rarity_max,
        )
    },
}
"""Every one by its name."""
