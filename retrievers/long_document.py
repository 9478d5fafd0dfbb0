"""Retrieval from one long document, without a knowledge base."""

from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from numpy.typing import NDArray
from pydantic import SkipValidation

from briefcontext.knowledge.chunking import CHUNK_TOKENS
from briefcontext.knowledge.encoders import Encoder
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.bm25 import BM25Pool
from briefcontext.retrievers.bm25_retriever import BM25Retriever
from briefcontext.retrievers.document_index import Progress, index_document, index_file, titles
from briefcontext.retrievers.ranking_retriever import DEFAULT_K, RankingRetriever, ranked, refuse_filters

__all__ = ["LongDocumentRetriever"]


class LongDocumentRetriever(RankingRetriever):
    """Retrieves the chunks of a document that are nearest to the question (OP-RAG, Yu et al. 2024).

    A chunk is encoded under the title of its document and the heading of its section. The score is the encoder's
    similarity; chunks of equal score keep the order of the document.
    """

    encoder: SkipValidation[Encoder]
    chunks: list[Document]
    """The document in chunks, in order."""
    vectors: SkipValidation[NDArray[np.float32]]
    """The chunks' vectors, `(n, d) float32`."""

    @classmethod
    def from_document(
        cls,
        document: Document,
        encoder: Encoder,
        *,
        tokens: int = CHUNK_TOKENS,
        exact: bool = False,
        k: int = DEFAULT_K,
    ) -> Self:
        """Cut a document into chunks (see `chunk_document`) and encode them.

        Raises:
            KnowledgeBaseError: there is no text in it.
        """
        index = index_document(document, encoder, tokens=tokens, exact=exact)
        return cls(encoder=encoder, chunks=index.chunks, vectors=index.vectors, k=k)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        encoder: Encoder,
        *,
        tokens: int = CHUNK_TOKENS,
        k: int = DEFAULT_K,
        progress: Progress | None = None,
    ) -> Self:
        """Read a file of any format that can be indexed and holds one document, or take what is kept of it.

        What is made of it is kept in the user's cache folder: see `index_file`.

        Raises:
            KnowledgeBaseError: the file is missing, cannot be read, or holds more than one document.
        """
        index = index_file(path, encoder, tokens=tokens, progress=progress)
        return cls(encoder=encoder, chunks=index.chunks, vectors=index.vectors, k=k)

    def source(self, source_id: str) -> list[Document]:
        """The chunks of this document, in order; none where another is asked for."""
        return [chunk for chunk in self.chunks if chunk.metadata["source_id"] == source_id]

    @cached_property
    def bm25(self) -> BM25Retriever:
        """Retrieves from the same chunks by BM25, with what each stands under."""
        return BM25Retriever(knowledge_base=_Terms(self.chunks))

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        refuse_filters(filters, "One document")
        scores = self.vectors @ self.encoder.encode_queries([query])[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return ranked((self.chunks[place], float(scores[place])) for place in order)


class _Terms:
    """The chunks of a document as BM25 scores them: their own words, and those of what they stand under."""

    def __init__(self, chunks: list[Document]) -> None:
        self._chunks = chunks
        self._pool = BM25Pool(
            [chunk.model_copy(update={"metadata": {**chunk.metadata, "title": titles(chunk)}}) for chunk in chunks]
        )

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        refuse_filters(filters, "One document")
        scored = zip(self._chunks, self._pool.scores(query), strict=True)
        return ranked(sorted((pair for pair in scored if pair[1] > 0), key=lambda pair: -pair[1])[:k])
