"""The graph over rankings that experiments make."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document

from briefcontext.knowledge.bm25_index import TermStatistics
from briefcontext.knowledge.manifest import Manifest
from briefcontext.retrievers.ranking_retriever import RankingRetriever

__all__ = ["GivenRanking", "given"]


@dataclass(frozen=True)
class _Given:
    documents: Sequence[Document]
    statistics: TermStatistics | None


_GIVEN: ContextVar[_Given | None] = ContextVar("given", default=None)


@contextmanager
def given(documents: Sequence[Document], statistics: TermStatistics | None) -> Iterator[None]:
    """Have `GivenRanking` return these documents, in this order, to runs that start inside."""
    ranked = [
        document.model_copy(update={"metadata": {**document.metadata, "rank": rank}})
        for rank, document in enumerate(documents, start=1)
    ]
    token = _GIVEN.set(_Given(ranked, statistics))
    try:
        yield
    finally:
        _GIVEN.reset(token)


class GivenRanking(RankingRetriever):
    """Returns the ranking that is given at the moment, whatever is asked.

    One graph then serves all rankings: to build one takes longer than to run it.
    """

    manifest: Manifest | None = None
    """Of the knowledge base whose dense ranking is given; None where the ranking is synthetic."""

    @property
    def dense_over(self) -> Manifest | None:
        """The manifest, by which a calibrated preflight knows that it may be used."""
        return self.manifest

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those that are given with the ranking."""
        found = _GIVEN.get()
        return found.statistics if found else None

    def _search(self, query: str, k: int, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found = _GIVEN.get()
        return list(found.documents[:k]) if found else []

    async def _asearch(self, query: str, k: int, run_manager: AsyncCallbackManagerForRetrieverRun) -> list[Document]:
        return self._search(query, k, run_manager.get_sync())
