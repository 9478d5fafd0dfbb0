"""Whether two wordings of a sentence differ in spelling only."""

import re

from rapidfuzz.distance import Levenshtein

__all__ = ["respelled"]

_WORD = re.compile(r"[^\W_]+")
_FILLING = frozenset(
    (
        *("a", "an", "the", "of", "in", "on", "at", "by", "to", "for", "with", "as", "that", "this", "these", "which"),
        *("it", "is", "are", "was", "were", "be", "been", "has", "have", "had", "s"),
    )
)
"""Words that a quote may have and its document not."""
_SPELLINGS = (("ae", "e"), ("oe", "e"), ("ph", "f"), ("our", "or"), ("z", "s"))
"""British and American forms, brought to one."""
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "ly")
_LONG = 7


def respelled(quote: str, text: str, start: int, end: int) -> tuple[int, int] | None:
    """Find the stretch of a text, about a place, that has every word of a quote but for spelling and endings.

    The words keep their order. Words that fill may be added, and any may be left out. Another drug, another unit or
    an opposite is another word, however few of its letters differ.

    Args:
        start, end: where the quote is about, in characters.

    Returns:
        Its offsets; None when a word of the quote has no counterpart there.
    """
    margin = max(20, len(quote) // 5)
    words = _words(quote)
    found = list(_WORD.finditer(text, max(start - margin, 0), end + margin))
    others = _words(" ".join(each[0] for each in found))
    edits = Levenshtein.editops(words, others)
    for edit in edits:
        if edit.tag == "delete" and words[edit.src_pos] not in _FILLING:
            return None
        if edit.tag == "replace" and not _same(words[edit.src_pos], others[edit.dest_pos]):
            return None
    added = {edit.dest_pos for edit in edits if edit.tag == "insert"}
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
    if word in _FILLING and other in _FILLING:
        return True
    if _stems(word) & _stems(other):
        return True
    # A letter too many or too few is a slip; another letter may make another substance, as in thyroxine and thyronine.
    slip = abs(len(word) - len(other)) == 1 and Levenshtein.distance(word, other) == 1
    return slip and min(len(word), len(other)) >= _LONG


def _stems(word: str) -> set[str]:
    """Return what a word may be without its ending, a doubled consonant (occur, occurred) undone."""
    stems = {word.removesuffix(ending) for ending in _ENDINGS if len(word) - len(ending) >= 3}
    return stems | {stem[:-1] for stem in stems if stem != word and stem[-1:] == stem[-2:-1]}
