"""PDF: one document per file, the running text of its pages, without running heads, page numbers and broken lines."""

import io
import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain, pairwise
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, Any

from briefcontext.knowledge.sources.source import Entry, Reject, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import file_document, read_whole

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfTextPage

_HYPHEN = "\x02"
"""What PDFium gives for a hyphen at the end of a line."""
_NONE = "\u2060"
"""Stands where PDFium gives a sign that is not printed, so that the others keep their places."""
_BLANK = rf"\s\0{_NONE}{_HYPHEN}"
_LINE = re.compile(rf"[^{_BLANK}](?:[^\r\n{_HYPHEN}]*[^{_BLANK}])?")
_LINE_END = re.compile("\r\n")
_BLANKS = re.compile(r"(?<=\S) (?=\S)")
_BEFORE_DIGIT = re.compile(rf"(?:(\d)[.,{_NONE}]*|[^{_BLANK}]{_NONE}*)(?=((?:[-−–+]{_NONE}*)?\d))")
_alone = threading.Lock()
"""PDFium may be used by one thread at a time."""

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
_FILE_NAME = re.compile(r"untitled.*|microsoft word - .*|.*\.(?:docx?|dvi|indd|odt|pdf|qxd|rtf|tex)", re.IGNORECASE)
"""The titles that programs give to files whose authors gave them none."""
_NUMBER = re.compile(r"\d{1,9}")
_PAGE_NUMBER = re.compile(rf"{_NUMBER.pattern}|\A[ivxlc]+\Z")
_WORD = re.compile(r"\w+(?:-\w+)*")
_LAST_WORD = re.compile(r"[\w-]*\w\Z")
_FIRST_WORD = re.compile(r"\w[\w-]*")
_RANGE = re.compile(r"\d[-–]\Z")
_SENTENCE_END = re.compile(r"[.!?:]['\"”’)\]\d,–-]*\Z")


@dataclass(frozen=True, slots=True)
class _Line:
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


@rejecting
def read_pdf(stream: BufferedIOBase, document_id: str, **metadata: str | int) -> Iterator[Entry]:
    """The file as one document of kind `pdf`, and a reject for each page that cannot be read.

    Its lines are joined to paragraphs, words that were broken at their ends too; running heads and page numbers are
    left out. `page_starts` is JSON: `[offset, page]` for each page that text begins on. `page_count` counts them all,
    `pages_without_text` those that are blank or pictures. The title is the one that the file says it has, unless that
    is a file's name too, else its name without the ending. A file that needs a password or has no text at all, as a
    scan, is rejected.
    """
    content = read_whole(stream)
    from pypdfium2 import PdfDocument

    pages: list[list[_Line]] = []
    rejects: list[Reject] = []
    with _alone, _pdf_errors(), PdfDocument(io.BytesIO(content)) as document:
        stated = " ".join(_storable(document.get_metadata_dict().get("Title", "")).split())
        title = "" if _FILE_NAME.fullmatch(stated) else stated
        for number in range(1, len(document) + 1):
            pages.append([])
            try:
                with _pdf_errors():
                    pages[-1] = list(_lines(document, number))
            except UnreadableError as reason:
                rejects.append(Reject(f"page {number}", str(reason)))
    if not any(pages):
        raise UnreadableError(
            f"None of its {len(pages)} pages can be read, the first because: {rejects[0].reason}"
            if rejects
            else f"None of its {len(pages)} pages has text, as in a scan: run text recognition (OCR) over it first."
        )
    text, page_starts = _running_text(pages)
    metadata |= {"page_count": len(pages), "page_starts": json.dumps(page_starts)}
    if blank := sum(not lines for lines in pages):
        metadata["pages_without_text"] = blank
    yield file_document(document_id, text, title=title, kind="pdf", metadata=metadata)
    yield from rejects


def _lines(document: "PdfDocument", number: int) -> Iterator[_Line]:
    from pypdfium2 import raw

    page = document[number - 1]
    words = page.get_textpage()
    try:
        signs = "".join(chr(raw.FPDFText_GetUnicode(words, place)) for place in range(words.count_chars()))
        signs = _LINE_END.sub(lambda end: _joint(words, end.start() - 1, end.end()) or end[0], signs)
        marks = {pair.start(2): _mark(words, pair) for pair in _BEFORE_DIGIT.finditer(signs)}
        for line in _LINE.finditer(signs):
            left, base, _, _ = words.get_charbox(line.start(), loose=True)
            _, _, right, _ = words.get_charbox(line.end() - 1, loose=True)
            size = raw.FPDFText_GetFontSize(words, line.start())
            marked = "".join(marks.get(place, "") + sign for place, sign in enumerate(line[0], line.start()))
            text = " ".join(_storable(marked).replace(_NONE, "").split())
            hyphenated = signs.startswith(_HYPHEN, line.end())
            blanks = (blank.start() for blank in _BLANKS.finditer(signs, *line.span()))
            if hyphenated and any(_is_wide(words, blank, size) for blank in blanks):
                text, hyphenated = f"{text}-", False
            yield _Line(text, number, left, right, base, size, hyphenated)
    finally:
        words.close()
        page.close()


def _joint(words: "PdfTextPage", before: int, after: int) -> str:
    """What stands for an end of line that is none, as what follows is only higher or lower: a superscript; else ""."""
    if before < 0 or after >= words.count_chars():
        return ""
    _, bottom, right, top = words.get_charbox(before, loose=True)
    left, lower, _, upper = words.get_charbox(after, loose=True)
    high, gap = max(top - bottom, upper - lower), left - right
    overlaps = min(top, upper) - max(bottom, lower) > 0.3 * min(top - bottom, upper - lower)
    return (_NONE if gap < 0.1 * high else " ") + _NONE if overlaps and -0.3 < gap / high < 0.35 else ""


def _is_wide(words: "PdfTextPage", blank: int, size: float) -> bool:
    """Return whether a blank parts cells of a row, whose last word does not go on in the next line."""
    left, right = words.get_charbox(blank - 1, loose=True)[2], words.get_charbox(blank + 1, loose=True)[0]
    return bool(right - left > size)


def _mark(words: "PdfTextPage", pair: re.Match[str]) -> str:
    """What parts a digit from the sign before it: a `^` if it is a number's exponent, a blank if in another line.

    PDFium takes a digit below others for one of a text that is written downwards.
    """
    from pypdfium2 import raw

    before, after = pair.start(), pair.start(2)
    size, exponents = (raw.FPDFText_GetFontSize(words, place) for place in (before, after))
    (_, bottom, _, top), (_, lower, _, upper) = (words.get_charbox(place, loose=True) for place in (before, after))
    if pair[1] and exponents <= 0.9 * size and lower > bottom + 0.15 * (top - bottom):
        return "^"
    return " " if upper < bottom + 0.3 * (top - bottom) and raw.FPDFText_GetCharAngle(words, after) == 0 else ""


@contextmanager
def _pdf_errors() -> Iterator[None]:
    from pypdfium2 import PdfiumError

    try:
        yield
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableError("It needs a password: save a copy that does not.") from None
        raise UnreadableError(f"The PDF cannot be read: {str(error).rstrip('.')}.") from error


def _storable(text: Any) -> str:
    """The text with surrogates joined or replaced, which broken fonts' tables give and UTF-8 cannot hold."""
    return str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")


def _running_text(pages: Sequence[Sequence[_Line]]) -> tuple[str, list[tuple[int, int]]]:
    """Lines in the order of reading as paragraphs that blank lines part; and `(offset, page)` where a page begins."""
    pages = _without_running_heads(pages)
    lines = list(chain.from_iterable(pages))
    words = Counter(word.casefold() for line in lines for word in _WORD.findall(line.text))
    gap, rights = _usual_gap(pages), _column_rights(pages)
    text, page_starts = "", list[tuple[int, int]]()
    before: _Line | None = None
    for line in lines:
        goes_on = before is not None and _goes_on(before, line, gap, rights)
        if before is not None and before.hyphenated and (goes_on or _is_full(before, rights)):
            text += _hyphen(before.text, line.text, words)
        elif before is not None:
            blank = "" if _RANGE.search(before.text) and line.text[0].isdecimal() else " "
            text += "-" * before.hyphenated + (blank if goes_on else "\n\n")
        if before is None or before.page != line.page:
            page_starts.append((len(text), line.page))
        text += line.text
        before = line
    return text + "-" * lines[-1].hyphenated if lines else text, page_starts


def _without_running_heads(pages: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """Leave out what stands at the top or bottom of several pages in the same place, but for the pages' numbers."""
    alike = defaultdict[tuple[str, int], list[_Line]](list)
    for page in (sorted(page, key=attrgetter("base")) for page in pages):
        for line in dict.fromkeys((*page[:_MARGIN_LINES], *page[-_MARGIN_LINES:])):
            words, place = _PAGE_NUMBER.sub("#", line.text), round(line.base / _PLACE)
            for near in (place, place + 1):
                alike[words, near].append(line)
    heads = {line for lines in alike.values() for pair in pairwise(lines) if _recurs(*pair) for line in pair}
    return [[line for line in page if line not in heads] for page in pages]


def _recurs(before: _Line, line: _Line) -> bool:
    """Whether it is on one of the next two pages, and its numbers go up with these or stay, as those of no table do."""
    pages = line.page - before.page
    numbers = zip(*(map(int, _NUMBER.findall(each.text)) for each in (before, line)), strict=False)
    return 0 < pages < 3 and all(number - first in (0, pages) for first, number in numbers)


def _usual_gap(pages: Sequence[Sequence[_Line]]) -> float:
    gaps = [
        (before.base - line.base) / max(line.size, 1.0)
        for before, line in chain.from_iterable(map(pairwise, pages))
        if 0 < before.base - line.base < 3 * line.size
    ]
    return median(gaps) if gaps else 1.2


def _column_rights(pages: Sequence[Sequence[_Line]]) -> dict[_Line, float]:
    """How far to the right the column of each line goes."""
    found = {}
    for page in pages:
        for line in page:
            rights = sorted(other.right for other in page if abs(other.left - line.left) < 3 * line.size)
            # A title may go beyond the column that it stands above.
            found[line] = rights[int(0.9 * (len(rights) - 1))]
    return found


def _goes_on(before: _Line, line: _Line, gap: float, rights: dict[_Line, float]) -> bool:
    if abs(before.size - line.size) > 0.1 * before.size:
        return False
    if line.text[0].islower():
        return True
    if before.page != line.page or line.base >= before.base:  # another column
        return not _SENTENCE_END.search(before.text)
    near = before.base - line.base <= _GAP * gap * line.size
    return _is_full(before, rights) and near and line.left - before.left < _INDENT


def _is_full(line: _Line, rights: dict[_Line, float]) -> bool:
    return line.right - line.left >= _FULL * (rights[line] - line.left)


def _hyphen(before: str, after: str, words: Counter[str]) -> str:
    """What stands between the parts of a word that was broken: a hyphen where the text has it so elsewhere."""
    first, last = _LAST_WORD.search(before), _FIRST_WORD.match(after)
    if first is None or last is None:
        return "-"
    whole, hyphened = (f"{first[0]}{joint}{last[0]}".casefold() for joint in ("", "-"))
    if last[0] in ("and", "or"):
        return "- "
    # No word is broken behind a capital: LDL-cholesterol.
    return "" if before[-1].islower() and after[0].islower() and words[whole] >= words[hyphened] else "-"
