"""Lexical retrieval: the passages that BM25 scores highest for the question's terms."""

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.retrievers.bm25 import BM25Pool
from briefcontext.retrievers.passage import as_passages
from briefcontext.retrievers.ranking_retriever import DEFAULT_K, RankingRetriever, ranked

__all__ = ["BM25Retriever", "LexicalIndex", "LexicalSearch"]

_ATTEMPTS = 3


class LexicalIndex(Protocol):
    """Finds passages by their terms; a `BM25Index` does."""

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the ids and scores of the `k` best passages, best first."""


@runtime_checkable
class LexicalSearch(Protocol):
    """What a lexical retriever needs of a `KnowledgeBase`."""

    @property
    def bm25(self) -> LexicalIndex | None:
        """The index over all passages; None when there is none."""

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the passages with these ids, in the same order."""

    def __len__(self) -> int:
        """Return the number of passages."""


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

    def _search(self, query: str, k: int, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        base = self.knowledge_base
        for _ in range(_ATTEMPTS - 1):
            index = base.bm25
            try:
                found = self._found(index, query, k)
            except KnowledgeBaseError:
                if base.bm25 is index:
                    raise
            else:
                # Else an update became complete between the search and the passages.
                if base.bm25 is index:
                    return found
        return self._found(base.bm25, query, k)

    def _found(self, index: LexicalIndex | None, query: str, k: int) -> list[Document]:
        if index is None:
            if not len(self.knowledge_base):
                return []
            raise KnowledgeBaseError(f"The knowledge base {self.knowledge_base!r} has no BM25 index: build it again.")
        found = index.search(query, k)
        documents = self.knowledge_base.get([id for id, _ in found])
        return ranked((document, score) for document, (_, score) in zip(documents, found, strict=True))


class _Documents:
    """A list of documents as a knowledge base and its index."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = {str(document.id): document for document in as_passages(documents)}
        self._pool = BM25Pool(list(self._documents.values()))

    @property
    def bm25(self) -> LexicalIndex:
        return self

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        scored = zip(self._documents, self._pool.scores(query), strict=True)
        found = [(id, score) for id, score in scored if score > 0]
        return sorted(found, key=lambda pair: -pair[1])[:k]

    def get(self, ids: Sequence[str]) -> list[Document]:
        return [self._documents[id] for id in ids]

    def __len__(self) -> int:
        return len(self._documents)
