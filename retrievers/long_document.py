"""Retrieval from one long document, whose chunks and vectors are kept from one question to the next."""

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


class LongDocumentRetriever(RankingRetriever):
    """Retrieves the chunks of a document that are nearest to the question (OP-RAG, Yu et al. 2024).

    A chunk is encoded under the title of its document and the heading of its section. The score is
    the encoder's similarity; chunks of equal score keep the order of the document.
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

        Raises KnowledgeBaseError when there is no text in it.
        """
        encoder = load_encoder(encoder)
        chunks = chunk_document(document, encoder, tokens=tokens, exact=exact)
        if not chunks:
            raise KnowledgeBaseError(
                f"There is no text in {document.id}. Give a document that has some."
            )
        told = progress or (lambda *_: None)
        vectors = np.empty((len(chunks), encoder.dimension), np.float32)
        for start in range(0, len(chunks), BATCH):
            told(start, len(chunks))
            batch = [titles_and_text(chunk) for chunk in chunks[start : start + BATCH]]
            vectors[start : start + len(batch)] = encoder.encode_passages(batch)
        told(len(chunks), len(chunks))
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
        """Read a file of any format that can be indexed and holds one document, or take what is kept of it.

        Chunks, which hold the document's text, and vectors are kept in the user's cache folder by
        the file's content and format, the encoder and `tokens`. Where nothing can be written there,
        they are made each time.

        Raises KnowledgeBaseError when the file is missing, cannot be read, or holds no document or
        more than one.
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
        """The chunks of this document, in order; none where another is asked for."""
        return [chunk for chunk in self.chunks if chunk.metadata["source_id"] == source_id]

    @cached_property
    def term_statistics(self) -> TermStatistics:
        """How often terms occur in the chunks, with their titles and headings."""
        return TermStatistics.of_texts(
            titled_text(*titles_and_text(chunk)) for chunk in self.chunks
        )

    @cached_property
    def _terms(self) -> BM25Pool:
        """The chunks as BM25 scores them: their own words, and those of what they stand under."""
        return BM25Pool(self.chunks, parts=titles_and_text)

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        """Return the `k` chunks that BM25 scores highest of those with any term of the query, best first."""
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
    """What a chunk stands under, the title of its document and the heading of its section; and its text."""
    parts = (chunk.metadata.get("title"), chunk.metadata.get("section"))
    return ". ".join(
        dict.fromkeys(str(part).rstrip(".") for part in parts if part)
    ), chunk.page_content


def _kept(
    file: Path, make: Callable[[], tuple[list[Document], NDArray[np.float32]]]
) -> tuple[list[Document], NDArray[np.float32]]:
    """Return what the file holds, or else what is made and kept there, by one process at a time."""
    # The texts of documents are nobody else's business.
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    busy = KnowledgeBaseError(
        f"Another process holds {file.with_suffix('.lock')} for an hour: end it, and ask again."
    )
    with lock(file.with_suffix(".lock"), busy, timeout=LONGEST_WAIT):
        if (found := _read(file)) is None:
            found = make()
            chunks = json.dumps(
                [[chunk.id, chunk.page_content, chunk.metadata] for chunk in found[0]]
            )
            with replacing(file) as unfinished, unfinished.open("wb") as stream:
                np.savez(stream, chunks=np.frombuffer(chunks.encode(), np.uint8), vectors=found[1])
            for old in sorted(file.parent.glob("*.npz"), key=lambda kept: kept.stat().st_mtime)[
                :-MAX_KEPT
            ]:
                old.unlink(missing_ok=True)
                old.with_suffix(".lock").unlink(missing_ok=True)
    return found


def _read(file: Path) -> tuple[list[Document], NDArray[np.float32]] | None:
    """Return the chunks and vectors that a file holds; None where there is none, or it is damaged."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            chunks, vectors = json.loads(kept["chunks"].tobytes()), kept["vectors"]
        os.utime(file)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return [Document(id=id, page_content=text, metadata=more) for id, text, more in chunks], vectors
