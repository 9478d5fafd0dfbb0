"""Knowledge bases: reading sources, building, opening and searching."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from briefcontext.knowledge.build.build import BuildReport, SourceReport, build_knowledge_base
    from briefcontext.knowledge.build.pipeline import Progress
    from briefcontext.knowledge.demo import demo_knowledge_base, demo_questions
    from briefcontext.knowledge.encoders import Encoder, load_encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.knowledge.sources.files import open_sources
    from briefcontext.knowledge.sources.records import Deletion, Entry, Reject
    from briefcontext.knowledge.sources.source import EntrySource, Source, VectorDocument
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

_MODULES = {
    "BuildReport": "build",
    "Counts": "store.manifest",
    "Deletion": "sources.records",
    "Encoder": "encoders",
    "Entry": "sources.records",
    "EntrySource": "sources.source",
    "Filters": "store.filters",
    "KnowledgeBase": "knowledge_base",
    "Manifest": "store.manifest",
    "Progress": "build.pipeline",
    "Reject": "sources.records",
    "Source": "sources.source",
    "SourceReport": "build",
    "VectorDocument": "sources.source",
    "build_knowledge_base": "build",
    "demo_knowledge_base": "demo",
    "demo_questions": "demo",
    "load_encoder": "encoders",
    "open_sources": "sources.files",
}


def __getattr__(name: str) -> Any:
    # Modules are imported when one of their names is first used, so that `import briefcontext` stays quick.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
