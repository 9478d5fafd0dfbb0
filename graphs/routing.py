"""The preflight check, which decides the route."""

from collections.abc import Sequence
from typing import Literal

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.answer import Preflight, Route
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.calibration import Prediction
from briefcontext.retrievers.consistency import clear_top, consistency

__all__ = ["compare_rankings", "decide_route", "with_prediction"]

_NAMED = 3
"""How many of the signals a reason names."""


class _Undecided(TypedDict):
    method: Literal["iou", "calibrated"]
    probability: float | None
    probability_threshold: float | None
    contributions: dict[str, float] | None
    caution: str | None
    reason: str


_BY_OVERLAP = _Undecided(
    method="iou", probability=None, probability_threshold=None, contributions=None, caution=None, reason=""
)


def compare_rankings(documents: Sequence[Document], bm25: Sequence[float], settings: Settings) -> Preflight:
    """Compare the documents' own order, the dense ranking's, with BM25's.

    `reason` is left for the decision, unless BM25 has no ranking to compare.

    Args:
        bm25: BM25's scores of the documents, in their order.
    """
    n, threshold = settings.preflight_top_n, settings.iou_threshold
    dense = [str(document.id) for document in documents]
    if top := clear_top(bm25, n):
        return Preflight(**consistency(dense, [dense[place] for place in top], n=n, threshold=threshold), **_BY_OVERLAP)
    undecided = Preflight(
        iou=None, n=n, threshold=threshold, dense_top=dense[:n], bm25_top=[], consistent=None, **_BY_OVERLAP
    )
    return Preflight(**{**undecided, "reason": _no_ranking(bm25, n)}) if documents else undecided


def _no_ranking(bm25: Sequence[float], n: int) -> str:
    matching = sum(score > 0 for score in bm25)
    if not matching:
        why = "no term of the question stands in any of the documents"
    elif matching < min(n, len(bm25)):
        why = f"only {matching} of the {len(bm25)} documents hold a term of the question"
    else:
        why = f"it scores the documents at its places {n} and {n + 1} alike"
    return f"BM25 cannot tell which documents are the best: {why}"


def with_prediction(preflight: Preflight, predicted: Prediction, caution: str | None) -> Preflight:
    """Let a calibration's prediction decide; the overlap is shown all the same."""
    return Preflight(
        **{
            **preflight,
            "method": "calibrated",
            "probability": predicted.probability,
            "probability_threshold": predicted.threshold,
            "contributions": predicted.contributions,
            "caution": caution,
        }
    )


def decide_route(preflight: Preflight, settings: Settings, *, one_ranking: bool = False) -> tuple[Route, str]:
    """Return the route and, in words, why it is taken.

    Args:
        one_ranking: whether the documents' own order is BM25's, so that there is no other to disagree with.
    """
    if not preflight["dense_top"]:
        return "abstain", "nothing was retrieved"
    if settings.route != "auto":
        return settings.route, f"the setting route forces {settings.route}"
    if one_ranking:
        return "map_reduce", "BM25 found the documents, so that there is no second ranking to compare it with"
    if preflight["probability"] is not None and preflight["probability_threshold"] is not None:
        return _decide_by_prediction(preflight, preflight["probability"], preflight["probability_threshold"], settings)
    if preflight["consistent"] is None:
        return "map_reduce", preflight["reason"]
    overlap = f"the overlap of the two top {preflight['n']} is {preflight['iou']:.2f}"
    if preflight["consistent"]:
        return settings.fallback, f"{overlap}, above {preflight['threshold']:.2f}: the rankings agree"
    return "map_reduce", f"{overlap}, not above {preflight['threshold']:.2f}: the rankings disagree"


def _decide_by_prediction(
    preflight: Preflight, probability: float, threshold: float, settings: Settings
) -> tuple[Route, str]:
    predicted = f"the probability that the key document is misplaced is {probability:.3f}"
    strongest = list((preflight["contributions"] or {}).items())[:_NAMED]
    why = ", ".join(f"{name} {added:+.2f}" for name, added in strongest)
    if probability >= threshold:
        return "map_reduce", f"{predicted}, not below {threshold:.3f} ({why})"
    return settings.fallback, f"{predicted}, below {threshold:.3f} ({why})"
