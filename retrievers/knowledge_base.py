"""Retrieval from a knowledge base or a document: dense, BM25, hybrid and reranked."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Literal,
    Protocol,
    Self,
    Unpack,
    get_args,
    runtime_checkable,
)

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PlainValidator, field_validator

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.ranking_retriever import (
    DEFAULT_K,
    RankingRetriever,
    RetrieverFields,
    as_passages,
    as_ranking_retriever,
    ranked,
)
from briefcontext.retrievers.rankings import RRF_K, BM25Pool, reciprocal_rank_fusion

SearchMethod = Literal["dense", "bm25", "hybrid"]
AnyRetriever = Annotated[RankingRetriever, BeforeValidator(as_ranking_retriever)]
"""Any LangChain retriever. Others than BriefContext's are wrapped."""

FUSED_K = 16
"""Documents of each retriever that are fused. On the BioASQ yes/no questions, fusing 100 of each
found fewer answers among the first 16: many low ranks outvote one high rank.
"""
SCORED_K = 64
"""Default number of candidates to score."""


class DenseSearch(Protocol):
    """The methods of a `KnowledgeBase` that a dense retriever uses."""

    @property
    def manifest(self) -> Manifest:
        """The manifest, with the name of the encoder."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Term frequencies over all passages."""

    def search(self, query: str, k: int, filters: Filters) -> list[Document]:
        """Return the `k` nearest passages that fulfil the filters, best first."""


def _opened(given: object) -> object:
    return KnowledgeBase.open(given) if isinstance(given, str | PathLike) else given


def _searched(given: object) -> object:
    searched = _opened(given)
    # An isinstance check of the protocol would evaluate `manifest`, for which live PubMed loads its
    # encoder.
    if not callable(getattr(searched, "search", None)):
        raise ValueError(
            f"{type(given).__name__} has no search: pass an open knowledge base, its folder or "
            "'demo'"
        )
    return searched


class DenseRetriever(RankingRetriever):
    """Retrieves from a knowledge base with the encoder that it was built with.

    The score is the encoder's: cosine similarity or inner product.
    """

    knowledge_base: Annotated[DenseSearch, PlainValidator(_searched)]
    """An open base, its folder, or `demo`."""

    def __init__(
        self, knowledge_base: DenseSearch | str | PathLike[str], **fields: Unpack[RetrieverFields]
    ) -> None:
        super().__init__(knowledge_base=knowledge_base, **fields)  # type: ignore[call-arg]

    @property
    def term_statistics(self) -> TermStatistics | None:
        return self.knowledge_base.term_statistics

    @property
    def dense_over(self) -> Manifest | None:
        return self.knowledge_base.manifest

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        return self.knowledge_base.search(query, k, filters)


class MedCPTRetriever(DenseRetriever):
    """Retrieves by MedCPT's query and article encoders (Jin et al., Bioinformatics 2023).

    A knowledge base that was built with another encoder raises KnowledgeBaseError.
    """

    @field_validator("knowledge_base")
    @classmethod
    def _check_encoder(cls, knowledge_base: DenseSearch) -> DenseSearch:
        encoder = knowledge_base.manifest.encoder.name
        # MedCPT with weights in a folder is named "medcpt:<folder>".
        if encoder.partition(":")[0] != "medcpt":
            raise KnowledgeBaseError(
                "MedCPTRetriever needs a knowledge base built with the encoder 'medcpt', but this "
                f"one was built with {encoder!r}. Use DenseRetriever, or build it with medcpt."
            )
        return knowledge_base


@runtime_checkable
class LexicalSearch(Protocol):
    """The method of a `KnowledgeBase` or a document that BM25 needs."""

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        """Return the `k` passages with the highest BM25 scores that fulfil the filters."""


class BM25Retriever(RankingRetriever):
    """Retrieves by BM25 on title and text, from a knowledge base or a list of documents.

    Passages without any term of the question are left out, so fewer than `k` may be returned.
    """

    knowledge_base: Annotated[LexicalSearch, BeforeValidator(_opened)]
    """An open base, its folder, or `demo`."""

    def __init__(
        self,
        knowledge_base: LexicalSearch | str | PathLike[str],
        **fields: Unpack[RetrieverFields],
    ) -> None:
        super().__init__(knowledge_base=knowledge_base, **fields)  # type: ignore[call-arg]

    @property
    def ranks_by_bm25(self) -> bool:
        return True

    @classmethod
    def from_documents(cls, documents: Sequence[Document], k: int = DEFAULT_K) -> Self:
        """Retrieve from documents in memory. Ids and metadata are completed."""
        return cls(knowledge_base=BM25Pool(as_passages(documents)), k=k)

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        return self.knowledge_base.search_terms(query, k, filters)


class HybridRetriever(RankingRetriever):
    """Fuses the rankings of several retrievers by reciprocal rank (see `reciprocal_rank_fusion`).

    Documents with the same id are one, provided by the first retriever that returns it. The score
    is the fused one. Documents of the first dense retriever carry its score as `dense_score`.
    """

    retrievers: Sequence[AnyRetriever] = Field(min_length=1)
    rrf_k: int = Field(default=RRF_K, ge=0)
    fetch_k: int = FUSED_K
    """Number of documents to request from each retriever, at least `k`."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            retrievers: Sequence[RetrieverLike | VectorStore],
            rrf_k: int = ...,
            fetch_k: int = ...,
            **fields: Unpack[RetrieverFields],
        ) -> None: ...

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those of the first retriever that has them."""
        known = (retriever.term_statistics for retriever in self.retrievers)
        return next((statistics for statistics in known if statistics is not None), None)

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        depth = max(k, self.fetch_k)
        return self._fused(
            [each.invoke(query, config, k=depth, filters=filters) for each in self.retrievers], k
        )

    async def _asearch(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        depth = max(k, self.fetch_k)
        asked = (each.ainvoke(query, config, k=depth, filters=filters) for each in self.retrievers)
        return self._fused(await asyncio.gather(*asked), k)

    def _fused(self, passages: Sequence[list[Document]], k: int) -> list[Document]:
        rankings = [[str(document.id) for document in documents] for documents in passages]
        # Reversed, so that the first retriever's document remains.
        by_id = {
            str(document.id): document for documents in reversed(passages) for document in documents
        }
        dense = next(
            (place for place, each in enumerate(self.retrievers) if not each.ranks_by_bm25), None
        )
        if dense is not None:
            for document in passages[dense]:
                metadata = {
                    **by_id[str(document.id)].metadata,
                    "dense_score": document.metadata["score"],
                }
                by_id[str(document.id)] = document.model_copy(update={"metadata": metadata})
        fused = reciprocal_rank_fusion(rankings, self.rrf_k)
        return ranked((by_id[id], score) for id, score in fused[:k])


@runtime_checkable
class PassageScorer(Protocol):
    """Scores passages for a question, as a cross-encoder does."""

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return a score, higher is better, for each (title, text): `(n,) float32`."""


@lru_cache(8)
def _cross_encoder(name: str) -> PassageScorer:
    from briefcontext.knowledge.encoders.sentence_transformer import CrossEncoderScorer

    return CrossEncoderScorer(None if name == "medcpt" else Path(name))


def open_scorer(scorer: object) -> object:
    """Return a scorer; a name or folder opens a cross-encoder, once."""
    return _cross_encoder(str(scorer)) if isinstance(scorer, str | PathLike) else scorer


class RerankingRetriever(RankingRetriever):
    """Reranks the candidates of another retriever by a scorer, whose score they carry.

    Equal scores keep the order of the candidates.
    """

    retriever: AnyRetriever
    scorer: Annotated[PassageScorer, BeforeValidator(open_scorer)]
    """A scorer, the name `medcpt`, or the folder of a cross-encoder."""
    fetch_k: int = SCORED_K
    """Number of candidates to score, at least `k`."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            retriever: RetrieverLike | VectorStore,
            scorer: PassageScorer | str | PathLike[str],
            fetch_k: int = ...,
            **fields: Unpack[RetrieverFields],
        ) -> None: ...

    @property
    def term_statistics(self) -> TermStatistics | None:
        return self.retriever.term_statistics

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        depth = max(k, self.fetch_k)
        return self._reranked(
            query, self.retriever.invoke(query, config, k=depth, filters=filters), k
        )

    async def _asearch(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        depth = max(k, self.fetch_k)
        candidates = await self.retriever.ainvoke(query, config, k=depth, filters=filters)
        return await run_in_executor(None, self._reranked, query, candidates, k)

    def _reranked(self, query: str, candidates: list[Document], k: int) -> list[Document]:
        passages = [title_and_text(document) for document in candidates]
        scores = [float(score) for score in self.scorer.score(query, passages)] if passages else []
        scored = zip(candidates, scores, strict=True)
        return ranked(sorted(scored, key=lambda pair: -pair[1])[:k])


def retriever_over(
    searched: DenseSearch | RankingRetriever,
    method: SearchMethod = "dense",
    scorer: PassageScorer | str | None = None,
) -> RankingRetriever:
    """Return the retriever over a knowledge base or a document.

    Args:
        searched: A `KnowledgeBase`, live PubMed, or a document's dense retriever.
        method: Dense, BM25, or hybrid (`HybridRetriever`).
        scorer: Reranks the candidates, such as a cross-encoder.

    Raises:
        InputError: The method is unknown, or needs BM25, which live PubMed lacks.
    """
    if method not in get_args(SearchMethod):
        raise InputError(
            f"There is no search method {method!r}: use one of {', '.join(get_args(SearchMethod))}."
        )
    results: list[RankingRetriever] = []
    if method != "bm25":
        results.append(
            searched
            if isinstance(searched, RankingRetriever)
            else DenseRetriever(knowledge_base=searched)
        )
    if method != "dense":
        if not isinstance(searched, LexicalSearch):
            raise InputError(
                f"{searched!r} has no index of words, so it cannot be searched by {method}: use "
                f"dense."
            )
        results.append(BM25Retriever(knowledge_base=searched))
    retriever = results[0] if len(results) == 1 else HybridRetriever(retrievers=results)
    return retriever if scorer is None else RerankingRetriever(retriever=retriever, scorer=scorer)
