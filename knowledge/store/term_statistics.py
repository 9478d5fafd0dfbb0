"""Document frequencies of a corpus, for BM25 over a part of it."""

import math
from collections.abc import Callable
from functools import lru_cache

BM25_K1 = 1.2
"""How far more occurrences of a term count for more; Lucene's default, and Lance's."""
BM25_B = 0.75
"""How much a passage's length counts against it; Lucene's default, and Lance's."""


class TermStatistics:
    """Document frequencies of an indexed corpus. Passages without any term do not count.

    The index does not tell in how many passages a term occurs, but the score of any passage that holds it does: all
    else in BM25's formula is known.
    """

    def __init__(
        self, n_documents: int, n_terms: int, top_score: Callable[[str], tuple[float, list[str]] | None]
    ) -> None:
        """`top_score`: the score that BM25 gives the best passage for one term, and that passage's terms, if any."""
        self.n_documents = n_documents
        self.average_length = n_terms / n_documents if n_documents else 0.0
        """Mean number of terms in a passage."""
        self._top_score = top_score
        self.document_frequency = lru_cache(65_536)(self._document_frequency)
        """How many passages hold a term, written as `tokenize` writes it."""

    def _document_frequency(self, term: str) -> int:
        if (top := self._top_score(term)) is None:
            return 0
        score, terms = top
        count = terms.count(term)
        length = 1 - BM25_B + BM25_B * len(terms) / self.average_length
        rarity = score * (count + BM25_K1 * length) / (count * (BM25_K1 + 1))
        # Rarity is log((n + 1) / (frequency + 1/2)).
        return min(self.n_documents, max(1, round((self.n_documents + 1) / math.exp(rarity) - 0.5)))
