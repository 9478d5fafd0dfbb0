"""Several retrievers as one, by reciprocal rank fusion."""

import asyncio
from collections.abc import Sequence
from typing import Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from pydantic import model_validator

from briefcontext.errors import InputError
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.term_statistics import TermStatistics
from briefcontext.retrievers.fusion import RRF_K, reciprocal_rank_fusion
from briefcontext.retrievers.ranking_retriever import RankingRetriever, ranked
from briefcontext.retrievers.wrapped import as_ranking_retriever

__all__ = ["HybridRetriever"]

FETCH_K = 16
"""How many documents of each retriever are fused. Deeper, those that all rank low come to displace those that
one ranks high: on the BioASQ yes/no questions, fusing 100 of each found fewer answers among the first 16."""


class HybridRetriever(RankingRetriever):
    """Fuses the rankings of several retrievers, such as a dense one and BM25 (see `reciprocal_rank_fusion`).

    Documents are the same when their ids are; the first retriever that found one provides it. The score is
    the fused one.
    """

    retrievers: Sequence[RetrieverLike]
    """Any LangChain retrievers; those that are not BriefContext's are wrapped."""
    rrf_k: int = RRF_K
    weights: Sequence[float] | None = None
    """One for each retriever; None: all count alike."""
    fetch_k: int = FETCH_K
    """How many documents to ask each retriever for; never fewer than `k`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.retrievers:
            raise InputError("HybridRetriever needs at least one retriever, and none was given.")
        # Fusing nothing finds bad weights now and not at the first question.
        reciprocal_rank_fusion([[]] * len(self.retrievers), self.rrf_k, self.weights)
        return self

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those of the first retriever that knows them."""
        known = (as_ranking_retriever(retriever).term_statistics for retriever in self.retrievers)
        return next((statistics for statistics in known if statistics is not None), None)

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        depth = max(k, self.fetch_k)
        return self._fused(
            [
                as_ranking_retriever(retriever).invoke(
                    query, {"callbacks": run_manager.get_child()}, k=depth, filters=filters
                )
                for retriever in self.retrievers
            ],
            k,
        )

    async def _asearch(
        self, query: str, k: int, filters: Filters, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        depth = max(k, self.fetch_k)
        return self._fused(
            await asyncio.gather(
                *(
                    as_ranking_retriever(retriever).ainvoke(
                        query, {"callbacks": run_manager.get_child()}, k=depth, filters=filters
                    )
                    for retriever in self.retrievers
                )
            ),
            k,
        )

    def _fused(self, found: Sequence[list[Document]], k: int) -> list[Document]:
        rankings = [[str(document.id) for document in documents] for documents in found]
        # Reversed, so that the first retriever's document remains.
        by_id = {str(document.id): document for documents in reversed(found) for document in documents}
        fused = reciprocal_rank_fusion(rankings, self.rrf_k, self.weights)
        return ranked((by_id[id], score) for id, score in fused[:k])
