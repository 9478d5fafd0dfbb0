"""Terms for BM25: one spelling for the many in which biomedical names are written.

A term is a run of letters or a number, folded to plain lower-case letters and stemmed. Splitting where
letters meet digits, hyphens or Greek letters gives `IL-6`, `IL6` and `IL 6`, or `TNF-α` and `TNF alpha`, the
same terms in queries and passages, and as no spelling yields more terms than another, none scores higher for
its punctuation. Adding a joined form to the parts (`il`, `6`, `il6`) was measured too, and found no more.

Function words are left out as running text writes them (`all`, `who`, `no`), but not in capitals (`ALL`,
`WHO`, `NO`), where they are names; `A` stays for vitamin A and hepatitis A.
"""

import re
import threading
import unicodedata

from Stemmer import Stemmer  # type: ignore[import-not-found]

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


class _KnownWords(dict[str, str]):
    """The term of each word that was met, "" for a function word. Words repeat: most are looked up, not stemmed."""

    def __init__(self) -> None:
        self._stemmer = Stemmer("english")
        # A Snowball stemmer works in a buffer of its own.
        self._stemming = threading.Lock()

    def __missing__(self, word: str) -> str:
        if len(self) >= 500_000:
            self.clear()
        with self._stemming:
            term: str = "" if word in _STOP_WORDS else self._stemmer.stemWord(word.casefold())
        self[word] = term
        return term


_known_words = _KnownWords()


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
    return list(filter(None, map(_known_words.__getitem__, words)))


def lexical_text(title: str, text: str) -> str:
    """Return what BM25 scores of a passage: title and text, or the text alone when both are equal."""
    return text if not title or title == text else f"{title}\n{text}"
