"""Terms for BM25 and their counts.

A term is a run of letters or a number in lower case, spelled the American way and stemmed. `IL-6`,
`IL6` and `IL 6`, or `TNF-α` and `TNF alpha`, have the same terms. Function words are left out,
unless in capitals (`ALL`, `WHO`, `NO`), where they are names.
"""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Self

from Stemmer import Stemmer  # type: ignore[import-not-found]

BM25_K1 = 1.2
BM25_B = 0.75
"""The defaults of Lucene and Lance."""

_GREEK_LETTERS = "αβγδεζηθικλμνξοπρςστυφχψω"
_GREEK_NAMES = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma
    sigma tau upsilon phi chi psi omega
"""
_GREEK = dict(zip(_GREEK_LETTERS, _GREEK_NAMES.split(), strict=True))
# Some British journals write the decimal point as a raised dot: 0·05.
_SPELLED_OUT = {
    ord(form): f" {name} " for letter, name in _GREEK.items() for form in (letter, letter.upper())
} | {ord("·"): "."}
_ACCENTS_AND_INVISIBLES = re.compile("[\u0300-\u036f\u00ad\u200b-\u200d\u2060\ufeff]")
_TERM = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")

# "s" and "t" follow an apostrophe.
_FUNCTION_WORDS = """
    a all also am an and any are as at be been being but by can could did do does for from had has
    have he her his how i if in into is it its may might no not of on or our s she should some such
    t than that the their then there these they this those to was we were what when where which who
    whom why will with would you your
"""
_STOP_WORDS = frozenset(
    form
    for word in _FUNCTION_WORDS.split()
    # A single capital is a name (vitamin A, protein S), not the start of a sentence.
    for form in ((word, word.capitalize()) if len(word) > 1 else (word,))
)


_AMERICAN = (("ae", "e"), ("oe", "e"), ("our", "or"), ("sulph", "sulf"), ("leuco", "leuko"))
"""British and American spellings: anaemia, oedema, tumour."""
_BRITISH_S = re.compile(r"(?:(?<=[a-z]{5}i)|(?<=[a-z]{3}y))s(?=(?:e[ds]?|ing|ations?)$)")
"""The s of `randomised`, `hospitalisation` and `analysed`."""
_AMERICAN_ENDINGS = (("br", "ber"), ("tr", "ter"), ("ll", "l"))
"""Of stems: `fibr` of fibre, `centr` of centre, `signall` of signalling."""


def _american(word: str) -> str:
    for british, american in _AMERICAN:
        word = word.replace(british, american)
    return _BRITISH_S.sub("z", word)


_stemmer = Stemmer("english")
_stemming = threading.Lock()


@lru_cache(500_000)
def _term(word: str) -> str:
    """Return the term of a word, "" for a function word."""
    if word in _STOP_WORDS:
        return ""
    with _stemming:  # A Snowball stemmer is not thread-safe.
        stem = str(_stemmer.stemWord(_american(word.casefold())))
    for ending, american in _AMERICAN_ENDINGS:
        if stem.endswith(ending) and len(stem) > 3:
            return stem.removesuffix(ending) + american
    return stem


def tokenize(text: str) -> list[str]:
    """Return the BM25 terms of a query or a passage, in their order, with repeats.

    >>> tokenize("Does IL-6 (TNF-α) reduce Crohn's disease mortality?")
    ['il', '6', 'tnf', 'alpha', 'reduc', 'crohn', 'diseas', 'mortal']
    """
    if not text.isascii():
        text = _ACCENTS_AND_INVISIBLES.sub("", unicodedata.normalize("NFKD", text))
        text = text.translate(_SPELLED_OUT)
    return list(filter(None, map(_term, _TERM.findall(text))))


class TermStatistics:
    """Counts of terms in a corpus, whose passages without a term do not count."""

    def __init__(
        self, n_documents: int, n_terms: int, document_frequency: Callable[[str], int]
    ) -> None:
        self.n_documents = n_documents
        self.average_length = n_terms / n_documents if n_documents else 0.0
        """Mean number of terms in a passage."""
        self.document_frequency = lru_cache(65_536)(document_frequency)
        """Returns the number of passages with a term of `tokenize`."""

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Self:
        """Count the terms of texts in memory."""
        passages = list(filter(None, map(tokenize, texts)))
        frequencies = Counter(term for terms in passages for term in set(terms))
        return cls(len(passages), sum(map(len, passages)), frequencies.__getitem__)
