"""BriefContext: medical questions answered over retrieved literature, with citations to check them by."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy

if TYPE_CHECKING:
    from briefcontext.chains.answer import Answer as Answer
    from briefcontext.chains.llm_reader import LLMReader as LLMReader
    from briefcontext.chains.notes import Note as Note
    from briefcontext.chains.passage_reader import PassageReader as PassageReader
    from briefcontext.errors import (
        BriefContextError as BriefContextError,
        InputError as InputError,
        KnowledgeBaseError as KnowledgeBaseError,
        MissingExtraError as MissingExtraError,
        ModelCallError as ModelCallError,
        ModelError as ModelError,
        ModelSetupError as ModelSetupError,
    )
    from briefcontext.graphs.events import (
        Answered as Answered,
        Answering as Answering,
        AnswerToken as AnswerToken,
        AnswerTokens as AnswerTokens,
        Encoding as Encoding,
        Event as Event,
        PartitionDone as PartitionDone,
        PartitionFailed as PartitionFailed,
        PartitionStarted as PartitionStarted,
        Reducing as Reducing,
        Retrieved as Retrieved,
        Rewritten as Rewritten,
        RouteDecided as RouteDecided,
        Verified as Verified,
        Verifying as Verifying,
    )
    from briefcontext.graphs.graph import build_graph as build_graph, graph as graph
    from briefcontext.graphs.settings import Settings as Settings
    from briefcontext.graphs.tool import briefcontext_tool as briefcontext_tool
    from briefcontext.knowledge.build import build_knowledge_base as build_knowledge_base
    from briefcontext.knowledge.encoders import load_encoder as load_encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase as KnowledgeBase
    from briefcontext.prompts import Prompts as Prompts
    from briefcontext.retrievers import (
        BM25Retriever as BM25Retriever,
        DenseRetriever as DenseRetriever,
        HybridRetriever as HybridRetriever,
        LongDocumentRetriever as LongDocumentRetriever,
        MedCPTRetriever as MedCPTRetriever,
        RankingRetriever as RankingRetriever,
        RerankingRetriever as RerankingRetriever,
        WrappedRetriever as WrappedRetriever,
    )

__getattr__, __dir__ = lazy(__name__, __file__)
