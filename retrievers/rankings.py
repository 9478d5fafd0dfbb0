"""Rankings: how far two agree, several made into one, and documents put back in the order of their source."""

from collections.abc import Hashable, Sequence
from math import fsum

from langchain_core.documents import Document

from briefcontext.errors import InputError

__all__ = [
    "PREFLIGHT_IOU_THRESHOLD",
    "PREFLIGHT_TOP_N",
    "RRF_K",
    "clear_top",
    "intersection_over_union",
    "order_preserving",
    "reciprocal_rank_fusion",
]

PREFLIGHT_TOP_N = 3
"""How many documents of each ranking are compared (BriefContext, preflight check)."""
PREFLIGHT_IOU_THRESHOLD = 0.2
"""Delta of BriefContext's equation 1: agreement is an overlap *above* it. At n = 3 an overlap is 0, 0.2, 0.5 or 1."""
RRF_K = 60
"""Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods", SIGIR 2009."""


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


def order_preserving(documents: Sequence[Document]) -> list[Document]:
    """Put retrieved documents back in the order of their source (OP-RAG, Yu et al. 2024).

    Documents are grouped by `source_id`; the groups stand in the order of their best rank, which is the
    order in which they are given, and the chunks of a group by their position in the source. For one long
    source this is equation 2 of the paper. The result is a permutation, and arranging it again changes nothing.
    """
    group: dict[str, int] = {}
    for document in documents:
        group.setdefault(_source(document), len(group))
    return sorted(documents, key=lambda document: (group[_source(document)], _position(document)))


def _source(document: Document) -> str:
    return str(document.metadata.get("source_id", document.id))


def _position(document: Document) -> tuple[int, int]:
    return int(document.metadata.get("start", 0)), int(document.metadata.get("chunk_index", 0))
