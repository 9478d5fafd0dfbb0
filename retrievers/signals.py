"""Signals of where the key document stands: pure functions of two rankings of the same documents.

All of them are computed from what the preflight check has at hand: the k documents with the dense ranking's scores,
BM25's scores of the same documents, and which terms of the question each document holds. None asks a model, and
`measure` takes a few milliseconds. Where fewer than four documents were retrieved, "the rest" below the top three is
the last document.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import InputError
from briefcontext.knowledge.bm25_index import TermStatistics
from briefcontext.retrievers.bm25 import BM25Pool
from briefcontext.retrievers.consistency import intersection_over_union

__all__ = ["MODEL_SIGNALS", "SIGNALS", "SPOTLIGHT", "Signal", "TwoRankings", "measure", "rank_biased_overlap"]

SPOTLIGHT = 3
"""A key document at this rank or better is found by a reader (BriefContext: its label for the preflight check)."""
RBO_PERSISTENCE = 0.9
"""p of rank-biased overlap: the first ten ranks then hold most of the weight."""


@dataclass(frozen=True)
class TwoRankings:
    """The n documents retrieved for a question, in the dense ranking's order, as both rankings score them."""

    dense: NDArray[np.float64]
    """The dense ranking's scores (n,), best first."""
    bm25: NDArray[np.float64]
    """BM25's scores (n,) of the same documents, in the same order."""
    rarity: NDArray[np.float64]
    """Inverse document frequency (t,) of each distinct term of the question."""
    holds: NDArray[np.bool_]
    """Whether a document holds a term (n, t)."""

    @classmethod
    def of(cls, query: str, documents: Sequence[Document], statistics: TermStatistics | None = None) -> Self:
        """Score documents, given in the dense ranking's order with `score` in their metadata, by BM25 as well.

        `statistics` as in `rank_by_bm25`. Raises InputError when there is no document, or one has no score.
        """
        if not documents:
            raise InputError("There are no documents to measure: retrieve some first.")
        pool = BM25Pool(documents, statistics)
        holds, rarity = pool.coverage(query)
        try:
            dense = np.array([document.metadata["score"] for document in documents], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "A retrieved document has no score, and a calibrated preflight needs one for each: "
                "use a retriever of BriefContext's, or the preflight 'iou'."
            ) from None
        return cls(dense=dense, bm25=np.array(pool.scores(query)), rarity=rarity, holds=holds)

    @cached_property
    def bm25_order(self) -> list[int]:
        """Places in the dense ranking, from 0, in BM25's order; equal scores keep the dense order."""
        return [int(place) for place in np.argsort(-self.bm25, kind="stable")]

    @cached_property
    def bm25_places(self) -> NDArray[np.int64]:
        """For each document (n,), its place in BM25's ranking, from 0."""
        return np.argsort(np.array(self.bm25_order), kind="stable")

    @cached_property
    def coverage(self) -> NDArray[np.float64]:
        """The share (n,) of the question's terms, weighted by rarity, that each document holds, 0 to 1."""
        total = self.rarity.sum()
        return self.holds @ self.rarity / total if total > 0 else np.zeros(len(self.dense))

    @property
    def rest(self) -> slice:
        """The documents below the spotlight; the last one where there are none."""
        return slice(min(SPOTLIGHT, len(self.dense) - 1), None)


Signal = Callable[[TwoRankings], float]


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


def dense_margin_first_second(rankings: TwoRankings) -> float:
    """The dense score of the first document less that of the second."""
    return float(rankings.dense[0] - rankings.dense[min(1, len(rankings.dense) - 1)])


def dense_margin_third_fourth(rankings: TwoRankings) -> float:
    """The dense score of the third document less that of the fourth: how sharp the edge of the spotlight is."""
    last = len(rankings.dense) - 1
    return float(rankings.dense[min(SPOTLIGHT - 1, last)] - rankings.dense[min(SPOTLIGHT, last)])


def dense_top_over_rest(rankings: TwoRankings) -> float:
    """The dense score of the first document less the mean of those below the third."""
    return float(rankings.dense[0] - rankings.dense[rankings.rest].mean())


def dense_third_over_last(rankings: TwoRankings) -> float:
    """The dense score of the third document less that of the last."""
    return float(rankings.dense[min(SPOTLIGHT, len(rankings.dense)) - 1] - rankings.dense[-1])


def dense_entropy(rankings: TwoRankings) -> float:
    """Entropy of the dense scores, taken above the last, 0 (one document stands out) to 1 (all are alike)."""
    return _entropy(rankings.dense - rankings.dense.min())


def bm25_margin_first_second(rankings: TwoRankings) -> float:
    """BM25's best score less its second best, as a share of the best, 0 to 1."""
    best = np.sort(rankings.bm25)[::-1]
    return float((best[0] - best[min(1, len(best) - 1)]) / best[0]) if best[0] > 0 else 0.0


def bm25_rest_over_top(rankings: TwoRankings) -> float:
    """BM25's best score below the dense top three less its best among them, as a share of the best, -1 to 1."""
    best = rankings.bm25.max()
    return float((rankings.bm25[rankings.rest].max() - rankings.bm25[:SPOTLIGHT].max()) / best) if best > 0 else 0.0


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


def coverage_top(rankings: TwoRankings) -> float:
    """The best such share among the dense top three: words of the question that no spotlight document holds."""
    return float(rankings.coverage[:SPOTLIGHT].max())


def coverage_rest_over_top(rankings: TwoRankings) -> float:
    """The best such share below the dense top three less the best among them, -1 to 1."""
    return float(rankings.coverage[rankings.rest].max() - rankings.coverage[:SPOTLIGHT].max())


def query_terms(rankings: TwoRankings) -> float:
    """Logarithm of one plus the number of distinct terms in the question."""
    return math.log1p(len(rankings.rarity))


def query_rarity_mean(rankings: TwoRankings) -> float:
    """Mean inverse document frequency of the question's terms; 0 without terms."""
    return float(rankings.rarity.mean()) if len(rankings.rarity) else 0.0


def query_rarity_max(rankings: TwoRankings) -> float:
    """Inverse document frequency of the question's rarest term; 0 without terms."""
    return float(rankings.rarity.max()) if len(rankings.rarity) else 0.0


SIGNALS: dict[str, Signal] = {
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
            dense_margin_first_second,
            dense_margin_third_fourth,
            dense_top_over_rest,
            dense_third_over_last,
            dense_entropy,
            bm25_margin_first_second,
            bm25_rest_over_top,
            bm25_entropy,
            bm25_best_per_rarity,
            coverage_first,
            coverage_top,
            coverage_rest_over_top,
            query_terms,
            query_rarity_mean,
            query_rarity_max,
        )
    },
}
"""Every signal by its name."""

MODEL_SIGNALS = (
    "coverage_top",
    "coverage_rest_over_top",
    "bm25_rest_over_top",
    "dense_top_over_rest",
    "dense_margin_first_second",
    "dense_third_over_last",
    "query_terms",
    "query_rarity_mean",
)
"""Those that a calibration is fitted on unless told otherwise: few, as labelled questions are few. Chosen by forward
selection, each data set left out in turn, over the questions of the benchmark of the preflight: the choice has seen
them, and their labels, once."""


def measure(rankings: TwoRankings, names: Sequence[str] = MODEL_SIGNALS) -> dict[str, float]:
    """Return signals by name. Raises InputError for a name that is none."""
    if unknown := [name for name in names if name not in SIGNALS]:
        raise InputError(f"There is no signal {unknown[0]!r}: there are {', '.join(SIGNALS)}.")
    return {name: float(SIGNALS[name](rankings)) for name in names}


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
