"""BriefContext answers medical questions over retrieved literature, with checkable citations."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy_names

if TYPE_CHECKING:
    from briefcontext.chains.answer import Answer as Answer
    from briefcontext.chains.notes import Note as Note
    from briefcontext.errors import (
        BriefContextError as BriefContextError,
        InputError as InputError,
        KnowledgeBaseError as KnowledgeBaseError,
        MissingExtraError as MissingExtraError,
        ModelError as ModelError,
    )
    from briefcontext.graphs.graph import build_graph as build_graph, graph as graph
    from briefcontext.graphs.middleware import (
        BriefContextCompressor as BriefContextCompressor,
        BriefContextMiddleware as BriefContextMiddleware,
    )
    from briefcontext.graphs.settings import Settings as Settings
    from briefcontext.graphs.tool import briefcontext_tool as briefcontext_tool
    from briefcontext.knowledge.build import build_knowledge_base as build_knowledge_base
    from briefcontext.knowledge.encoders import load_encoder as load_encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase as KnowledgeBase
    from briefcontext.retrievers import (
        BM25Retriever as BM25Retriever,
        DenseRetriever as DenseRetriever,
        HybridRetriever as HybridRetriever,
        LongDocumentRetriever as LongDocumentRetriever,
        MedCPTRetriever as MedCPTRetriever,
        RerankingRetriever as RerankingRetriever,
    )

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "chains.answer": "Answer",
        "chains.notes": "Note",
        "errors": "BriefContextError InputError KnowledgeBaseError MissingExtraError ModelError",
        "graphs.graph": "build_graph graph",
        "graphs.middleware": "BriefContextCompressor BriefContextMiddleware",
        "graphs.settings": "Settings",
        "graphs.tool": "briefcontext_tool",
        "knowledge.build": "build_knowledge_base",
        "knowledge.encoders": "load_encoder",
        "knowledge.knowledge_base": "KnowledgeBase",
        "retrievers": (
            "BM25Retriever DenseRetriever HybridRetriever LongDocumentRetriever MedCPTRetriever "
            "RerankingRetriever"
        ),
    },
)
