"""Sentences of a text, with their places."""

import re
from collections.abc import Iterator
from itertools import pairwise, zip_longest

import sentencex

from briefcontext.files import encodable

_BLOCK = re.compile(r"[^\s](?:[^\n\f]|\n(?!\s*\n))*")
"""Text between blank lines and page breaks."""
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_ROW = re.compile(r"\t|\|.*\||\S \| \S|\S {3,}\S")
"""A row of a table."""
BULLET = re.compile(r"\s*(?:[-*•‣◦▪·\uf0b7]|\d{1,2}[.)]|[a-z]\))\s+")
"""The mark of a list item."""
_ITEM = re.compile(rf"{BULLET.pattern}|\s*#+\s")
_HEADING = re.compile(r"\s*#+\s")
_REFERENCE = re.compile(
    r"(?:(?<=[^\W\d_]{2}[.!?])|(?<=[)\]][.!?]))\d{1,3}(?:[,–-]\d{1,3})*\s+(?=[A-Z])"
)
"""A raised number after a sentence, which sentencex takes for a decimal."""
_BLANK_BEFORE_STOP = re.compile(r"[^\S\t\n\r ](?=\.)")
"""A blank of several bytes after an initial, at which sentencex panics."""
_NARROWEST = 40
"""Characters of the longest line of a text that was broken to fit a width."""

_LIST_WITHIN = 8192
"""Characters before a place in which the beginning of its list is searched."""
_FULL = 0.75
"""Part of the longest line of a paragraph that a full line has."""


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return the offsets (start, end) of the sentences of an English text.

    A sentence ends at a blank line, and at the end of a heading, a list item or a table row. A row
    is one sentence. No sentence begins after a comma, or with a small letter unless its paragraph
    does.
    """
    spans: list[tuple[int, int]] = []
    for start, end in _paragraphs(text):
        paragraph = text[start:end]
        if _ROW.search(paragraph):
            spans.append((start, end))
            continue
        first = len(spans)
        for at, end in _segments(paragraph):
            # sentencex also stops after "et al. [10]" and "i.e. >21 wks.", and before the "2)" of
            # "F(1, 2) = 5".
            small = paragraph[at].islower() and not paragraph[0].islower()
            if len(spans) > first and (small or text[spans[-1][1] - 1] == ","):
                spans[-1] = spans[-1][0], start + end
            else:
                spans.append((start + at, start + end))
    return spans


def without_bullet(line: str) -> str:
    """Return a line without the mark of a list item."""
    return line[match.end() :] if (match := BULLET.match(line)) else line


def list_lines(text: str, place: int) -> list[str]:
    """Return the lines that introduce the list at a place, and its item so far.

    These are the last sentence above the list and the outer items, the outermost first. Joined by
    line feeds, and with the text from the place on, they are a list again.
    """
    begin = max(place - _LIST_WITHIN, 0)
    text = text[begin : place + _NARROWEST]
    places = [
        span
        for span in _paragraphs(text)
        if span[0] <= place - begin and re.search(r"\w", text[slice(*span)])
    ]
    lines, here, seen, below = list[str](), (-1, ""), set[str](), (-1, "")
    for start, end in reversed(places):
        first = max(text.rfind("\n", 0, start), text.rfind("\f", 0, start)) + 1
        indent, bullet, line = start - first, BULLET.match(text, start, end), text[first:end]
        kind = re.sub(r"\w+", "1", bullet[0].strip()) if bullet else ""
        if not lines:
            if not bullet and not indent:
                break
            lines, here, seen = [text[first : place - begin]], (indent, kind), {kind}
        elif bullet and (indent < here[0] or (indent == here[0] and kind not in seen)):
            lines.append(line)
            seen = {kind, *(seen if indent == here[0] else ())}
            here = indent, kind
        elif not bullet and indent <= here[0]:
            if here[1] and below == here:
                lines.append(" " * indent + line[split_sentences(line)[-1][0] :])
            if not indent:
                break
            here, seen = (indent, ""), {""}
        below = indent, kind
    return lines[::-1]


def _segments(paragraph: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences that sentencex finds in a paragraph."""
    paragraph = _BLANK_BEFORE_STOP.sub(" ", encodable(paragraph))
    ends = [match.end() for match in _REFERENCE.finditer(paragraph)]
    position = 0
    for piece in sentencex.segment("en", paragraph):
        position = paragraph.index(piece, position) + len(piece)
        ends.append(position)
    for start, end in pairwise(sorted({0, *ends})):
        if words := paragraph[start:end].strip():
            at = paragraph.index(words, start)
            yield at, at + len(words)


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of running text: lines that continue each other."""
    for block in _BLOCK.finditer(text):
        lines = list(_LINE.finditer(text, *block.span()))
        width = max(len(line[0].rstrip()) for line in lines)
        start = block.start()
        for line, following in zip_longest(lines, lines[1:]):
            if following is None or not _continues(line[0], following[0], width):
                part = text[start : line.end()]
                yield start + len(part) - len(part.lstrip()), start + len(part.rstrip())
                start = line.end() + 1


def _continues(line: str, following: str, width: int) -> bool:
    """Return whether a line was broken because the next word did not fit."""
    rows = _ROW.search(line.strip()) or _ROW.search(following.strip())
    if rows or _HEADING.match(line) or _ITEM.match(following):
        return False
    first = following.split(maxsplit=1)[0]
    return first[0].islower() or (
        width >= _NARROWEST and len(line.rstrip()) + 1 + len(first) > _FULL * width
    )
