"""Readers of source formats: from files to documents, deletions and rejects."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from briefcontext.knowledge.sources.files import FORMATS, FileSources, SkippedFile, open_sources
    from briefcontext.knowledge.sources.records import Deletion, Entry, Reject
    from briefcontext.knowledge.sources.source import EntrySource, Source, SourceEntry, VectorDocument

__all__ = [
    "FORMATS",
    "Deletion",
    "Entry",
    "EntrySource",
    "FileSources",
    "Reject",
    "SkippedFile",
    "Source",
    "SourceEntry",
    "VectorDocument",
    "open_sources",
]

_MODULES = {
    "FORMATS": "files",
    "Deletion": "records",
    "Entry": "records",
    "EntrySource": "source",
    "FileSources": "files",
    "Reject": "records",
    "SkippedFile": "files",
    "Source": "source",
    "SourceEntry": "source",
    "VectorDocument": "source",
    "open_sources": "files",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
