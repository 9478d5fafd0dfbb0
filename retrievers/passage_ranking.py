"""Ranking of passages by whether they answer a question, without a language model."""

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
"""Smallest rarity of a specific term, as a share of the rarest term's."""
FEW = 20
"""Number of passages below which rarity is unknown and nothing is left out."""
SHARE_OF_BEST = 0.1
"""Smallest probability of a passage of such a corpus, as a share of the best one's."""
FEATURES = ("similarity", "coverage", "rarest_held")
"""The features of a passage: see `PassageRanker.features`."""
OTHER_ENCODER = "other"
"""Name of the weights for encoders without fitted ones."""


class RankedPassage(NamedTuple):
    """A passage with the probability that it answers the question."""

    document: Document
    probability: float
    """From 0 to 1; fitted to biomedical questions by `benchmarks/passages.py`."""


class PassageRanker:
    """Ranks passages by similarity and by the question's terms, and leaves out unrelated ones.

    A passage must contain one of the question's specific terms, which are its rarest in the corpus,
    usually a drug or disease. A logistic regression ranks the others; its weights are in
    `passage_weights.json`.

    Args:
        statistics: Term frequencies of the corpus. Without them, the passages are the corpus.
        encoder: Name of the encoder that computed the similarities.
    """

    def __init__(
        self, statistics: TermStatistics | None = None, encoder: str | None = None
    ) -> None:
        self._statistics = statistics
        self._fitted_encoder = encoder in _weights()
        self._weights = _weights()[encoder if encoder and self._fitted_encoder else OTHER_ENCODER]

    def rank(self, query: str, documents: Sequence[Document]) -> list[RankedPassage]:
        """Return the probable passages with a specific term, best first."""
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
        """Return the features (n, 3), and which documents have a specific term (n,).

        - similarity: the dense score above that of the last document. For an encoder without fitted
          weights, as a share of the difference between the first and the last.
        - coverage: the share of the question's terms in the document, weighted by rarity.
        - rarest_held: the rarity of the rarest of them; 1 for a term that is new to the corpus.
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
        """Return the specific words of the question that none of the documents contains."""
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
        """Return which text has which term of the question (n, t), and the terms' rarity (t,)."""
        return self._holds(query, [Document(text) for text in texts])

    def _searched(self, documents: Sequence[Document]) -> int:
        """Return the number of passages that rarity is computed from."""
        return self._statistics.n_documents if self._statistics else min(len(documents), FEW - 1)

    def _holds(
        self, query: str, documents: Sequence[Document]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which document has which term, and the terms' rarity, at most 1."""
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
