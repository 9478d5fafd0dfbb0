"""Grounding: locating a quote in the documents."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

from langchain_core.documents import Document
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from briefcontext.chains.reader import CUT_AT, Match, Quote
from briefcontext.knowledge.sentences import split_sentences

FUZZY_THRESHOLD = 90.0
"""Smallest similarity, 0 to 100, of words that count as the same (rapidfuzz partial ratio)."""
MIN_QUOTE_LETTERS = 8
"""Smallest number of letters and digits in a traceable quote."""

SIGN = r"(?<![^\s(\[,;:=<>≤≥])[-−–]"
"""A minus sign, as opposed to a hyphen or a dash between two numbers (a pattern)."""
NEGATION = r"(?:n't\b|\b(?:no|not|nor|non|never|none|without|neither|cannot|unlikely)\b)"
"""Negations (a pattern for lower-case text)."""

_ELISION = re.compile(r"\s*[\[(]?(?:\.{3,}|…)[\])]?\s*")
_LONGEST = 600
"""Longest text, in characters, for a quote that leaves something out."""
_POINT = r"(?<![\w.])\."
"""The beginning of a number such as .5"""
_FIGURES = re.compile(rf"(?:{_POINT})?\d+(?:[.,]\d+)*|[<>≤≥=](?=\s*\.?\d)|{SIGN}(?=\.?\d)")
_NUMBER = re.compile(r"\.?\d")
_BEGINS_BEFORE = re.compile(rf"(?:{SIGN})?(?:{_POINT})?\Z")
"""The sign and point of a number before its first digit; may be empty."""
_DIGITS_BEFORE = re.compile(rf"(?:\d[.,]?|{_POINT})\Z")
_DIGITS_AFTER = re.compile(r"[.,]?\d")
_TELLING = re.compile(
    rf"{NEGATION}|\b(?:more|less|fewer|than|before|after|above|below)\b"
    r"|\b(?:fail|increas|decreas|reduc|high|low|great|small|posit|negat|better|worse|improv|worsen)"
    r"|\b(?:hypo|hyper|brady|tachy)"
    r"|\b(?:in|un|dis|contra|anti)(?=[a-z]{4})"
)


def ground(
    quote: str,
    documents: Sequence[Document],
    *,
    preferred: str | None = None,
    threshold: float = FUZZY_THRESHOLD,
) -> Quote | None:
    """Find a quote in documents: exactly, else by letters and digits alone, else by similarity.

    The title also counts if no text contains the words equally well. A quote that leaves something
    out (…) becomes all of the document's words from its beginning to its end, because a "not" may
    be among them.

    Args:
        quote: Words from a reader.
        documents: Documents to search.
        preferred: Id of the document that the reader named. It wins over others at the same tier.
        threshold: Similarity for the last tier, 0 to 100; above 100 disables it.

    Returns:
        The document's own words with their offsets in its text, or None.
    """
    wanted = quote.strip().strip("\"'“”‘’«»").strip().removesuffix("...").removesuffix("…").strip()
    letters, _ = _letters(wanted)
    if len(letters) < MIN_QUOTE_LETTERS:
        return None
    candidates = sorted(documents, key=lambda document: document.id != preferred)
    ways: tuple[Callable[[Document], Quote | None], ...] = (
        lambda document: _exact(wanted, document),
        lambda document: _normalised(wanted, letters, document),
        lambda document: _fuzzy(wanted, document, threshold),
    )
    whole = (
        found
        for way in ways
        for found in (*map(way, candidates), *(_in_title(way, document) for document in candidates))
    )
    parts = [part for part in _ELISION.split(wanted) if part]
    around = (_around(parts, document, threshold) for document in candidates if len(parts) > 1)
    return next(filter(None, chain(whole, around)), None)


def in_whole_sentences(quote: Quote, documents: Sequence[Document]) -> Quote:
    """Widen a quote to whole sentences, unless these are long.

    The omitted part may reverse the meaning: "it is not known whether", "unless".
    """
    if quote["start"] is None or quote["end"] is None:
        return quote
    # Several pieces of one document may be given.
    pieces = {
        int(each.metadata.get(CUT_AT, 0)): each
        for each in documents
        if str(each.id) == quote["document_id"]
    }
    before = max(begun for begun in pieces if begun <= quote["start"])
    document = pieces[before]
    text, start, end = document.page_content, quote["start"] - before, quote["end"] - before
    for begin, stop in split_sentences(text):
        if begin < start < stop and _WORD.search(text, begin, start):
            start = begin
        if begin < end < stop and _WORD.search(text, end, stop):
            end = stop
    return _quote(document, start, end, quote["match"]) if end - start <= _LONGEST else quote


def _around(parts: Sequence[str], document: Document, threshold: float) -> Quote | None:
    """Find the passage of a document's text that has all parts of a quote, in order."""
    found = [ground(part, [document], threshold=threshold) for part in parts]
    places = [
        (quote["start"], quote["end"])
        for quote in found
        if quote and quote["start"] is not None and quote["end"] is not None
    ]
    if len(places) < len(parts) or places != sorted(places):
        return None
    cut_at = int(document.metadata.get(CUT_AT, 0))
    start, end = places[0][0] - cut_at, places[-1][1] - cut_at
    return _quote(document, start, end, "fuzzy") if end - start <= _LONGEST else None


def _in_title(way: Callable[[Document], Quote | None], document: Document) -> Quote | None:
    title = str(document.metadata.get("title") or "")
    found = way(Document(id=document.id, page_content=title)) if title else None
    return Quote(**{**found, "start": None, "end": None, "match": "title"}) if found else None


def _quote(document: Document, start: int, end: int, match: Match) -> Quote:
    text, before = document.page_content[start:end], int(document.metadata.get(CUT_AT, 0))
    return Quote(
        text=text, document_id=str(document.id), start=before + start, end=before + end, match=match
    )


def _exact(wanted: str, document: Document) -> Quote | None:
    text, start = document.page_content, -1
    while (start := text.find(wanted, start + 1)) >= 0:
        if not _cuts_a_figure(text, start, start + len(wanted)):
            return _quote(document, start, start + len(wanted), "exact")
    return None


def _normalised(wanted: str, letters: str, document: Document) -> Quote | None:
    text, places = _letters(document.page_content)
    at = -1
    while (at := text.find(letters, at + 1)) >= 0:
        start, end = places[at], places[at + len(letters) - 1] + 1
        start -= _before_digits(document.page_content, start)
        found = _quote(document, start, end, "normalised")
        # Letters and digits alone do not distinguish 1.5 from 15, or "<" from ">".
        if _figures(wanted) == _figures(found["text"]) and not _cuts_a_figure(
            document.page_content, start, end
        ):
            return found
    return None


def _cuts_a_figure(text: str, start: int, end: int) -> bool:
    """Return whether a place cuts a number with its sign."""
    begins = _NUMBER.match(text, start) and _DIGITS_BEFORE.search(text, max(start - 2, 0), start)
    return bool(
        begins
        or _before_digits(text, start)
        or (text[end - 1].isdigit() and _DIGITS_AFTER.match(text, end))
    )


def _before_digits(text: str, start: int) -> int:
    """Return the length of a number's sign and point before a place."""
    found = _NUMBER.match(text, start) and _BEGINS_BEFORE.search(text, max(start - 3, 0), start)
    return len(found[0]) if found else 0


def _letters(text: str) -> tuple[str, list[int]]:
    """Return a text's letters and digits, decomposed and case-folded, with their places."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for letter in _folded(character):
            letters.append(letter)
            places.append(place)
    return "".join(letters), places


@lru_cache(4096)
def _folded(character: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", character).casefold()))


def _fuzzy(wanted: str, document: Document, threshold: float) -> Quote | None:
    text = lowered(document.page_content)
    if len(text) < len(wanted):
        return None
    found = fuzz.partial_ratio_alignment(lowered(wanted), text, score_cutoff=threshold)
    if found is None or found.dest_end <= found.dest_start:
        return None
    place = _respelled(wanted, document.page_content, found.dest_start, found.dest_end)
    if place is None or _cuts_a_figure(document.page_content, *place):
        return None
    # A dropped "not" or a changed figure leaves sentences similar and reverses the meaning.
    if _telling(lowered(wanted)) != _telling(text[slice(*place)]):
        return None
    return _quote(document, *place, "fuzzy")


def lowered(text: str) -> str:
    """Lower the case of each character without changing the length, so that offsets stay valid."""
    # Only İ becomes two characters, and only Σ depends on its neighbours.
    return "İ".join(part.lower() for part in text.replace("Σ", "σ").split("İ"))


def _telling(text: str) -> Counter[str]:
    return Counter(_TELLING.findall(text)) + _figures(text)


def _figures(text: str) -> Counter[str]:
    """Count the numbers, with or without thousands separators, and the signs between them."""
    found = (figure.replace("−", "-").replace("–", "-") for figure in _FIGURES.findall(text))
    return Counter(re.sub(r",(?=\d{3}(?!\d))", "", figure) for figure in found)


_WORD = re.compile(r"[^\W_]+")
_FILL_WORDS = (
    "a an the of in on at by to for with as that this these which it is are was were be been has "
    "have had s"
)
_FILLING = frozenset(_FILL_WORDS.split())
"""Words that may be in a quote and not in its document."""
_SPELLINGS = (("ae", "e"), ("oe", "e"), ("ph", "f"), ("our", "or"), ("z", "s"))
"""British and American spellings of the same sound."""
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "ly")
_LONG = 7
"""Letters of a word in which one missing or extra letter is a slip."""


def _respelled(quote: str, text: str, start: int, end: int) -> tuple[int, int] | None:
    """Find the part of a text that has every word of a quote, except for spelling and endings.

    The words keep their order. Fill words may be added, and words of the text may be left out.
    Another drug, unit or opposite is another word, however few letters differ. The place of the
    quote is approximate; the result is exact, or None.
    """
    margin = max(20, len(quote) // 5)
    words = _words(quote)
    found = list(_WORD.finditer(text, max(start - margin, 0), end + margin))
    others = _words(" ".join(each[0] for each in found))
    added = set()
    for edit in Levenshtein.editops(words, others):
        if edit.tag == "insert":
            added.add(edit.dest_pos)
            continue
        word = words[edit.src_pos]
        same = edit.tag == "replace" and _same(word, others[edit.dest_pos])
        if not same and (edit.tag == "replace" or word not in _FILLING):
            return None
    common = [place for place in range(len(others)) if place not in added]
    return (found[common[0]].start(), found[common[-1]].end()) if common else None


def _words(text: str) -> list[str]:
    words = []
    for word in _WORD.findall(text.lower()):
        for spelling, common in _SPELLINGS:
            word = word.replace(spelling, common)
        words.append(word)
    return words


def _same(word: str, other: str) -> bool:
    if {word, other} <= _FILLING or _stems(word) & _stems(other):
        return True
    # Another letter may be another substance (thyroxine, thyronine).
    slip = abs(len(word) - len(other)) == 1 and Levenshtein.distance(word, other) == 1
    return slip and min(len(word), len(other)) >= _LONG


def _stems(word: str) -> set[str]:
    """Return the possible stems of a word, with doubled consonants undone (occurred, occur)."""
    stems = {word.removesuffix(ending) for ending in _ENDINGS if len(word) - len(ending) >= 3}
    return stems | {stem[:-1] for stem in stems if stem != word and stem[-1:] == stem[-2:-1]}
