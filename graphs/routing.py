"""The preflight check: which way a question takes."""

from collections.abc import Sequence
from typing import Literal

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.answer import Preflight, Route
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.calibration import Prediction
from briefcontext.retrievers.consistency import consistency

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


def compare_rankings(documents: Sequence[Document], bm25_order: Sequence[int], settings: Settings) -> Preflight:
    """Compare the documents' own order, the dense ranking's, with BM25's; `reason` is left for the decision.

    Args:
        bm25_order: positions of the documents, best first, as BM25 ranks them.
    """
    n, threshold = settings.preflight_top_n, settings.iou_threshold
    if not documents:
        return Preflight(iou=None, n=n, threshold=threshold, dense_top=[], bm25_top=[], consistent=None, **_BY_OVERLAP)
    dense = [str(document.id) for document in documents]
    bm25 = [dense[place] for place in bm25_order]
    return Preflight(**consistency(dense, bm25, n=n, threshold=threshold), **_BY_OVERLAP)


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
    if preflight["consistent"] is None:
        return "abstain", "nothing was retrieved"
    if settings.route != "auto":
        return settings.route, f"the setting route forces {settings.route}"
    if one_ranking:
        return "map_reduce", "BM25 found the documents, so that there is no second ranking to compare it with"
    if preflight["probability"] is not None and preflight["probability_threshold"] is not None:
        return _decide_by_prediction(preflight, preflight["probability"], preflight["probability_threshold"], settings)
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
