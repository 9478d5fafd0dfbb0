"""Retrieval from one long document, without a knowledge base."""

from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from numpy.typing import NDArray
from pydantic import SkipValidation

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.encoders import Encoder
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.records import Reject
from briefcontext.knowledge.sources.source import VectorDocument
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.bm25_retriever import BM25Retriever
from briefcontext.retrievers.ranking_retriever import DEFAULT_K, RankingRetriever, ranked, refuse_filters

__all__ = ["LongDocumentRetriever"]


class LongDocumentRetriever(RankingRetriever):
    """Retrieves the chunks of a document that are nearest to the question (OP-RAG, Yu et al. 2024).

    The score is the encoder's similarity; chunks of equal score keep the order of the document.
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
        chunks = chunk_document(document, encoder, tokens=tokens, exact=exact)
        if not chunks:
            raise KnowledgeBaseError(f"There is no text in {document.id}. Give a document that has some.")
        title = str(document.metadata.get("title") or "")
        vectors = encoder.encode_passages([(title, chunk.page_content) for chunk in chunks])
        return cls(encoder=encoder, chunks=chunks, vectors=vectors, k=k)

    @classmethod
    def from_file(cls, path: str | Path, encoder: Encoder, *, tokens: int = CHUNK_TOKENS, k: int = DEFAULT_K) -> Self:
        """Read a file of any format that can be indexed and holds one document; otherwise like `from_document`.

        Raises:
            KnowledgeBaseError: the file is missing, cannot be read, or holds more than one document.
        """
        documents = []
        for source in open_sources(path):
            for entry in source.entries():
                if isinstance(entry, Reject):
                    raise KnowledgeBaseError(f"{path} cannot be read at {entry.position}: {entry.reason}")
                if isinstance(entry, VectorDocument):
                    entry = entry.document
                if isinstance(entry, Document):
                    documents.append(entry)
                if len(documents) > 1:
                    raise KnowledgeBaseError(
                        f"{path} holds more than one document. Index it: briefcontext index {path} --kb DIR"
                    )
        if not documents:
            raise KnowledgeBaseError(f"There is no document in {path}. Give a file that holds one.")
        return cls.from_document(documents[0], encoder, tokens=tokens, k=k)

    @cached_property
    def bm25(self) -> BM25Retriever:
        """Retrieves from the same chunks by BM25."""
        return BM25Retriever.from_documents(self.chunks)

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        refuse_filters(filters, "One document")
        scores = self.vectors @ self.encoder.encode_queries([query])[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return ranked((self.chunks[place], float(scores[place])) for place in order)
