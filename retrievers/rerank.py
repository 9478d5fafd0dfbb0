"""Retrieval in two steps: many candidates, put in order by a scorer that reads each with the question."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables.config import run_in_executor
from numpy.typing import NDArray

from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.term_statistics import TermStatistics
from briefcontext.retrievers.ranking_retriever import RankingRetriever, ranked
from briefcontext.retrievers.wrapped import as_ranking_retriever

__all__ = ["PassageScorer", "RerankingRetriever"]

FETCH_K = 64
"""How many candidates are scored unless told otherwise."""


@runtime_checkable
class PassageScorer(Protocol):
    """Scores passages for a question; a cross-encoder does."""

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return a score, higher is better, for each (title, text): `(n,) float32`."""


class RerankingRetriever(RankingRetriever):
    """Retrieves candidates and returns the best of them by a scorer, whose score they carry.

    Equal scores keep the order of the candidates.
    """

    retriever: RetrieverLike
    """Any LangChain retriever; one that is not BriefContext's is wrapped."""
    scorer: PassageScorer
    fetch_k: int = FETCH_K
    """How many candidates to score; never fewer than `k`."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those of the retriever behind."""
        return as_ranking_retriever(self.retriever).term_statistics

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        candidates = as_ranking_retriever(self.retriever).invoke(
            query, {"callbacks": run_manager.get_child()}, k=max(k, self.fetch_k), filters=filters
        )
        return self._reranked(query, candidates, k)

    async def _asearch(
        self, query: str, k: int, filters: Filters, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        candidates = await as_ranking_retriever(self.retriever).ainvoke(
            query, {"callbacks": run_manager.get_child()}, k=max(k, self.fetch_k), filters=filters
        )
        return await run_in_executor(None, self._reranked, query, candidates, k)

    def _reranked(self, query: str, candidates: list[Document], k: int) -> list[Document]:
        passages = [
            title_and_text(str(document.metadata.get("title") or ""), document.page_content) for document in candidates
        ]
        scores = [float(score) for score in self.scorer.score(query, passages)] if passages else []
        scored = zip(candidates, scores, strict=True)
        return ranked(sorted(scored, key=lambda pair: -pair[1])[:k])
