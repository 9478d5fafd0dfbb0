"""The base class of the retrievers: k, filters, ranks and scores."""

from abc import abstractmethod
from collections.abc import Iterable

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, field_validator

from briefcontext.errors import InputError
from briefcontext.knowledge.store.filters import NO_FILTERS, Filters
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.term_statistics import TermStatistics

__all__ = ["DEFAULT_K", "RankingRetriever", "ranked", "refuse_filters"]

DEFAULT_K = 16
"""How many documents a retriever returns unless told otherwise."""


class RankingRetriever(BaseRetriever):
    """A retriever whose documents carry `rank` (1 is best) and `score` (higher is better) in their metadata.

    `k`, the number of documents, is set for the retriever, or for one call: `retriever.invoke(query, k=3)`.
    A `k` below 1 raises InputError. Fewer documents come back where there are no more. So are `filters`: only what
    fulfils them is searched, and those of a call take the place of the retriever's own. A retriever that cannot search
    by filters raises InputError when it is given some.

    A subclass implements `_search`, and overrides `_asearch` when it has something to await.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    k: int = DEFAULT_K
    """How many documents to return."""
    filters: Filters = NO_FILTERS
    """What every document has to fulfil."""

    @field_validator("k")
    @classmethod
    def _check_k(cls, k: int) -> int:
        if k < 1:
            raise InputError(f"k, the number of documents to retrieve, must be at least 1, not {k}.")
        return k

    @property
    def term_statistics(self) -> TermStatistics | None:
        """How often terms occur in the whole corpus, for BM25 over what was retrieved; None where it is unknown."""
        return None

    @property
    def dense_over(self) -> Manifest | None:
        """The manifest of the knowledge base whose dense ranking this is; None for any other ranking."""
        return None

    @property
    def ranks_by_bm25(self) -> bool:
        """Whether this ranking is BM25's own, so that comparing the two says nothing."""
        return False

    @abstractmethod
    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        """Return at most `k` documents that fulfil the filters, best first, made by `ranked`."""

    async def _asearch(
        self, query: str, k: int, filters: Filters, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        """Return what `_search` returns; by default from another thread, as BaseRetriever does it."""
        return await run_in_executor(None, self._search, query, k, filters, run_manager.get_sync())

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: Filters = NO_FILTERS,
    ) -> list[Document]:
        return self._search(query, self.k if k is None else self._check_k(k), filters or self.filters, run_manager)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: Filters = NO_FILTERS,
    ) -> list[Document]:
        asked = self.k if k is None else self._check_k(k)
        return await self._asearch(query, asked, filters or self.filters, run_manager)


def refuse_filters(filters: Filters, searched: str) -> None:
    """Raise InputError where there are filters, for what cannot be searched by them."""
    if filters:
        raise InputError(
            f"{searched} cannot be searched by filters ({filters}): leave them out, or ask a knowledge base."
        )


def ranked(scored: Iterable[tuple[Document, float]]) -> list[Document]:
    """Return copies of documents, given best first with their scores, that carry `rank` and `score`."""
    return [
        document.model_copy(update={"metadata": {**document.metadata, "rank": rank, "score": float(score)}})
        for rank, (document, score) in enumerate(scored, start=1)
    ]
