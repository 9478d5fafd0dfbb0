"""Ranking consistency: whether two rankings of the same documents agree at the top."""

from collections.abc import Hashable, Sequence

from typing_extensions import TypedDict

from briefcontext.errors import InputError

__all__ = [
    "PREFLIGHT_IOU_THRESHOLD",
    "PREFLIGHT_TOP_N",
    "Consistency",
    "clear_top",
    "consistency",
    "intersection_over_union",
]

PREFLIGHT_TOP_N = 3
"""How many documents of each ranking are compared (BriefContext, preflight check)."""
PREFLIGHT_IOU_THRESHOLD = 0.2
"""Delta of BriefContext's equation 1: agreement is an overlap *above* it."""


class Consistency(TypedDict):
    """How far a dense ranking and BM25's agree on the top n documents."""

    iou: float
    """Intersection over union of the two top-n sets, 0 to 1."""
    n: int
    threshold: float
    dense_top: list[str]
    """Ids of the dense ranking's first n documents, best first."""
    bm25_top: list[str]
    """Ids of BM25's first n of the same documents, best first."""
    consistent: bool
    """Whether `iou` is above `threshold`."""


def clear_top(scores: Sequence[float], n: int) -> list[int]:
    """Return the places of the n best scores, best first; none where the scores do not tell them from the rest.

    They do not where one of them is 0, as no term of the question stands in that document, or where the last of
    them is as good as the next: the order of equal scores is no ranking.
    """
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    best, rest = order[:n], order[n:]
    least = scores[rest[0]] if rest else 0.0
    return best if best and scores[best[-1]] > max(least, 0.0) else []


def intersection_over_union(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the Jaccard index of two collections: shared members over all members, 0 to 1.

    Two empty collections agree: 1.0.
    """
    a, b = set(first), set(second)
    union = a | b
    return len(a & b) / len(union) if union else 1.0


def consistency(
    dense: Sequence[str],
    bm25: Sequence[str],
    *,
    n: int = PREFLIGHT_TOP_N,
    threshold: float = PREFLIGHT_IOU_THRESHOLD,
) -> Consistency:
    """Compare the first `n` ids of two rankings of the same documents.

    Equation 1 of BriefContext (Zhang et al., npj Digital Medicine 2025): the rankings agree when the
    intersection over union of their top n exceeds delta. With n = 3 it can only be 0, 0.2, 0.5 or 1.

    Raises:
        InputError: `n` is below 1.
    """
    if n < 1:
        raise InputError(f"preflight_top_n must be at least 1, not {n}.")
    dense_top, bm25_top = list(dense[:n]), list(bm25[:n])
    iou = intersection_over_union(dense_top, bm25_top)
    return Consistency(
        iou=iou, n=n, threshold=threshold, dense_top=dense_top, bm25_top=bm25_top, consistent=iou > threshold
    )
