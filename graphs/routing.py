"""The preflight check: which way a question takes."""

from collections.abc import Sequence

from langchain_core.documents import Document

from briefcontext.chains.answer import Preflight, Route
from briefcontext.chains.question import Question
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.bm25_index import TermStatistics
from briefcontext.retrievers.bm25 import rank_by_bm25
from briefcontext.retrievers.consistency import consistency

__all__ = ["compare_rankings", "decide_route"]


def compare_rankings(
    asked: Question, documents: Sequence[Document], settings: Settings, statistics: TermStatistics | None
) -> Preflight:
    """Compare the documents' own order, the dense ranking's, with BM25's; `reason` is left for the decision."""
    n, threshold = settings.preflight_top_n, settings.iou_threshold
    if not documents:
        return Preflight(iou=None, n=n, threshold=threshold, dense_top=[], bm25_top=[], consistent=None, reason="")
    dense = [str(document.id) for document in documents]
    bm25 = [dense[place] for place in rank_by_bm25(asked["text"], documents, statistics).order]
    return Preflight(**consistency(dense, bm25, n=n, threshold=threshold), reason="")


def decide_route(preflight: Preflight, settings: Settings) -> tuple[Route, str]:
    """Return the route and, in words, why it is taken."""
    if preflight["consistent"] is None:
        return "abstain", "nothing was retrieved"
    if settings.route != "auto":
        return settings.route, f"the setting route forces {settings.route}"
    overlap = f"the overlap of the two top {preflight['n']} is {preflight['iou']:.2f}"
    if preflight["consistent"]:
        return settings.fallback, f"{overlap}, above {preflight['threshold']:.2f}: the rankings agree"
    return "map_reduce", f"{overlap}, not above {preflight['threshold']:.2f}: the rankings disagree"
