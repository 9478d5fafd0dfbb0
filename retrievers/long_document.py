"""Retrieval from one long document, whose chunks and vectors are cached."""

import json
import logging
import os
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from numpy.typing import NDArray
from pydantic import SkipValidation

from briefcontext.errors import KnowledgeBaseError
from briefcontext.files import CACHE_VARIABLE, cache_folder, lock, replacing, sha256
from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.encoder import titled_text
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import only_document, several_documents
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.ranking_retriever import (
    DEFAULT_K,
    RankingRetriever,
    ranked,
    refuse_filters,
)
from briefcontext.retrievers.rankings import BM25Pool

DOCUMENT_ENCODER = "e5"
"""Encoder of one document, unless another is passed."""
VERSION = 5
"""Version of the chunking and encoding; raise it when either changes."""
MAX_KEPT = 64
"""Limit of indexes in the cache. The least recently used ones are deleted."""
BATCH = 64
"""Chunks to encode between two reports of progress."""
LONGEST_WAIT = 3600.0
"""Seconds to wait for another process that encodes the same document."""

Progress = Callable[[int, int], None]
"""Called with the number of encoded chunks and of all chunks."""

_logger = logging.getLogger(__name__)


class LongDocumentRetriever(RankingRetriever):
    """Retrieves the chunks of a document that are nearest to the question (OP-RAG, Yu et al. 2024).

    A chunk is encoded with its document's title and its section's heading. The score is the
    encoder's similarity. Chunks of equal score keep the order of the document.
    """

    encoder: SkipValidation[Encoder]
    chunks: list[Document]
    """The document in chunks, in order."""
    vectors: SkipValidation[NDArray[np.float32]]
    """The chunks' vectors, `(n, d) float32`."""

    def __init__(self, path: str | Path | None = None, **fields: Any) -> None:
        if path is not None:
            made = type(self).from_file(path, fields.pop("encoder", DOCUMENT_ENCODER))
            fields = {
                "encoder": made.encoder,
                "chunks": made.chunks,
                "vectors": made.vectors,
                **fields,
            }
        super().__init__(**fields)

    @classmethod
    def from_document(
        cls,
        document: Document,
        encoder: Encoder | str,
        *,
        tokens: int = CHUNK_TOKENS,
        exact: bool = False,
        k: int = DEFAULT_K,
        progress: Progress | None = None,
    ) -> Self:
        """Cut a document into chunks (see `chunk_document`) and encode them.

        Raises KnowledgeBaseError if it contains no text.
        """
        encoder = load_encoder(encoder)
        chunks = chunk_document(document, encoder, tokens=tokens, exact=exact)
        if not chunks:
            raise KnowledgeBaseError(
                f"There is no text in {document.id}. Give a document that has some."
            )
        report = progress or (lambda *_: None)
        vectors = np.empty((len(chunks), encoder.dimension), np.float32)
        for start in range(0, len(chunks), BATCH):
            report(start, len(chunks))
            batch = [titles_and_text(chunk) for chunk in chunks[start : start + BATCH]]
            vectors[start : start + len(batch)] = encoder.encode_passages(batch)
        report(len(chunks), len(chunks))
        return cls(encoder=encoder, chunks=chunks, vectors=vectors, k=k)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        encoder: Encoder | str = DOCUMENT_ENCODER,
        *,
        tokens: int = CHUNK_TOKENS,
        k: int = DEFAULT_K,
        progress: Progress | None = None,
    ) -> Self:
        """Read a file with one document, or load its cached chunks and vectors.

        The user's cache folder keeps them by the file's content and format, the encoder and
        `tokens`. If it is not writable, nothing is kept.

        Raises KnowledgeBaseError if the file is missing, unreadable, or does not contain exactly
        one document.
        """
        source, *others = open_sources(path)
        if others:
            raise several_documents(path)
        encoder = load_encoder(encoder)
        made_of = [
            VERSION,
            source.fingerprint,
            encoder.name,
            encoder.revision,
            encoder.text_format,
            tokens,
        ]
        kept = cache_folder() / "documents" / f"{sha256(json.dumps(made_of))[:32]}.npz"

        @cache
        def make() -> tuple[list[Document], NDArray[np.float32]]:
            document = only_document(path, source.entries())
            made = cls.from_document(document, encoder, tokens=tokens, progress=progress)
            return made.chunks, made.vectors

        try:
            chunks, vectors = _read(kept) or _kept(kept, make)
        except OSError as error:
            _logger.warning(
                "The index of %s is made for each question, as it cannot be kept (%s): set %s to a "
                "folder that can be "
                "written.",
                path,
                error,
                CACHE_VARIABLE,
            )
            chunks, vectors = make()
        return cls(encoder=encoder, chunks=chunks, vectors=vectors, k=k)

    def source(self, source_id: str) -> list[Document]:
        """Return the chunks of this document, in order, or none for another id."""
        return [chunk for chunk in self.chunks if chunk.metadata["source_id"] == source_id]

    @cached_property
    def term_statistics(self) -> TermStatistics:
        """Term frequencies in the chunks, with their titles and headings."""
        return TermStatistics.of_texts(
            titled_text(*titles_and_text(chunk)) for chunk in self.chunks
        )

    @cached_property
    def _terms(self) -> BM25Pool:
        """The chunks with their titles and headings, for BM25."""
        return BM25Pool(self.chunks, parts=titles_and_text)

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        """Return the `k` chunks with the highest BM25 scores, best first."""
        refuse_filters(filters, "One document")
        return self._terms.search_terms(query, k)

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        refuse_filters(filters, "One document")
        scores = self.vectors @ self.encoder.encode_queries([query])[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return ranked((self.chunks[place], float(scores[place])) for place in order)


def titles_and_text(chunk: Document) -> tuple[str, str]:
    """Return a chunk's title with its heading, and its text."""
    parts = (chunk.metadata.get("title"), chunk.metadata.get("section"))
    return ". ".join(
        dict.fromkeys(str(part).rstrip(".") for part in parts if part)
    ), chunk.page_content


def _kept(
    file: Path, make: Callable[[], tuple[list[Document], NDArray[np.float32]]]
) -> tuple[list[Document], NDArray[np.float32]]:
    """Return the content of the cache file, or create it, in one process at a time."""
    # The texts of documents are readable by the owner only.
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    busy = KnowledgeBaseError(
        f"Another process holds {file.with_suffix('.lock')} for an hour: end it, and ask again."
    )
    with lock(file.with_suffix(".lock"), busy, timeout=LONGEST_WAIT):
        if (result := _read(file)) is None:
            result = make()
            chunks = json.dumps(
                [[chunk.id, chunk.page_content, chunk.metadata] for chunk in result[0]]
            )
            with replacing(file) as unfinished, unfinished.open("wb") as stream:
                np.savez(stream, chunks=np.frombuffer(chunks.encode(), np.uint8), vectors=result[1])
            for old in sorted(file.parent.glob("*.npz"), key=lambda kept: kept.stat().st_mtime)[
                :-MAX_KEPT
            ]:
                old.unlink(missing_ok=True)
                old.with_suffix(".lock").unlink(missing_ok=True)
    return result


def _read(file: Path) -> tuple[list[Document], NDArray[np.float32]] | None:
    """Return the cached chunks and vectors; None if the file is missing or damaged."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            chunks, vectors = json.loads(kept["chunks"].tobytes()), kept["vectors"]
        os.utime(file)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return [Document(id=id, page_content=text, metadata=more) for id, text, more in chunks], vectors
