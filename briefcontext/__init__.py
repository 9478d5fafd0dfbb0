"""BriefContext: medical questions answered over retrieved literature, with citations to check them by."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy

if TYPE_CHECKING:
    from briefcontext.chains.answer import Answer
    from briefcontext.chains.extractive_reader import ExtractiveReader
    from briefcontext.chains.llm_reader import LLMReader
    from briefcontext.errors import (
        BriefContextError,
        InputError,
        KnowledgeBaseError,
        MissingExtraError,
        ModelCallError,
        ModelError,
        ModelSetupError,
    )
    from briefcontext.graphs.events import (
        Answered,
        Answering,
        AnswerToken,
        AnswerTokens,
        Encoding,
        Event,
        PartitionDone,
        PartitionFailed,
        PartitionStarted,
        Reducing,
        Retrieved,
        Rewritten,
        RouteDecided,
    )
    from briefcontext.graphs.graph import build_graph, graph
    from briefcontext.graphs.settings import Settings
    from briefcontext.graphs.tool import briefcontext_tool
    from briefcontext.knowledge.build import build_knowledge_base
    from briefcontext.knowledge.encoders import load_encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.prompts import Prompts
    from briefcontext.retrievers import (
        BM25Retriever,
        DenseRetriever,
        HybridRetriever,
        LongDocumentRetriever,
        MedCPTRetriever,
        RankingRetriever,
        RerankingRetriever,
        WrappedRetriever,
    )

__all__ = [
    "Answer",
    "AnswerToken",
    "AnswerTokens",
    "Answered",
    "Answering",
    "BM25Retriever",
    "BriefContextError",
    "DenseRetriever",
    "Encoding",
    "Event",
    "ExtractiveReader",
    "HybridRetriever",
    "InputError",
    "KnowledgeBase",
    "KnowledgeBaseError",
    "LLMReader",
    "LongDocumentRetriever",
    "MedCPTRetriever",
    "MissingExtraError",
    "ModelCallError",
    "ModelError",
    "ModelSetupError",
    "PartitionDone",
    "PartitionFailed",
    "PartitionStarted",
    "Prompts",
    "RankingRetriever",
    "Reducing",
    "RerankingRetriever",
    "Retrieved",
    "Rewritten",
    "RouteDecided",
    "Settings",
    "WrappedRetriever",
    "briefcontext_tool",
    "build_graph",
    "build_knowledge_base",
    "graph",
    "load_encoder",
]

__getattr__, __dir__ = lazy(__name__, __file__)
