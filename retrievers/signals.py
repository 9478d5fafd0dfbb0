"""Signals of a misplaced key document: pure functions of two rankings of the same documents.

None asks a model. Where fewer than four documents were retrieved, "the rest" below the top three is the last document.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import InputError
from briefcontext.knowledge.store.terms import TermStatistics, tokenize
from briefcontext.retrievers.rankings import BM25Pool

SPOTLIGHT = 3
"""A key document at this rank or better is found by a reader (BriefContext: its label for the preflight check)."""


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
    def of(cls, query: str, documents: Sequence[Document], statistics: TermStatistics | None = None) -> Self:
        """Score documents, given in the dense ranking's order with `score` in their metadata, by BM25 as well.

        `statistics` as in `rank_by_bm25`. Raises InputError when there is no document, or one has no score.
        """
        if not documents:
            raise InputError("There are no documents to measure: retrieve some first.")
        pool = BM25Pool(documents, statistics)
        holds, rarity = pool.coverage(query)
        try:
            dense = np.array([document.metadata["score"] for document in documents], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "A retrieved document has no score, and a calibrated preflight needs one for each: "
                "use a retriever of BriefContext's, or the preflight 'iou'."
            ) from None
        return cls(dense=dense, bm25=np.array(pool.scores(query)), rarity=rarity, holds=holds, question=query)

    @cached_property
    def coverage(self) -> NDArray[np.float64]:
        """The share (n,) of the question's terms, weighted by rarity, that each document holds, 0 to 1."""
        total = self.rarity.sum()
        return self.holds @ self.rarity / total if total > 0 else np.zeros(len(self.dense))

    @property
    def rest(self) -> slice:
        """The documents below the spotlight; the last one where there are none."""
        return slice(min(SPOTLIGHT, len(self.dense) - 1), None)


Signal = Callable[[TwoRankings], float]
_DESCRIBE = re.compile(r"describe|explain|define|what is the (role|function|mechanism)")


def dense_margin_first_second(rankings: TwoRankings) -> float:
    """The dense score of the first document less that of the second."""
    return float(rankings.dense[0] - rankings.dense[min(1, len(rankings.dense) - 1)])


def dense_top_over_rest(rankings: TwoRankings) -> float:
    """The dense score of the first document less the mean of those below the third."""
    return float(rankings.dense[0] - rankings.dense[rankings.rest].mean())


def dense_third_over_last(rankings: TwoRankings) -> float:
    """The dense score of the third document less that of the last."""
    return float(rankings.dense[min(SPOTLIGHT, len(rankings.dense)) - 1] - rankings.dense[-1])


def bm25_rest_over_top(rankings: TwoRankings) -> float:
    """BM25's best score below the dense top three less its best among them, as a share of the best, -1 to 1."""
    best = rankings.bm25.max()
    return float((rankings.bm25[rankings.rest].max() - rankings.bm25[:SPOTLIGHT].max()) / best) if best > 0 else 0.0


def coverage_top(rankings: TwoRankings) -> float:
    """The best such share among the dense top three: words of the question that no spotlight document holds."""
    return float(rankings.coverage[:SPOTLIGHT].max())


def coverage_rest_over_top(rankings: TwoRankings) -> float:
    """The best such share below the dense top three less the best among them, -1 to 1."""
    return float(rankings.coverage[rankings.rest].max() - rankings.coverage[:SPOTLIGHT].max())


def query_terms(rankings: TwoRankings) -> float:
    """Logarithm of one plus the number of distinct terms in the question."""
    return math.log1p(len(rankings.rarity))


def query_rarity_mean(rankings: TwoRankings) -> float:
    """Mean inverse document frequency of the question's terms; 0 without terms."""
    return float(rankings.rarity.mean()) if len(rankings.rarity) else 0.0


def names_in_top(rankings: TwoRankings) -> float:
    """The share of the question's names that a document among the dense top three holds; 1 without names.

    A name has a capital or a digit, as BRCA1 and Dravet have, and is not the question's first word.
    """
    words = re.findall(r"[\w-]+", rankings.question)[1:]
    named = {term for word in words if re.search(r"[A-Z0-9]", word) for term in tokenize(word)}
    of = [place for place, term in enumerate(dict.fromkeys(tokenize(rankings.question))) if term in named]
    return float(rankings.holds[:SPOTLIGHT, of].any(axis=0).mean()) if of else 1.0


def asks_for_description(rankings: TwoRankings) -> float:
    """1 where the question asks to describe something, or for its role or mechanism; else 0."""
    return float(bool(_DESCRIBE.match(rankings.question.lower())))


SIGNALS: dict[str, Signal] = {
    signal.__name__: signal
    for signal in (
        coverage_top,
        coverage_rest_over_top,
        bm25_rest_over_top,
        dense_top_over_rest,
        dense_margin_first_second,
        dense_third_over_last,
        query_terms,
        query_rarity_mean,
        names_in_top,
        asks_for_description,
    )
}
"""The signals that a calibration is fitted on, by name: few, as labelled questions are few.

Chosen by forward selection, each data set left out in turn, over the questions of the benchmark of the preflight.
"""


def measure(rankings: TwoRankings) -> dict[str, float]:
    """Return all signals by name."""
    return {name: float(signal(rankings)) for name, signal in SIGNALS.items()}
