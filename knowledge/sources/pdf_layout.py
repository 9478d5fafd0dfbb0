"""From the lines of a PDF's pages to running text: without running heads, page numbers and broken lines."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from statistics import median

__all__ = ["Line", "running_text"]

_MARGIN_LINES = 3
"""A running head or foot is among so many lines at the top or bottom of its page."""
_PLACE = 3.0
"""Points by which the places of two lines may differ that are the same running head."""
_FULL = 0.75
"""Part of a column's width that a line has at least which goes on in the next one."""
_GAP = 1.4
"""A wider gap than so many times the usual one stands between two paragraphs."""
_INDENT = 4.0
"""Points by which the first line of a paragraph is set in."""
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_WORD = re.compile(r"\w+(?:-\w+)*")
_LAST_WORD = re.compile(r"[\w-]*\w\Z")
_FIRST_WORD = re.compile(r"\w[\w-]*")
_SENTENCE_END = re.compile(r"[.!?:]['\"”’)\]\d,–-]*\Z")


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is printed: points from the left and bottom of its page."""

    text: str
    page: int
    """From 1."""
    left: float
    right: float
    base: float
    size: float
    """Of its letters, in points."""
    hyphenated: bool = False
    """A word goes on in the next line; its hyphen is not in the text."""


def running_text(lines: Sequence[Line]) -> tuple[str, list[tuple[int, int]]]:
    """Join lines, in the order of reading, to paragraphs that blank lines part.

    Returns:
        The text, and for each page with text of its own where in it that begins: `(offset, page)`.
    """
    lines = _without_running_heads(lines)
    words = Counter(word.casefold() for line in lines for word in _WORD.findall(line.text))
    gap = _usual_gap(lines)
    rights = _column_rights(lines)
    text, pages = "", list[tuple[int, int]]()
    before: Line | None = None
    for line in lines:
        if before is not None and before.hyphenated:
            text += _hyphen(before.text, line.text, words)
        elif before is not None:
            text += " " if _goes_on(before, line, gap, rights) else "\n\n"
        if before is None or before.page != line.page:
            pages.append((len(text), line.page))
        text += line.text
        before = line
    return text, pages


def _without_running_heads(lines: Sequence[Line]) -> list[Line]:
    """Leave out what stands at the top or bottom of several pages in the same place, but for its numbers."""
    heads: dict[tuple[str, int], set[int]] = {}
    margins = set()
    for page, its_lines in groupby(lines, key=attrgetter("page")):
        on_page = sorted(its_lines, key=attrgetter("base"))
        for line in {*on_page[:_MARGIN_LINES], *on_page[-_MARGIN_LINES:]}:
            margins.add(line)
            for key in _keys(line):
                heads.setdefault(key, set()).add(page)
    return [line for line in lines if line not in margins or all(len(heads[key]) < 2 for key in _keys(line))]


def _keys(line: Line) -> Iterable[tuple[str, int]]:
    words = _DIGITS.sub("#", line.text)
    place = round(line.base / _PLACE)
    return ((words, place), (words, place + 1))


def _usual_gap(lines: Sequence[Line]) -> float:
    gaps = [
        (before.base - line.base) / max(line.size, 1.0)
        for before, line in pairwise(lines)
        if before.page == line.page and 0 < before.base - line.base < 3 * line.size
    ]
    return median(gaps) if gaps else 1.2


def _column_rights(lines: Sequence[Line]) -> dict[Line, float]:
    """How far to the right the column of each line goes."""
    found = {}
    for _, its_lines in groupby(lines, key=attrgetter("page")):
        on_page = list(its_lines)
        for line in on_page:
            rights = sorted(other.right for other in on_page if abs(other.left - line.left) < 3 * line.size)
            # A title may go beyond the column that it stands above.
            found[line] = rights[int(0.9 * (len(rights) - 1))]
    return found


def _goes_on(before: Line, line: Line, gap: float, rights: dict[Line, float]) -> bool:
    """Whether a line belongs to the paragraph of the one before it."""
    if abs(before.size - line.size) > 0.1 * before.size:
        return False
    if line.text[0].islower():
        return True
    if before.page != line.page or line.base >= before.base:  # another column
        return not _SENTENCE_END.search(before.text)
    full = before.right - before.left >= _FULL * (rights[before] - before.left)
    near = before.base - line.base <= _GAP * gap * line.size
    return full and near and line.left - before.left < _INDENT


def _hyphen(before: str, after: str, words: Counter[str]) -> str:
    """What stands between the parts of a word that was broken: a hyphen where the text has it so elsewhere."""
    first, last = _LAST_WORD.search(before), _FIRST_WORD.match(after)
    if first is None or last is None:
        return "-"
    whole, hyphened = (f"{first[0]}{joint}{last[0]}".casefold() for joint in ("", "-"))
    return "-" if words[hyphened] > words[whole] or not after[0].islower() else ""
