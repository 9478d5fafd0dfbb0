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
from briefcontext.knowledge.sources.publication import OFFSETS, article_url
from briefcontext.knowledge.sources.source import WHOLE_FILE, Entry, EntrySource, Reject
from briefcontext.knowledge.sources.texts import file_document, stem

if TYPE_CHECKING:
    from langchain_core.document_loaders import BaseLoader

SET_HERE = {"source_id", "source", "title", "kind", "page", "page_label", *OFFSETS}
_COMMUNITY = "langchain_community.document_loaders"
LOADERS = {
    ".doc": f"{_COMMUNITY}:UnstructuredWordDocumentLoader",
    ".xlsx": f"{_COMMUNITY}:UnstructuredExcelLoader",
}
"""Loaders for files without a reader here, by the ending of their names."""


class LoaderSource(EntrySource):
    """The documents of a LangChain document loader, as a source.

    Successive pages of one `source`, with a number in `page`, are one document. Other documents
    have their id, else their `source`. The loader runs again each time the source is read.
    """

    def __init__(
        self, loader: "BaseLoader", *, name: str | None = None, fingerprint: str = ""
    ) -> None:
        name = name or type(loader).__name__
        super().__init__(lambda: load(lambda: loader, name), name=name, fingerprint=fingerprint)


def loader_class(named: str) -> "Callable[..., BaseLoader]":
    """Return the loader `module:Class`, which takes a file's path.

    Raises InputError if there is none, MissingExtraError if its package is not installed.
    """
    from langchain_core.document_loaders import BaseLoader  # Takes half a second.

    module, _, name = named.partition(":")
    try:
        loader = getattr(import_module(module), name, None) if module and name else None
    except ModuleNotFoundError as error:
        advice = f"{installing('loaders')}, or the package that has it"
        message = f"The package of the loader {named} is missing ({first_line(error)}): {advice}."
        raise MissingExtraError(message) from error
    if not (isinstance(loader, type) and issubclass(loader, BaseLoader)):
        example = f"{_COMMUNITY}:PyMuPDFLoader"
        raise InputError(f"{named!r} is no document loader: write module:Class, as in {example}.")
    return loader


def load(
    make: "Callable[[], BaseLoader]", source: str, *, source_is_the_file: bool = False
) -> Iterator[Entry]:
    """Load documents, and a reject if the loader fails.

    `source` is the name of documents without a `source`, or of all if `source_is_the_file`. Raises
    MissingExtraError if a package of the loader is not installed.
    """
    counts = Counter[str]()

    def part_of(document: Document) -> tuple[str, object]:
        own = str(document.metadata.get("source") or document.id or source)
        return source if source_is_the_file else own, None if _is_page(document) else object()

    try:
        for (name, _), parts in groupby(make().lazy_load(), part_of):
            counts[name] += 1
            yield _whole(name, counts[name], list(parts))
    except ImportError as error:
        message = f"The loader needs a package that is not installed ({first_line(error)})."
        raise MissingExtraError(f"{message} Install it with pip.") from error
    except Exception as error:  # noqa: BLE001 - errors of loaders are not known
        message = f"The loader failed ({type(error).__name__}): {first_line(error)}."
        yield Reject(WHOLE_FILE, message)


def _is_page(document: Document) -> bool:
    return isinstance(document.metadata.get("page"), int)


def _whole(source: str, number: int, parts: list[Document]) -> Entry:
    first, text, starts = parts[0], "", []
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
        # A data frame writes NaN for a missing value.
        if name not in SET_HERE and isinstance(value, str | int | float) and value == value
    }
    kind, url = "text", article_url(first.metadata)
    if _is_page(first):
        kind, metadata["page_starts"] = "pdf", json.dumps(starts)
        file = Path(str(first.metadata.get("source") or ""))
        url = url or (file.resolve().as_uri() if file.is_file() else "")
    metadata |= {"url": url} if url else {}
    own = first.id if len(parts) == 1 else None
    id = own or (source if number == 1 else f"{source}/{number}")
    titles = (str(first.metadata.get("title") or ""), stem(source))
    return file_document(id, text, *titles, kind=kind, metadata=metadata)
