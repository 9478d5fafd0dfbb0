"""BriefContext: medical questions answered over retrieved literature, with citations to check them by."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from briefcontext.chains.answer import Answer
    from briefcontext.chains.extractive_reader import ExtractiveReader
    from briefcontext.chains.llm_reader import LLMReader
    from briefcontext.errors import BriefContextError
    from briefcontext.graphs.graph import build_graph, graph
    from briefcontext.graphs.settings import Settings
    from briefcontext.graphs.tool import briefcontext_tool
    from briefcontext.knowledge.build import build_knowledge_base
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.prompts import Prompts

__all__ = [
    "Answer",
    "BriefContextError",
    "ExtractiveReader",
    "KnowledgeBase",
    "LLMReader",
    "Prompts",
    "Settings",
    "briefcontext_tool",
    "build_graph",
    "build_knowledge_base",
    "graph",
]

_HOME = {
    "Answer": "briefcontext.chains.answer",
    "BriefContextError": "briefcontext.errors",
    "ExtractiveReader": "briefcontext.chains.extractive_reader",
    "KnowledgeBase": "briefcontext.knowledge.knowledge_base",
    "LLMReader": "briefcontext.chains.llm_reader",
    "Prompts": "briefcontext.prompts",
    "Settings": "briefcontext.graphs.settings",
    "briefcontext_tool": "briefcontext.graphs.tool",
    "build_graph": "briefcontext.graphs.graph",
    "build_knowledge_base": "briefcontext.knowledge.build",
    "graph": "briefcontext.graphs.graph",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: langgraph and its kin take most of a second."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
