"""Knowledge bases: reading sources, building, opening and searching."""

from typing import TYPE_CHECKING

from briefcontext.lazy import lazy

if TYPE_CHECKING:
    from briefcontext.knowledge.build import BuildReport, SourceReport, build_knowledge_base
    from briefcontext.knowledge.build.pipeline import Progress
    from briefcontext.knowledge.demo import demo_knowledge_base, demo_questions
    from briefcontext.knowledge.encoders import Encoder, load_encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.knowledge.sources.files import open_sources
    from briefcontext.knowledge.sources.loaders import LoaderSource
    from briefcontext.knowledge.sources.source import Deletion, Entry, EntrySource, Reject, Source, VectorDocument
    from briefcontext.knowledge.store.filters import Filters
    from briefcontext.knowledge.store.manifest import Counts, Manifest

__all__ = [
    "BuildReport",
    "Counts",
    "Deletion",
    "Encoder",
    "Entry",
    "EntrySource",
    "Filters",
    "KnowledgeBase",
    "LoaderSource",
    "Manifest",
    "Progress",
    "Reject",
    "Source",
    "SourceReport",
    "VectorDocument",
    "build_knowledge_base",
    "demo_knowledge_base",
    "demo_questions",
    "load_encoder",
    "open_sources",
]

__getattr__, __dir__ = lazy(__name__, __file__)
