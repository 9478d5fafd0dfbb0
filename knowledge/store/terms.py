"""Terms for BM25, one spelling for the many in which biomedical names are written, and how often they occur.

A term is a run of letters or a number, folded to plain lower-case letters and stemmed. Splitting where letters meet
digits, hyphens or Greek letters gives `IL-6`, `IL6` and `IL 6`, or `TNF-α` and `TNF alpha`, the same terms.
Function words are left out as running text writes them (`all`, `who`, `no`), but not in capitals (`ALL`, `WHO`, `NO`),
where they are names; `A` stays for vitamin A and hepatitis A.
"""

import math
import re
import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from Stemmer import Stemmer  # type: ignore[import-not-found]

BM25_K1 = 1.2
"""How far more occurrences of a term count for more; Lucene's default, and Lance's."""
BM25_B = 0.75
"""How much a passage's length counts against it; Lucene's default, and Lance's."""

_GREEK_LETTERS = "αβγδεζηθικλμνξοπρςστυφχψω"
_GREEK_NAMES = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau
    upsilon phi chi psi omega
"""
_GREEK = dict(zip(_GREEK_LETTERS, _GREEK_NAMES.split(), strict=True))
# Some British journals write the decimal point as a raised dot: 0·05.
_SPELLED_OUT = {ord(form): f" {name} " for letter, name in _GREEK.items() for form in (letter, letter.upper())} | {
    ord("·"): "."
}
_ACCENTS_AND_INVISIBLES = re.compile("[\u0300-\u036f\u00ad\u200b-\u200d\u2060\ufeff]")
_TERM = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")
_ASCII_TERM = re.compile(r"\d+(?:\.\d+)*|[A-Za-z]+")
"""Finds the same in a text of ASCII, a third quicker."""

# "s" and "t" are what an apostrophe leaves behind.
_FUNCTION_WORDS = """
    a all also am an and any are as at be been being but by can could did do does for from had has have he her
    his how i if in into is it its may might no not of on or our s she should some such t than that the their
    then there these they this to was we were what when where which who whom why will with would you your
"""
_STOP_WORDS = frozenset(
    form
    for word in _FUNCTION_WORDS.split()
    # A single capital is a name (vitamin A, protein S), not the start of a sentence.
    for form in ((word, word.capitalize()) if len(word) > 1 else (word,))
)


_stemmer = Stemmer("english")
_stemming = threading.Lock()


@lru_cache(500_000)
def _term(word: str) -> str:
    """The term of a word, "" for a function word. Words repeat: most are looked up, not stemmed."""
    if word in _STOP_WORDS:
        return ""
    with _stemming:  # a Snowball stemmer works in a buffer of its own
        return str(_stemmer.stemWord(word.casefold()))


def tokenize(text: str) -> list[str]:
    """Return the BM25 terms of a query or a passage, in their order, with repeats.

    >>> tokenize("Does IL-6 (TNF-α) reduce Crohn's disease mortality?")
    ['il', '6', 'tnf', 'alpha', 'reduc', 'crohn', 'diseas', 'mortal']
    """
    if text.isascii():
        words = _ASCII_TERM.findall(text)
    else:
        text = _ACCENTS_AND_INVISIBLES.sub("", unicodedata.normalize("NFKD", text)).translate(_SPELLED_OUT)
        words = _TERM.findall(text)
    return list(filter(None, map(_term, words)))


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
