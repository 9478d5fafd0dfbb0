"""BM25 over a pool of documents in memory: the second opinion of the preflight check."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]

from briefcontext.knowledge.store.term_statistics import BM25_B, BM25_K1, TermStatistics
from briefcontext.knowledge.store.tokenizer import lexical_text, tokenize

__all__ = ["BM25Pool", "BM25Ranking", "rank_by_bm25"]


@dataclass(frozen=True, slots=True)
class BM25Ranking:
    """A pool of n documents as BM25 ranks it."""

    order: list[int]
    """Positions in the pool, best first; equal scores keep the order of the pool."""
    scores: list[float]
    """BM25 scores in the order of the pool, 0 where no term of the query occurs."""


def rank_by_bm25(query: str, documents: Sequence[Document], statistics: TermStatistics | None = None) -> BM25Ranking:
    """Rank documents, given in the order of another ranking, by BM25 on title and text.

    Document frequencies are those of the pool itself, or of the corpus behind it when its `statistics` are
    given. A query without terms, or with none that the pool holds, leaves the pool's own order.
    """
    scores = BM25Pool(documents, statistics).scores(query)
    return BM25Ranking(order=sorted(range(len(scores)), key=lambda place: -scores[place]), scores=scores)


class BM25Pool:
    """Documents in memory, ready to be scored for one query after another."""

    def __init__(self, documents: Sequence[Document], statistics: TermStatistics | None = None) -> None:
        """Take the terms of the documents; `statistics` as in `rank_by_bm25`."""
        self._statistics = statistics
        terms = [
            tokenize(lexical_text(str(document.metadata.get("title") or ""), document.page_content))
            for document in documents
        ]
        self._held = [set(document) for document in terms]
        # BM25Okapi divides by the mean length.
        self._okapi = _Okapi(terms, k1=BM25_K1, b=BM25_B) if any(terms) else None
        if self._okapi and statistics is not None and statistics.average_length > 0:
            self._okapi.avgdl = statistics.average_length

    def scores(self, query: str) -> list[float]:
        """Return the BM25 score of each document, in the order of the pool."""
        terms = tokenize(query)
        if self._okapi is None or not terms:
            return [0.0] * len(self._held)
        # Only now, as corpus statistics are looked up on disk and a query has few of the pool's terms.
        for term in terms:
            if term not in self._okapi.idf and any(term in document for document in self._held):
                self._okapi.idf[term] = self._rarity(term)
        return [float(score) for score in self._okapi.get_scores(terms)]

    def best(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return the places and scores of the `k` best documents, best first, of those with any term of a query."""
        scored = [(place, score) for place, score in enumerate(self.scores(query)) if score > 0]
        return sorted(scored, key=lambda pair: -pair[1])[:k]

    def coverage(self, query: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which document holds which distinct term of a query (n, t), and the terms' rarity (t,).

        Rarity is the inverse document frequency that BM25 weighs by, in the corpus where its statistics are known.
        """
        terms = list(dict.fromkeys(tokenize(query)))
        holds = np.array([[term in document for term in terms] for document in self._held], dtype=np.bool_)
        rarity = np.array([self._rarity(term) for term in terms], dtype=np.float64)
        return holds.reshape(len(self._held), len(terms)), rarity

    def _rarity(self, term: str) -> float:
        """Return Lucene's inverse document frequency, which is always positive.

        BM25Okapi's own is zero or negative for a term that half of the documents hold, as most terms of the query
        are in a pool of 8 to 64 documents that a retriever chose for it.
        """
        if self._statistics is None:
            n, count = len(self._held), sum(term in document for document in self._held)
        else:
            n, count = self._statistics.n_documents, self._statistics.document_frequency(term)
        return math.log(1 + (n - count + 0.5) / (count + 0.5))


class _Okapi(BM25Okapi):  # type: ignore[misc]
    """Okapi BM25 without document frequencies of its own: the pool sets them."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        pass
