"""Retrievers on LangChain's interface, the comparison of two rankings, and order preservation."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy

if TYPE_CHECKING:
    from briefcontext.retrievers.knowledge_base import (
        BM25Retriever,
        DenseRetriever,
        HybridRetriever,
        MedCPTRetriever,
        RerankingRetriever,
        retriever_over,
    )
    from briefcontext.retrievers.long_document import LongDocumentRetriever
    from briefcontext.retrievers.ranking_retriever import RankingRetriever, WrappedRetriever
    from briefcontext.retrievers.rankings import (
        intersection_over_union,
        order_preserving,
        rank_by_bm25,
        reciprocal_rank_fusion,
    )
    from briefcontext.retrievers.sentence_ranking import SentenceRanker

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

__getattr__, __dir__ = lazy(__name__, __file__)
