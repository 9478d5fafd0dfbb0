"""Knowledge bases: reading sources, building, opening and searching."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy_names

if TYPE_CHECKING:
    from briefcontext.knowledge.build import build_knowledge_base as build_knowledge_base
    from briefcontext.knowledge.demo import (
        demo_knowledge_base as demo_knowledge_base,
        demo_questions as demo_questions,
    )
    from briefcontext.knowledge.encoders import Encoder as Encoder, load_encoder as load_encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase as KnowledgeBase
    from briefcontext.knowledge.sources.files import open_sources as open_sources
    from briefcontext.knowledge.sources.loaders import LoaderSource as LoaderSource
    from briefcontext.knowledge.sources.source import (
        Deletion as Deletion,
        EntrySource as EntrySource,
        Reject as Reject,
        VectorDocument as VectorDocument,
    )
    from briefcontext.knowledge.store.filters import Filters as Filters

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "knowledge.build": "build_knowledge_base",
        "knowledge.demo": "demo_knowledge_base demo_questions",
        "knowledge.encoders": "Encoder load_encoder",
        "knowledge.knowledge_base": "KnowledgeBase",
        "knowledge.sources.files": "open_sources",
        "knowledge.sources.loaders": "LoaderSource",
        "knowledge.sources.source": "Deletion EntrySource Reject VectorDocument",
        "knowledge.store.filters": "Filters",
    },
)
