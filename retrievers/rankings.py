"""Rankings: BM25's of a pool, several made into one, documents put back in their order, and two that are compared.

How two compare tells whether the key document is misplaced: by how far their tops agree, or by
signals, of which none asks a model.
"""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Self

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.knowledge.encoders.encoder import title_and_text, titled_text
from briefcontext.knowledge.store.filters import NO_FILTERS, Filters
from briefcontext.knowledge.store.terms import BM25_B, BM25_K1, TermStatistics, tokenize
from briefcontext.retrievers.ranking_retriever import ranked, refuse_filters

PREFLIGHT_TOP_N = 3
"""How many documents of each ranking are compared (BriefContext, preflight check)."""
PREFLIGHT_IOU_THRESHOLD = 0.2
"""Delta of BriefContext's equation 1: agreement is an overlap *above* it. At n = 3 an overlap is 0, 0.2, 0.5 or 1."""
SPOTLIGHT = 3
"""A key document at this rank or better is found by a reader (BriefContext: its label for the preflight check)."""
RRF_K = 60
"""Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods", SIGIR 2009."""


def clear_top(scores: Sequence[float], n: int) -> list[int]:
    """Return the places of the n best scores, best first; none where the scores do not tell them from the rest.

    They do not where one of them is 0, as no term of the question stands in that document, or where
    the last of them is as good as the next: the order of equal scores is no ranking.
    """
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    best, rest = order[:n], order[n:]
    least = scores[rest[0]] if rest else 0.0
    return best if best and scores[best[-1]] > max(least, 0.0) else []


def intersection_over_union(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the Jaccard index of two collections: shared members over all members, 0 to 1.

    Two empty collections agree: 1.0.
    """
    a, b = set(first), set(second)
    union = a | b
    return len(a & b) / len(union) if union else 1.0


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[str]], k: int = RRF_K
) -> list[tuple[str, float]]:
    """Fuse rankings of ids, each best first, into one of all their ids with their scores.

    An id's score is the sum of `1 / (k + rank)` over the rankings that hold it, ranks from 1
    (Cormack et al. 2009). Of an id that occurs twice in a ranking the first place counts. Equal
    scores stand in the order in which the rankings, read one after another, name their ids.
    """
    parts: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, id in enumerate(dict.fromkeys(ranking), start=1):
            parts.setdefault(id, []).append(1 / (k + rank))
    # The exact sum, so that equal ranks in another order of the rankings remain equal scores.
    fused = [(id, math.fsum(scores)) for id, scores in parts.items()]
    return sorted(fused, key=lambda pair: -pair[1])


def dense_scores(documents: Sequence[Document]) -> NDArray[np.float64]:
    """Return the dense ranking's scores (n,) of retrieved documents.

    Those of hybrid search carry `dense_score`; documents that only BM25 found have the least of
    them. Other documents have their own `score`. Raises InputError when a document has none.
    """
    hybrid = any("dense_score" in document.metadata for document in documents)
    scores = [document.metadata.get("dense_score" if hybrid else "score") for document in documents]
    if hybrid:
        least = min(score for score in scores if score is not None)
        scores = [least if score is None else score for score in scores]
    if not all(isinstance(score, Real) for score in scores):
        raise InputError(
            "A retrieved document has no score: use a retriever of BriefContext's, or preflight='iou'."
        )
    return np.array(scores, dtype=np.float64)


def dense_order(documents: Sequence[Document]) -> list[Document]:
    """Put retrieved documents in the dense ranking's order; those that only BM25 found come last."""
    if not any("dense_score" in document.metadata for document in documents):
        return list(documents)
    return sorted(documents, key=lambda document: -document.metadata.get("dense_score", -math.inf))


def order_preserving(documents: Sequence[Document]) -> list[Document]:
    """Put retrieved documents back in the order of their source (OP-RAG, Yu et al. 2024).

    Documents are grouped by `source_id`; the groups stand in the order of their best rank, which is
    the order in which they are given, and the chunks of a group by their position in the source.
    For one long source this is equation 2 of the paper. The result is a permutation, and arranging
    it again changes nothing.
    """
    group: dict[str, int] = {}

    def place(document: Document) -> tuple[int, int, int]:
        source = group.setdefault(str(document.metadata.get("source_id", document.id)), len(group))
        return (
            source,
            int(document.metadata.get("chunk_index", 0)),
            int(document.metadata.get("start", 0)),
        )

    return sorted(documents, key=place)


class BM25Pool:
    """Documents in memory, ready to be scored by BM25 on title and text for one query after another.

    Document frequencies are those of the pool itself, or of the corpus behind it when its
    `statistics` are given.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        statistics: TermStatistics | None = None,
        parts: Callable[[Document], tuple[str, str]] = title_and_text,
    ) -> None:
        """Take the terms of the documents; `parts` gives their titles and texts."""
        self._documents = documents
        self._statistics = statistics
        terms = [tokenize(titled_text(*parts(document))) for document in documents]
        self._held = [set(document) for document in terms]
        # BM25Okapi divides by the mean length.
        self._okapi = _Okapi(terms, k1=BM25_K1, b=BM25_B) if any(terms) else None
        if self._okapi and statistics is not None and statistics.average_length > 0:
            self._okapi.avgdl = statistics.average_length

    def scores(self, query: str) -> list[float]:
        """Return the score of each document, in the order of the pool; 0 where no term of the query occurs."""
        terms = tokenize(query)
        if self._okapi is None or not terms:
            return [0.0] * len(self._held)
        # Only now, as corpus statistics are looked up on disk and a query has few of the pool's
        # terms.
        for term in terms:
            if term not in self._okapi.idf and any(term in document for document in self._held):
                self._okapi.idf[term] = self._rarity(term)
        return [float(score) for score in self._okapi.get_scores(terms)]

    def search_terms(self, query: str, k: int, filters: Filters = NO_FILTERS) -> list[Document]:
        """Return the `k` best documents of those with any term of a query, best first, with `rank` and `score`."""
        refuse_filters(filters, "A list of documents")
        scored = zip(self._documents, self.scores(query), strict=True)
        return ranked(
            sorted((pair for pair in scored if pair[1] > 0), key=lambda pair: -pair[1])[:k]
        )

    def coverage(self, query: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which document holds which distinct term of a query (n, t), and the terms' rarity (t,).

        Rarity is the inverse document frequency that BM25 weighs by, in the corpus where its
        statistics are known.
        """
        terms = list(dict.fromkeys(tokenize(query)))
        holds = np.array(
            [[term in document for term in terms] for document in self._held], dtype=np.bool_
        )
        rarity = np.array([self._rarity(term) for term in terms], dtype=np.float64)
        return holds.reshape(len(self._held), len(terms)), rarity

    def _rarity(self, term: str) -> float:
        """Return Lucene's inverse document frequency, which is always positive.

        BM25Okapi's own is zero or negative for a term that half of the documents hold, as most
        terms of the query are in a pool of 8 to 64 documents that a retriever chose for it.
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


@dataclass(frozen=True)
class TwoRankings:
    """The n documents retrieved for a question, in the dense ranking's order, as both rankings score them."""

    dense: NDArray[np.float64]
    """The dense ranking's scores (n,), best first."""
    bm25: NDArray[np.float64]
    """BM25's scores (n,) of the same documents, in the same order."""
    rarity: NDArray[np.float64]
    """Inverse document frequency (t,) of each distinct term of the question."""
    holds: NDArray[np.bool_]
    """Whether a document holds a term (n, t)."""
    question: str = ""
    """As it was asked; its distinct terms are those of `rarity` and `holds`."""

    @classmethod
    def of(
        cls, query: str, documents: Sequence[Document], statistics: TermStatistics | None = None
    ) -> Self:
        """Score retrieved documents, which carry the dense ranking's scores, by BM25 as well.

        `statistics` as in `BM25Pool`. Raises InputError without documents, or when one has no
        score.
        """
        if not documents:
            raise InputError("There are no documents to measure: retrieve some first.")
        documents = dense_order(documents)
        dense = dense_scores(documents)
        pool = BM25Pool(documents, statistics)
        holds, rarity = pool.coverage(query)
        return cls(
            dense=dense,
            bm25=np.array(pool.scores(query)),
            rarity=rarity,
            holds=holds,
            question=query,
        )


SIGNALS = (
    "coverage_top",
    "coverage_rest_over_top",
    "bm25_rest_over_top",
    "dense_top_over_rest",
    "dense_margin_first_second",
    "dense_third_over_last",
    "query_terms",
    "query_rarity_mean",
    "names_in_top",
    "asks_for_description",
)
"""The signals that a calibration is fitted on, by name: few, as labelled questions are few.

Chosen by forward selection, each data set left out in turn, over the questions of the benchmark of
the preflight.
"""
_DESCRIBE = re.compile(r"describe|explain|define|what is the (role|function|mechanism)")


def measure(rankings: TwoRankings) -> dict[str, float]:
    """Return all signals by name.

    The top is the dense ranking's first three, which the spotlight reaches, and the rest what
    stands below; where nothing does, the last document.

    - coverage: the best share of the question's terms, weighted by rarity, that a document holds;
      in the top, and below it over that.
    - bm25: BM25's best score below the top over its best in the top, as a share of the best.
    - dense: the first document's score over the mean of the rest, and over the second's; the
      third's over the last's.
    - query: the logarithm of one plus the number of distinct terms; their mean rarity.
    - names: the share of the question's names that a document of the top holds, 1 without names. A
      name has a capital or a digit, as BRCA1 and Dravet have, and is not the question's first word.
    - asks_for_description: 1 where the question asks to describe something, or for its role or
      mechanism.
    """
    dense, bm25, rarity, holds = rankings.dense, rankings.bm25, rankings.rarity, rankings.holds
    rest = slice(min(SPOTLIGHT, len(dense) - 1), None)
    coverage = holds @ rarity / rarity.sum() if rarity.sum() > 0 else np.zeros(len(dense))
    words = re.findall(r"[\w-]+", rankings.question)[1:]
    names = {term for word in words if re.search(r"[A-Z0-9]", word) for term in tokenize(word)}
    named = [
        place
        for place, term in enumerate(dict.fromkeys(tokenize(rankings.question)))
        if term in names
    ]
    values = (
        coverage[:SPOTLIGHT].max(),
        coverage[rest].max() - coverage[:SPOTLIGHT].max(),
        (bm25[rest].max() - bm25[:SPOTLIGHT].max()) / bm25.max() if bm25.max() > 0 else 0,
        dense[0] - dense[rest].mean(),
        dense[0] - dense[min(1, len(dense) - 1)],
        dense[min(SPOTLIGHT, len(dense)) - 1] - dense[-1],
        math.log1p(len(rarity)),
        rarity.mean() if len(rarity) else 0,
        holds[:SPOTLIGHT, named].any(axis=0).mean() if named else 1,
        bool(_DESCRIBE.match(rankings.question.lower())),
    )
    return dict(zip(SIGNALS, map(float, values), strict=True))
