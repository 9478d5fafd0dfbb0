"""BriefContext: medical questions answered over retrieved literature, with citations to check them by."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "RouteDecided",
    "Settings",
    "WrappedRetriever",
    "briefcontext_tool",
    "build_graph",
    "build_knowledge_base",
    "graph",
    "load_encoder",
]

_HOME = {
    "Answer": "briefcontext.chains.answer",
    "AnswerToken": "briefcontext.graphs.events",
    "AnswerTokens": "briefcontext.graphs.events",
    "Answered": "briefcontext.graphs.events",
    "Answering": "briefcontext.graphs.events",
    "BM25Retriever": "briefcontext.retrievers",
    "BriefContextError": "briefcontext.errors",
    "DenseRetriever": "briefcontext.retrievers",
    "Encoding": "briefcontext.graphs.events",
    "Event": "briefcontext.graphs.events",
    "ExtractiveReader": "briefcontext.chains.extractive_reader",
    "HybridRetriever": "briefcontext.retrievers",
    "InputError": "briefcontext.errors",
    "KnowledgeBase": "briefcontext.knowledge.knowledge_base",
    "KnowledgeBaseError": "briefcontext.errors",
    "LLMReader": "briefcontext.chains.llm_reader",
    "LongDocumentRetriever": "briefcontext.retrievers",
    "MedCPTRetriever": "briefcontext.retrievers",
    "MissingExtraError": "briefcontext.errors",
    "ModelCallError": "briefcontext.errors",
    "ModelError": "briefcontext.errors",
    "ModelSetupError": "briefcontext.errors",
    "PartitionDone": "briefcontext.graphs.events",
    "PartitionFailed": "briefcontext.graphs.events",
    "PartitionStarted": "briefcontext.graphs.events",
    "Prompts": "briefcontext.prompts",
    "RankingRetriever": "briefcontext.retrievers",
    "Reducing": "briefcontext.graphs.events",
    "RerankingRetriever": "briefcontext.retrievers",
    "Retrieved": "briefcontext.graphs.events",
    "RouteDecided": "briefcontext.graphs.events",
    "Settings": "briefcontext.graphs.settings",
    "WrappedRetriever": "briefcontext.retrievers",
    "briefcontext_tool": "briefcontext.graphs.tool",
    "build_graph": "briefcontext.graphs.graph",
    "build_knowledge_base": "briefcontext.knowledge.build",
    "graph": "briefcontext.graphs.graph",
    "load_encoder": "briefcontext.knowledge.encoders",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: langgraph and its kin take most of a second."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
