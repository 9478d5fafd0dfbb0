"""The index of one document: its chunks and their vectors, kept from one question to the next."""

import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.files import CACHE_VARIABLE, cache_folder, lock, replacing, sha256
from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.encoders import Encoder
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import WHOLE_FILE, Entry, Reject, VectorDocument

__all__ = ["DocumentIndex", "Progress", "index_document", "index_file", "only_document", "titles"]

VERSION = 3
"""Goes up when the same document is cut or encoded in another way."""
MAX_KEPT = 64
"""Indexes in the cache: of more, those go that were not used for longest."""
BATCH = 64
"""Chunks that are encoded before progress is told."""
LONGEST_WAIT = 3600.0
"""Seconds to wait for another process that encodes the same document."""

Progress = Callable[[int, int], None]
"""Told how many chunks are encoded, and how many there are."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DocumentIndex:
    """The chunks of a document, in order, and their vectors, `(n, d) float32`."""

    chunks: list[Document]
    vectors: NDArray[np.float32]


def index_document(
    document: Document,
    encoder: Encoder,
    *,
    tokens: int = CHUNK_TOKENS,
    exact: bool = False,
    progress: Progress | None = None,
) -> DocumentIndex:
    """Cut a document into chunks (see `chunk_document`) and encode them, each under the titles that it stands under.

    Raises:
        KnowledgeBaseError: there is no text in it.
    """
    chunks = chunk_document(document, encoder, tokens=tokens, exact=exact)
    if not chunks:
        raise KnowledgeBaseError(f"There is no text in {document.id}. Give a document that has some.")
    vectors = np.empty((len(chunks), encoder.dimension), np.float32)
    for start in range(0, len(chunks), BATCH):
        if progress is not None:
            progress(start, len(chunks))
        batch = chunks[start : start + BATCH]
        vectors[start : start + len(batch)] = encoder.encode_passages(
            [(titles(chunk), chunk.page_content) for chunk in batch]
        )
    if progress is not None:
        progress(len(chunks), len(chunks))
    return DocumentIndex(chunks, vectors)


def titles(chunk: Document) -> str:
    """What a chunk stands under: the title of its document, and the heading of its section."""
    parts = (chunk.metadata.get("title"), chunk.metadata.get("section"))
    return ". ".join(dict.fromkeys(str(part).rstrip(".") for part in parts if part))


def index_file(
    path: str | Path, encoder: Encoder, *, tokens: int = CHUNK_TOKENS, progress: Progress | None = None
) -> DocumentIndex:
    """Index a file of any format that can be read and holds one document, once.

    The index is kept in the cache folder by the file's content and format, the encoder and `tokens`; it holds the
    document's text. Where nothing can be written there, it is made each time.

    Raises:
        KnowledgeBaseError: the file is missing, cannot be read, or holds no document or more than one.
    """
    source, *others = open_sources(path)
    if others:
        raise _several(path)
    made_of = [VERSION, source.fingerprint, encoder.name, encoder.revision, encoder.text_format, tokens]
    kept = cache_folder() / "documents" / f"{sha256(json.dumps(made_of))[:32]}.npz"

    @cache
    def make() -> DocumentIndex:
        return index_document(only_document(path, source.entries()), encoder, tokens=tokens, progress=progress)

    try:
        return _read(kept) or _kept(kept, make)
    except OSError as error:
        _logger.warning(
            "The index of %s is made for each question, as it cannot be kept (%s): set %s to a folder that can be "
            "written.",
            path,
            error,
            CACHE_VARIABLE,
        )
        return make()


def only_document(path: str | Path, entries: Iterable[Entry]) -> Document:
    """Return the one document among the entries of a file.

    Raises:
        KnowledgeBaseError: there are none or several, or a part of it cannot be read.
    """
    documents = []
    for entry in entries:
        if isinstance(entry, Reject):
            place = "" if entry.position == WHOLE_FILE else f" at {entry.position}"
            raise KnowledgeBaseError(f"{path} cannot be read{place}: {entry.reason}")
        if isinstance(entry, VectorDocument):
            entry = entry.document
        if isinstance(entry, Document):
            documents.append(entry)
        if len(documents) > 1:
            raise _several(path)
    if not documents:
        raise KnowledgeBaseError(f"There is no document in {path}. Give a file that holds one.")
    return documents[0]


def _several(path: str | Path) -> KnowledgeBaseError:
    return KnowledgeBaseError(f"{path} holds more than one document. Index it: briefcontext index {path} --kb DIR")


def _kept(file: Path, make: Callable[[], DocumentIndex]) -> DocumentIndex:
    """What the file holds, or else what is made and kept there, by one process at a time."""
    # The texts of documents are nobody else's business.
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    busy = KnowledgeBaseError(f"Another process holds {file.with_suffix('.lock')} for an hour: end it, and ask again.")
    with lock(file.with_suffix(".lock"), busy, timeout=LONGEST_WAIT):
        if (found := _read(file)) is None:
            found = make()
            chunks = json.dumps([[chunk.id, chunk.page_content, chunk.metadata] for chunk in found.chunks])
            with replacing(file) as unfinished, unfinished.open("wb") as stream:
                np.savez(stream, chunks=np.frombuffer(chunks.encode(), np.uint8), vectors=found.vectors)
            for old in sorted(file.parent.glob("*.npz"), key=lambda kept: kept.stat().st_mtime)[:-MAX_KEPT]:
                old.unlink(missing_ok=True)
                old.with_suffix(".lock").unlink(missing_ok=True)
    return found


def _read(file: Path) -> DocumentIndex | None:
    """The index that a file holds; None where there is none, or it is damaged."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            chunks, vectors = json.loads(kept["chunks"].tobytes()), kept["vectors"]
        os.utime(file)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return DocumentIndex([Document(id=id, page_content=text, metadata=more) for id, text, more in chunks], vectors)
