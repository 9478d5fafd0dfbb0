"""Retrieved passages, ranked by whether they answer a question, without a language model."""

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.store.terms import TermStatistics, tokenize
from briefcontext.retrievers.rankings import BM25Pool, dense_scores

SPECIFIC = 0.8
"""Terms are specific whose rarity is at least this share of the rarest one's."""
FEW = 20
"""Passages of a corpus too small to tell whether a term that it lacks is rare, or whether to abstain."""
SHARE_OF_BEST = 0.1
"""The least probability of a passage of such a corpus, as a share of the best one's."""
FEATURES = ("similarity", "coverage", "rarest_held")
"""What a passage is judged by; see `PassageRanker.features`."""
OTHER_ENCODER = "other"
"""The weights for encoders that have none fitted to them."""


class RankedPassage(NamedTuple):
    """A passage, and how likely it answers the question."""

    document: Document
    probability: float
    """From 0 to 1; fitted to biomedical questions by `benchmarks/passages.py`."""


class PassageRanker:
    """Ranks passages by similarity and by the question's terms, and leaves out those on something else.

    A passage is left out that holds none of the question's specific terms, which are the rarest of
    them in the corpus. A drug that is asked about is nearly always one. The others rank by a
    logistic regression, whose weights are in `passage_weights.json`.

    Args:
        statistics: how often terms occur in the corpus. Without them, the passages are the corpus.
        encoder: the name of the encoder whose similarities the passages carry.
    """

    def __init__(
        self, statistics: TermStatistics | None = None, encoder: str | None = None
    ) -> None:
        self._statistics = statistics
        self._fitted_encoder = encoder in _weights()
        self._weights = _weights()[encoder if encoder and self._fitted_encoder else OTHER_ENCODER]

    def rank(self, query: str, documents: Sequence[Document]) -> list[RankedPassage]:
        """Return the passages that hold a specific term and are likely enough, best first."""
        features, specific = self.features(query, documents)
        odds = features @ [self._weights[name] for name in FEATURES] + self._weights["intercept"]
        order = [place for place in np.argsort(-odds, kind="stable") if specific[place]]
        passages = [
            RankedPassage(documents[place], 1 / (1 + math.exp(-odds[place]))) for place in order
        ]
        least = self._weights["threshold"]
        if passages and self._searched(documents) < FEW:
            least = SHARE_OF_BEST * passages[0].probability
        return [passage for passage in passages if passage.probability >= least]

    def features(
        self, query: str, documents: Sequence[Document]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return what the documents are judged by (n, 3), and which hold a specific term (n,).

        - similarity: the dense score above that of the last document. For an encoder without fitted
          weights, as a share of the difference between the first and the last.
        - coverage: the share of the question's terms that the document holds, weighed by rarity.
        - rarest_held: the rarity of the rarest of them, 1 for a term that the corpus does not have.
        """
        if not documents or not tokenize(query):
            return np.zeros((len(documents), len(FEATURES))), np.zeros(len(documents), np.bool_)
        holds, rarity = self._holds(query, documents)
        scored = all("score" in document.metadata for document in documents)
        similarity = dense_scores(documents) if scored else np.zeros(len(documents))
        similarity -= similarity.min()
        if not self._fitted_encoder:
            similarity /= similarity.max() or 1
        coverage = holds @ rarity / (rarity.sum() or 1)
        specific = np.any(holds[:, rarity >= SPECIFIC * rarity.max()], axis=1)
        return np.column_stack([similarity, coverage, (holds * rarity).max(axis=1)]), specific

    def missing(self, query: str, documents: Sequence[Document]) -> list[str]:
        """Return the words of the question that are specific and in none of the documents."""
        holds, rarity = self._holds(query, documents)
        absent = {
            term
            for term, rare, held in zip(
                dict.fromkeys(tokenize(query)), rarity, holds.T, strict=True
            )
            if rare >= SPECIFIC * rarity.max() and not held.any()
        }
        words = (word.strip(".,;:?!()[]\"'“”‘’") for word in query.split())
        return list(dict.fromkeys(word for word in words if absent.intersection(tokenize(word))))

    def terms(
        self, query: str, texts: Sequence[str]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which text holds which term of the question (n, t), and the terms' rarity (t,)."""
        return self._holds(query, [Document(text) for text in texts])

    def _searched(self, documents: Sequence[Document]) -> int:
        """Return the number of passages that rarity is known from."""
        return self._statistics.n_documents if self._statistics else min(len(documents), FEW - 1)

    def _holds(
        self, query: str, documents: Sequence[Document]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which document holds which term, and the terms' rarity, at most 1."""
        holds, rarity = BM25Pool(documents, self._statistics).coverage(query)
        searched = self._searched(documents)
        if searched < FEW:
            rarity = np.where(holds.any(axis=0), rarity, 0)
        return holds, rarity / math.log(2 * max(searched, len(documents)) + 2)


@cache
def _weights() -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = json.loads(
        files(__package__).joinpath("passage_weights.json").read_bytes()
    )
    return weights
