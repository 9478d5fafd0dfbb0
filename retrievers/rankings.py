"""Rankings: BM25 of a pool, fusion, order preservation, and the comparison of two rankings."""

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
"""Documents of each ranking that are compared (BriefContext, preflight check)."""
PREFLIGHT_IOU_THRESHOLD = 0.2
"""Delta of BriefContext's equation 1. At n = 3, the overlap is 0, 0.2, 0.5 or 1."""
SPOTLIGHT = 3
"""Last rank at which readers find a key document (BriefContext, label of the preflight check)."""
RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""


def clear_top(scores: Sequence[float], n: int) -> list[int]:
    """Return the places of the n best scores, best first, or none if the top is unclear.

    It is unclear if one of them is 0, because that document has no term of the question, or if the
    last of them equals the next score.
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
    """Fuse rankings of ids, each best first, into one ranking with scores.

    The score is the sum of `1 / (k + rank)` over the rankings, ranks from 1 (Cormack et al. 2009).
    For a repeated id, the first place counts. Equal scores keep the order in which the rankings
    name the ids.
    """
    parts: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, id in enumerate(dict.fromkeys(ranking), start=1):
            parts.setdefault(id, []).append(1 / (k + rank))
    # The exact sum keeps equal ranks equal in every order of the rankings.
    fused = [(id, math.fsum(scores)) for id, scores in parts.items()]
    return sorted(fused, key=lambda pair: -pair[1])


def dense_scores(documents: Sequence[Document]) -> NDArray[np.float64]:
    """Return the dense ranking's scores (n,) of retrieved documents.

    For hybrid search this is `dense_score`, or the smallest one for documents that only BM25
    returned. Raises InputError if a document has no score.
    """
    hybrid = any("dense_score" in document.metadata for document in documents)
    scores = [document.metadata.get("dense_score" if hybrid else "score") for document in documents]
    if hybrid:
        least = min(score for score in scores if score is not None)
        scores = [least if score is None else score for score in scores]
    if not all(isinstance(score, Real) for score in scores):
        raise InputError(
            "A retrieved document has no score. Use a BriefContext retriever, or preflight='iou'."
        )
    return np.array(scores, dtype=np.float64)


def dense_order(documents: Sequence[Document]) -> list[Document]:
    """Sort documents by the dense ranking. Those that only BM25 returned come last."""
    if not any("dense_score" in document.metadata for document in documents):
        return list(documents)
    return sorted(documents, key=lambda document: -document.metadata.get("dense_score", -math.inf))


def order_preserving(documents: Sequence[Document]) -> list[Document]:
    """Sort retrieved documents by their order in the source (OP-RAG, Yu et al. 2024).

    Groups by `source_id` follow each other in the order of their best rank, and the chunks of a
    group in the order of the source. For one long source this is equation 2 of the paper. The
    result is a permutation, and sorting it again changes nothing.
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
    """Documents in memory that BM25 scores on title and text.

    Document frequencies are those of the pool, or of its corpus if `statistics` are given.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        statistics: TermStatistics | None = None,
        parts: Callable[[Document], tuple[str, str]] = title_and_text,
    ) -> None:
        """Index the documents; `parts` gives their titles and texts."""
        self._documents = documents
        self._statistics = statistics
        terms = [tokenize(titled_text(*parts(document))) for document in documents]
        self._held = [set(document) for document in terms]
        # BM25Okapi divides by the mean length, which is 0 without any term.
        self._okapi = BM25Okapi(terms, k1=BM25_K1, b=BM25_B) if any(terms) else None
        if self._okapi:
            self._okapi.idf = {}
            if statistics is not None and statistics.average_length > 0:
                self._okapi.avgdl = statistics.average_length

    def scores(self, query: str) -> list[float]:
        """Return the score of each document, 0 without a term of the query, in order."""
        terms = tokenize(query)
        if self._okapi is None or not terms:
            return [0.0] * len(self._held)
        # Looked up only now, because corpus statistics are on disk and a query has few terms.
        for term in terms:
            if term not in self._okapi.idf and any(term in document for document in self._held):
                self._okapi.idf[term] = self._rarity(term)
        return [float(score) for score in self._okapi.get_scores(terms)]

    def search_terms(self, query: str, k: int, filters: Filters = NO_FILTERS) -> list[Document]:
        """Return the `k` best documents with a term of the query, with `rank` and `score`."""
        refuse_filters(filters, "A list of documents")
        scored = zip(self._documents, self.scores(query), strict=True)
        return ranked(
            sorted((pair for pair in scored if pair[1] > 0), key=lambda pair: -pair[1])[:k]
        )

    def coverage(self, query: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which document has which distinct term (n, t), and the terms' rarity (t,).

        Rarity is the inverse document frequency of BM25, in the corpus if its statistics are known.
        """
        terms = list(dict.fromkeys(tokenize(query)))
        holds = np.array(
            [[term in document for term in terms] for document in self._held], dtype=np.bool_
        )
        rarity = np.array([self._rarity(term) for term in terms], dtype=np.float64)
        return holds.reshape(len(self._held), len(terms)), rarity

    def _rarity(self, term: str) -> float:
        """Return Lucene's inverse document frequency, which is always positive.

        BM25Okapi's own is zero or negative for a term of half of the documents, which is usual in a
        pool of 8 to 64 documents that a retriever selected.
        """
        if self._statistics is None:
            n, count = len(self._held), sum(term in document for document in self._held)
        else:
            n, count = self._statistics.n_documents, self._statistics.document_frequency(term)
        return math.log(1 + (n - count + 0.5) / (count + 0.5))


@dataclass(frozen=True)
class TwoRankings:
    """The n documents retrieved for a question, in dense order, scored by both rankings."""

    dense: NDArray[np.float64]
    """The dense ranking's scores (n,), best first."""
    bm25: NDArray[np.float64]
    """BM25's scores (n,) of the same documents, in the same order."""
    rarity: NDArray[np.float64]
    """Inverse document frequency (t,) of each distinct term of the question."""
    holds: NDArray[np.bool_]
    """Whether a document has a term (n, t)."""
    question: str = ""
    """The question."""

    @classmethod
    def from_documents(
        cls, query: str, documents: Sequence[Document], statistics: TermStatistics | None = None
    ) -> Self:
        """Score retrieved documents, which carry dense scores, by BM25 as well.

        `statistics` as in `BM25Pool`. Raises InputError without documents or without scores.
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
"""Names of the signals that a calibration is fitted on.

Chosen by forward selection, leaving out each data set in turn, on the questions of the preflight's
benchmark.
"""
_DESCRIBE = re.compile(r"describe|explain|define|what is the (role|function|mechanism)")


def measure(rankings: TwoRankings) -> dict[str, float]:
    """Return all signals by name.

    The top is the first three documents of the dense ranking; the rest are the documents below, or
    the last document.

    - coverage: the largest share of the question's terms in a document, weighted by rarity, in the
      top, and in the rest minus the top.
    - bm25: BM25's best score in the rest minus the top's, as a share of the best.
    - dense: the first score minus the mean of the rest, and minus the second; the third minus the
      last.
    - query: the logarithm of one plus the number of distinct terms; their mean rarity.
    - names: the share of the question's names (with a capital or digit, such as BRCA1, but not the
      first word) that a document of the top has; 1 without names.
    - asks_for_description: 1 if the question asks for a description, a role or a mechanism.
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
