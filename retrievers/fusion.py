"""Reciprocal rank fusion: one ranking made of several."""

from collections.abc import Sequence
from math import fsum

from briefcontext.errors import InputError

__all__ = ["RRF_K", "reciprocal_rank_fusion"]

RRF_K = 60
"""Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods", SIGIR 2009."""


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[str]], k: int = RRF_K, weights: Sequence[float] | None = None
) -> list[tuple[str, float]]:
    """Fuse rankings of ids, each best first, into one of all their ids with their scores.

    An id's score is the sum of `weight / (k + rank)` over the rankings that hold it, ranks from 1 (Cormack et
    al. 2009). Of an id that occurs twice in a ranking the first place counts. Equal scores stand in the order
    in which the rankings, read one after another, name their ids.

    Raises:
        InputError: `k` is negative, or there is not one positive weight for each ranking.
    """
    if k < 0:
        raise InputError(f"The k of reciprocal rank fusion must be 0 or more, not {k}.")
    weights = _checked_weights(weights, len(rankings))
    parts: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, id in enumerate(dict.fromkeys(ranking), start=1):
            parts.setdefault(id, []).append(weight / (k + rank))
    # The exact sum, so that equal ranks in another order of the rankings remain equal scores.
    fused = [(id, fsum(scores)) for id, scores in parts.items()]
    return sorted(fused, key=lambda pair: -pair[1])


def _checked_weights(weights: Sequence[float] | None, n: int) -> Sequence[float]:
    if weights is None:
        return [1.0] * n
    if len(weights) != n or not all(weight > 0 for weight in weights):
        raise InputError(f"Fusing {n} rankings needs {n} positive weights, not {list(weights)}.")
    return weights
