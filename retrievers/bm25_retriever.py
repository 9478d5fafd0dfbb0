"""Lexical retrieval: the passages that BM25 scores highest for the question's terms."""

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document

from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.bm25 import BM25Pool
from briefcontext.retrievers.passage import as_passages
from briefcontext.retrievers.ranking_retriever import DEFAULT_K, RankingRetriever, ranked, refuse_filters

__all__ = ["BM25Retriever", "LexicalSearch"]


@runtime_checkable
class LexicalSearch(Protocol):
    """The methods of a `KnowledgeBase` that a lexical retriever uses."""

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        """Return the `k` passages that BM25 scores highest of those that fulfil the filters, best first.

        They have `score` in their metadata.
        """


class BM25Retriever(RankingRetriever):
    """Retrieves by BM25 on title and text, from a knowledge base or a list of documents.

    Passages without any term of the question are left out, so that fewer than `k` may come back.
    """

    knowledge_base: LexicalSearch

    @property
    def ranks_by_bm25(self) -> bool:
        """BM25's own ranking."""
        return True

    @classmethod
    def from_documents(cls, documents: Sequence[Document], k: int = DEFAULT_K) -> Self:
        """Retrieve from documents in memory, made for thousands of them; ids and metadata are completed."""
        return cls(knowledge_base=_Documents(documents), k=k)

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.knowledge_base.search_terms(query, k, filters)
        return ranked((document, document.metadata["score"]) for document in found)


class _Documents:
    """A list of documents that is searched by BM25."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = as_passages(documents)
        self._pool = BM25Pool(self._documents)

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        refuse_filters(filters, "A list of documents")
        scored = zip(self._documents, self._pool.scores(query), strict=True)
        found = [(document, score) for document, score in scored if score > 0]
        return ranked(sorted(found, key=lambda pair: -pair[1])[:k])
