"""Retrievers on LangChain's interface, the comparison of two rankings, and order preservation."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy_names

if TYPE_CHECKING:
    from briefcontext.retrievers.knowledge_base import (
        BM25Retriever as BM25Retriever,
        DenseRetriever as DenseRetriever,
        HybridRetriever as HybridRetriever,
        MedCPTRetriever as MedCPTRetriever,
        RerankingRetriever as RerankingRetriever,
        retriever_over as retriever_over,
    )
    from briefcontext.retrievers.long_document import LongDocumentRetriever as LongDocumentRetriever
    from briefcontext.retrievers.passage_ranking import PassageRanker as PassageRanker
    from briefcontext.retrievers.ranking_retriever import (
        RankingRetriever as RankingRetriever,
        WrappedRetriever as WrappedRetriever,
    )
    from briefcontext.retrievers.rankings import (
        BM25Pool as BM25Pool,
        intersection_over_union as intersection_over_union,
        order_preserving as order_preserving,
        reciprocal_rank_fusion as reciprocal_rank_fusion,
    )

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "retrievers.knowledge_base": (
            "BM25Retriever DenseRetriever HybridRetriever MedCPTRetriever RerankingRetriever "
            "retriever_over"
        ),
        "retrievers.long_document": "LongDocumentRetriever",
        "retrievers.passage_ranking": "PassageRanker",
        "retrievers.ranking_retriever": "RankingRetriever WrappedRetriever",
        "retrievers.rankings": (
            "BM25Pool intersection_over_union order_preserving reciprocal_rank_fusion"
        ),
    },
)
