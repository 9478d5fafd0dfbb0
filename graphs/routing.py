"""The preflight check, which decides the route."""

from collections.abc import Sequence

from langchain_core.documents import Document

from briefcontext.chains.answer import Preflight, Route
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.calibration import Prediction
from briefcontext.retrievers.rankings import clear_top, dense_order, intersection_over_union

_NAMED = 3
"""Number of signals in a reason."""


def compare_rankings(
    documents: Sequence[Document], bm25: Sequence[float], settings: Settings
) -> Preflight:
    """Compare the top n of the dense ranking with BM25's.

    Equation 1 of BriefContext (Zhang et al., npj Digital Medicine 2025): they agree when the
    intersection over union of the two exceeds delta. The fused order of hybrid search is not
    compared, because it contains BM25's.

    Args:
        documents: Retrieved documents, best first.
        bm25: BM25 scores of the documents.
        settings: With n and delta.
    """
    n, threshold = settings.preflight_top_n, settings.iou_threshold
    dense_top = [str(document.id) for document in dense_order(documents)[:n]]
    bm25_top = [str(documents[place].id) for place in clear_top(bm25, n)]
    iou = intersection_over_union(dense_top, bm25_top) if bm25_top else None
    return Preflight(
        iou=iou,
        n=n,
        threshold=threshold,
        dense_top=dense_top,
        bm25_top=bm25_top,
        consistent=None if iou is None else iou > threshold,
        method="iou",
        probability=None,
        probability_threshold=None,
        contributions=None,
        caution=None,
        reason=_no_ranking(bm25, n) if documents and not bm25_top else "",
    )


def _no_ranking(bm25: Sequence[float], n: int) -> str:
    matching = sum(score > 0 for score in bm25)
    if not matching:
        why = "no term of the question occurs in any of the documents"
    elif matching < min(n, len(bm25)):
        why = f"a term of the question occurs in only {matching} of the {len(bm25)} documents"
    else:
        why = f"it gives ranks {n} and {n + 1} the same score"
    return f"BM25 has no clear top: {why}"


def with_prediction(preflight: Preflight, predicted: Prediction, caution: str | None) -> Preflight:
    """Let a calibration's prediction decide. The overlap remains visible."""
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


def decide_route(
    preflight: Preflight, settings: Settings, *, one_ranking: bool = False
) -> tuple[Route, str]:
    """Return the route and its reason. `one_ranking` means that BM25 ranked the documents."""
    if not preflight["dense_top"]:
        return "abstain", "nothing was retrieved"
    if settings.route != "auto":
        return settings.route, f"the setting route forces {settings.route}"
    if one_ranking:
        return (
            "map_reduce",
            "BM25 found the documents, so that there is no second ranking to compare it with",
        )
    if (probability := preflight["probability"]) is not None and (
        at := preflight["probability_threshold"]
    ) is not None:
        predicted = f"the probability that the key document is misplaced is {probability:.3f}"
        strongest = list((preflight["contributions"] or {}).items())[:_NAMED]
        why = ", ".join(f"{name} {added:+.2f}" for name, added in strongest)
        if probability >= at:
            return "map_reduce", f"{predicted}, not below {at:.3f} ({why})"
        return settings.fallback, f"{predicted}, below {at:.3f} ({why})"
    if preflight["consistent"] is None:
        return "map_reduce", preflight["reason"]
    overlap = f"the overlap of the two top {preflight['n']} is {preflight['iou']:.2f}"
    if preflight["consistent"]:
        return (
            settings.fallback,
            f"{overlap}, above {preflight['threshold']:.2f}: the rankings agree",
        )
    return "map_reduce", f"{overlap}, not above {preflight['threshold']:.2f}: the rankings disagree"
