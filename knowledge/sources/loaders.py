"""LangChain's document loaders as sources."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.documents import Document

from briefcontext.errors import InputError, MissingExtraError, first_line, installing
from briefcontext.knowledge.sources.publication import article_url
from briefcontext.knowledge.sources.source import WHOLE_FILE, Entry, EntrySource, Reject
from briefcontext.knowledge.sources.texts import file_document, stem

if TYPE_CHECKING:
    from langchain_core.document_loaders import BaseLoader

SET_HERE = ("source_id", "source", "title", "kind", "chunk_index", "start", "end", "page", "page_label")

_COMMUNITY = "langchain_community.document_loaders"
LOADERS = {
    ".doc": f"{_COMMUNITY}:UnstructuredWordDocumentLoader",
    ".xlsx": f"{_COMMUNITY}:UnstructuredExcelLoader",
}
"""Loaders, by how the names of files end that no reader here takes."""


class LoaderSource(EntrySource):
    """What a LangChain document loader loads, as a source.

    Its pages of one file, which follow each other with the same `source` and a number each in `page`, are one document;
    every other document stays as it is, under its id, else its `source`. Links come from `url`, `pmid`, `doi` or a
    `source` that is an address. The loader is asked again whenever the source is read.
    """

    def __init__(self, loader: "BaseLoader", *, name: str | None = None, fingerprint: str = "") -> None:
        """Name the source, by default after the loader's class; `fingerprint` is that of `Source`."""
        name = name or type(loader).__name__
        super().__init__(lambda: load(lambda: loader, name), name=name, fingerprint=fingerprint)


def loader_class(named: str) -> "Callable[..., BaseLoader]":
    """The class that `module:Class` names, which takes a file's path.

    Raises InputError when it names none, MissingExtraError when its package is not installed.
    """
    from langchain_core.document_loaders import BaseLoader  # Takes half a second, which other files need not wait for.

    module, _, name = named.partition(":")
    try:
        found = getattr(import_module(module), name, None) if module and name else None
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The loader {named} needs a package that is not installed ({first_line(error)}): "
            f"{installing('loaders')}, or the package that has it."
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseLoader)):
        raise InputError(
            f"{named!r} names no document loader of LangChain: write module:Class, for example "
            "langchain_community.document_loaders:PyMuPDFLoader."
        )
    return found


def load(make: "Callable[[], BaseLoader]", source: str, *, source_is_the_file: bool = False) -> Iterator[Entry]:
    """The documents of a loader, completed, and the reject of what it could not load.

    Those without a `source` of their own are named after the one given; with `source_is_the_file` all are. Raises
    MissingExtraError when the loader's own package is not installed.
    """
    counts = Counter[str]()

    def record(document: Document) -> tuple[str, object]:
        """The name of its file, and what pages of one have in common."""
        own = source if source_is_the_file else str(document.metadata.get("source") or document.id or source)
        return own, None if _is_page(document) else object()

    try:
        for (name, _), parts in groupby(make().lazy_load(), record):
            counts[name] += 1
            yield _whole(name, counts[name], list(parts))
    except ImportError as error:
        raise MissingExtraError(
            f"The loader needs a package that is not installed ({first_line(error)}). Install it with pip."
        ) from error
    except Exception as error:  # noqa: BLE001 - what loaders raise is not known
        yield Reject(WHOLE_FILE, f"The loader failed ({type(error).__name__}): {first_line(error)}.")


def _is_page(document: Document) -> bool:
    return isinstance(document.metadata.get("page"), int)


def _whole(source: str, number: int, parts: list[Document]) -> Entry:
    first = parts[0]
    text, starts = "", []
    for part in parts:
        if part.page_content.strip():
            text += "\n\n" if text else ""
            starts.append((len(text), part.metadata.get("page", 0) + 1))
            text += part.page_content
    if not text:
        return Reject(WHOLE_FILE, "The loader found no text in it.")
    metadata = {
        name: value
        for name, value in first.metadata.items()
        # A data frame writes NaN where a value is missing.
        if name not in SET_HERE and isinstance(value, str | int | float) and value == value
    }
    kind, url = "text", article_url(first.metadata)
    if _is_page(first):
        kind, metadata["page_starts"] = "pdf", json.dumps(starts)
        file = Path(str(first.metadata.get("source") or ""))
        url = url or (file.resolve().as_uri() if file.is_file() else "")
    if url:
        metadata["url"] = url
    id = (first.id if len(parts) == 1 else None) or (source if number == 1 else f"{source}/{number}")
    return file_document(id, text, title=str(first.metadata.get("title") or stem(source)), kind=kind, metadata=metadata)
