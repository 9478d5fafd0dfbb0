"""Retrievers on LangChain's interface, the comparison of two rankings, and order preservation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from briefcontext.retrievers.bm25 import rank_by_bm25
    from briefcontext.retrievers.bm25_retriever import BM25Retriever
    from briefcontext.retrievers.consistency import intersection_over_union
    from briefcontext.retrievers.dense import DenseRetriever, MedCPTRetriever
    from briefcontext.retrievers.fusion import reciprocal_rank_fusion
    from briefcontext.retrievers.hybrid import HybridRetriever
    from briefcontext.retrievers.long_document import LongDocumentRetriever
    from briefcontext.retrievers.order import order_preserving
    from briefcontext.retrievers.ranking_retriever import RankingRetriever
    from briefcontext.retrievers.rerank import RerankingRetriever
    from briefcontext.retrievers.search_method import retriever_over
    from briefcontext.retrievers.sentence_ranking import SentenceRanker
    from briefcontext.retrievers.wrapped import WrappedRetriever

__all__ = [
    "BM25Retriever",
    "DenseRetriever",
    "HybridRetriever",
    "LongDocumentRetriever",
    "MedCPTRetriever",
    "RankingRetriever",
    "RerankingRetriever",
    "SentenceRanker",
    "WrappedRetriever",
    "intersection_over_union",
    "order_preserving",
    "rank_by_bm25",
    "reciprocal_rank_fusion",
    "retriever_over",
]

_MODULES = {
    "BM25Retriever": "bm25_retriever",
    "DenseRetriever": "dense",
    "HybridRetriever": "hybrid",
    "LongDocumentRetriever": "long_document",
    "MedCPTRetriever": "dense",
    "RankingRetriever": "ranking_retriever",
    "RerankingRetriever": "rerank",
    "SentenceRanker": "sentence_ranking",
    "WrappedRetriever": "wrapped",
    "intersection_over_union": "consistency",
    "order_preserving": "order",
    "rank_by_bm25": "bm25",
    "reciprocal_rank_fusion": "fusion",
    "retriever_over": "search_method",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
