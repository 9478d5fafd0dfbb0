"""Retrievers made of others: several fused into one, or one whose candidates a scorer puts in order."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from numpy.typing import NDArray
from pydantic import field_validator, model_validator

from briefcontext.errors import InputError
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.ranking_retriever import RankingRetriever, as_ranking_retriever, ranked
from briefcontext.retrievers.rankings import RRF_K, reciprocal_rank_fusion

__all__ = ["HybridRetriever", "PassageScorer", "RerankingRetriever"]

FUSED_K = 16
"""How many documents of each retriever are fused. Deeper, those that all rank low come to displace those that
one ranks high: on the BioASQ yes/no questions, fusing 100 of each found fewer answers among the first 16."""
SCORED_K = 64
"""How many candidates are scored unless told otherwise."""


class HybridRetriever(RankingRetriever):
    """Fuses the rankings of several retrievers, such as a dense one and BM25 (see `reciprocal_rank_fusion`).

    Documents are the same when their ids are; the first retriever that found one provides it. The score is
    the fused one.
    """

    retrievers: Sequence[RankingRetriever]
    """Any LangChain retrievers; those that are not BriefContext's are wrapped."""
    rrf_k: int = RRF_K
    weights: Sequence[float] | None = None
    """One for each retriever; None: all count alike."""
    fetch_k: int = FUSED_K
    """How many documents to ask each retriever for; never fewer than `k`."""

    @field_validator("retrievers", mode="before")
    @classmethod
    def _wrapped(cls, retrievers: Sequence[RetrieverLike]) -> list[RankingRetriever]:
        return [as_ranking_retriever(retriever) for retriever in retrievers]

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
        known = (retriever.term_statistics for retriever in self.retrievers)
        return next((statistics for statistics in known if statistics is not None), None)

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        config, depth = RunnableConfig(callbacks=run_manager.get_child()), max(k, self.fetch_k)
        return self._fused([each.invoke(query, config, k=depth, filters=filters) for each in self.retrievers], k)

    async def _asearch(
        self, query: str, k: int, filters: Filters, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        config, depth = RunnableConfig(callbacks=run_manager.get_child()), max(k, self.fetch_k)
        asked = (each.ainvoke(query, config, k=depth, filters=filters) for each in self.retrievers)
        return self._fused(await asyncio.gather(*asked), k)

    def _fused(self, found: Sequence[list[Document]], k: int) -> list[Document]:
        rankings = [[str(document.id) for document in documents] for documents in found]
        # Reversed, so that the first retriever's document remains.
        by_id = {str(document.id): document for documents in reversed(found) for document in documents}
        fused = reciprocal_rank_fusion(rankings, self.rrf_k, self.weights)
        return ranked((by_id[id], score) for id, score in fused[:k])


@runtime_checkable
class PassageScorer(Protocol):
    """Scores passages for a question; a cross-encoder does."""

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return a score, higher is better, for each (title, text): `(n,) float32`."""


class RerankingRetriever(RankingRetriever):
    """Retrieves candidates and returns the best of them by a scorer, whose score they carry.

    Equal scores keep the order of the candidates.
    """

    retriever: RankingRetriever
    """Any LangChain retriever; one that is not BriefContext's is wrapped."""
    scorer: PassageScorer
    fetch_k: int = SCORED_K
    """How many candidates to score; never fewer than `k`."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those of the retriever behind."""
        return self.retriever.term_statistics

    @field_validator("retriever", mode="before")
    @classmethod
    def _wrapped(cls, retriever: RetrieverLike) -> RankingRetriever:
        return as_ranking_retriever(retriever)

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        config, depth = RunnableConfig(callbacks=run_manager.get_child()), max(k, self.fetch_k)
        return self._reranked(query, self.retriever.invoke(query, config, k=depth, filters=filters), k)

    async def _asearch(
        self, query: str, k: int, filters: Filters, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        config, depth = RunnableConfig(callbacks=run_manager.get_child()), max(k, self.fetch_k)
        candidates = await self.retriever.ainvoke(query, config, k=depth, filters=filters)
        return await run_in_executor(None, self._reranked, query, candidates, k)

    def _reranked(self, query: str, candidates: list[Document], k: int) -> list[Document]:
        passages = [
            title_and_text(str(document.metadata.get("title") or ""), document.page_content) for document in candidates
        ]
        scores = [float(score) for score in self.scorer.score(query, passages)] if passages else []
        scored = zip(candidates, scores, strict=True)
        return ranked(sorted(scored, key=lambda pair: -pair[1])[:k])
