"""PDF: one document per file, the running text of its pages in the order of reading."""

import ctypes
import io
import json
import math
import re
import sys
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BufferedIOBase
from itertools import chain, pairwise
from operator import attrgetter
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING, Any

from briefcontext.knowledge.sources.pdf_layout import PROSE, Cell, Sign, cells, lines, row_texts
from briefcontext.knowledge.sources.source import Entry, Reject, UnreadableError, rejecting
from briefcontext.knowledge.sources.symbol_fonts import LOST, symbol
from briefcontext.knowledge.sources.texts import file_document, read_whole

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

_alone = threading.Lock()
"""PDFium may be used by one thread at a time."""

_BLANK_GAP = 0.15
"""Gap in font sizes from which a blank is between two characters."""
_HYPHENS = "\x02\xad"
"""PDFium's characters for a hyphen at the end of a line."""
_BOXES = frozenset("☒☐☑")
_HIDDEN = 0b100010
_LETTERS, _RARE = "eanitodrsulgckhmwypzbvfjxq", 9.0
"""Letters by their frequency in 13 languages. The mean rank is 5 to 8.5 in text, 10 to 15 in
text with shifted letters.
"""
_FULL = 0.75
"""Part of a column's width that a line of prose fills unless it ends a paragraph."""
_MARGIN_LINES = 3
"""Lines at the top and at the bottom of a page that can be running heads."""
_NUMBER = re.compile(r"\d{1,9}")
_PAGE_NUMBER = re.compile(rf"{_NUMBER.pattern}|\A[ivxlc]+\Z")
_WORD = re.compile(r"\w+(?:-\w+)*")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it is printed, in points from the left and bottom of its page."""

    text: str
    page: int
    """From 1."""
    left: float
    """Of its last cell, as are the other measures."""
    right: float
    base: float
    size: float
    is_row: bool
    """It has several cells, a box, or figures only."""
    hyphenated: bool
    """A word continues in the next line; its hyphen is not in the text."""


@rejecting
def read_pdf(stream: BufferedIOBase, document_id: str, **metadata: str | int) -> Iterator[Entry]:
    """Read the file as one document of kind `pdf`, and a reject for each unreadable page.

    Lines become paragraphs, and broken words become whole. A row of a table is a line. Running
    heads and page numbers are left out. A form has its values; its boxes are ☒ or ☐. A character
    without Unicode is □. `page_starts` is JSON: `[offset, page]` for each page on which text
    begins. `page_count`, `pages_without_text` and `characters_without_unicode` are counts. The
    title is the stated one, else the file's name. A file that needs a password or has no text is a
    reject.
    """
    content = read_whole(stream)
    from pypdfium2 import PdfDocument

    pages: list[list[_Line]] = []
    rejects: list[Reject] = []
    with _alone, _pdf_errors(), PdfDocument(io.BytesIO(content)) as document:
        document.init_forms()
        title = _storable(document.get_metadata_dict().get("Title", ""))
        for number in range(1, len(document) + 1):
            pages.append([])
            try:
                with _pdf_errors():
                    pages[-1] = _lines(document, number)
            except UnreadableError as reason:
                rejects.append(Reject(f"page {number}", str(reason)))
    if not any(pages):
        problem = "has text, as in a scan: run text recognition (OCR) over it first."
        if rejects:
            problem = f"can be read, the first because: {rejects[0].reason}"
        raise UnreadableError(f"None of its {len(pages)} pages {problem}")
    text, page_starts = _running_text(pages)
    counts = {
        "pages_without_text": sum(not lines for lines in pages),
        "characters_without_unicode": text.count(LOST),
    }
    metadata |= {name: count for name, count in counts.items() if count}
    metadata |= {"page_count": len(pages), "page_starts": json.dumps(page_starts)}
    yield file_document(document_id, text, title, kind="pdf", metadata=metadata)
    yield from rejects


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
    joined = str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined.replace("\0", "")


def _lines(document: "PdfDocument", number: int) -> list[_Line]:
    boxes, drawn_later = _flatten(document, number)
    page = document[number - 1]
    try:
        by_angle, fonts = _signs(page, boxes)
        angle = _usual_angle(by_angle)
        # PDFium orders the characters by lines only on a page that shows them upright.
        if angle % 90 == 0 and angle != page.get_rotation():
            page.set_rotation(angle)
            by_angle, fonts = _signs(page, boxes)
    finally:
        page.close()
    signs = list(chain.from_iterable(by_angle.values()))
    lost = sum(sign.text == LOST for sign in signs)
    if 2 * lost > len(signs) or any(_rarity(text) > _RARE for text in fonts):
        raise UnreadableError(
            "The text of the page is not language, as a font states wrong characters: run text "
            "recognition (OCR) on the file first."
        )
    result = list[_Line]()
    for turned in sorted(by_angle.values(), key=len, reverse=True):
        rows = lines(cells(turned), drawn_later)
        texts = zip(rows, row_texts(rows), strict=True)
        result += [_line(number, row, text) for row, text in texts if text]
    return result


def _flatten(document: "PdfDocument", number: int) -> tuple[list[tuple[str, Any]], int]:
    """Draw a form's values into its page.

    Returns the form's boxes, each a mark and a rectangle, and the number of characters before.
    """
    from pypdfium2 import raw

    page = document[number - 1]
    boxes = []
    if not page.formenv:
        page.close()
        return [], sys.maxsize
    try:
        layer = page.get_textpage()
        count = layer.count_chars()
        layer.close()
        for index in reversed(range(raw.FPDFPage_GetAnnotCount(page))):
            field = raw.FPDFPage_GetAnnot(page, index)
            kind = raw.FPDFAnnot_GetFormFieldType(page.formenv, field)
            if is_box := kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
                rectangle = raw.FS_RECTF()
                raw.FPDFAnnot_GetRect(field, rectangle)
                is_checked = raw.FPDFAnnot_IsChecked(page.formenv, field)
                if not raw.FPDFAnnot_GetFlags(field) & _HIDDEN:
                    boxes.append(("☒" if is_checked else "☐", rectangle))
            raw.FPDFPage_CloseAnnot(field)
            # Each program draws boxes in its own way, as letters of a font or as lines.
            if is_box:
                raw.FPDFPage_RemoveAnnot(page, index)
        page.flatten()
    finally:
        page.close()
    return boxes, count


def _signs(
    page: "PdfPage", boxes: Sequence[tuple[str, Any]]
) -> tuple[dict[int, list[Sign]], list[str]]:
    from pypdfium2 import raw

    layer = page.get_textpage()
    x, y = ctypes.c_double(), ctypes.c_double()
    box, matrix = raw.FS_RECTF(), raw.FS_MATRIX()
    by_angle, fonts = defaultdict[int, list[Sign]](list), defaultdict[str, list[str]](list)
    blank_gap, last, font = math.inf, 0, ""
    size, base, angle = 0.0, 0.0, 0
    text_page = layer.raw
    for place in range(layer.count_chars()):
        character = chr(raw.FPDFText_GetUnicode(text_page, place))
        unmapped = bool(raw.FPDFText_HasUnicodeMapError(text_page, place))
        if not unmapped and (character.isspace() or character == "\0"):
            # PDFium generates blanks and ends of lines, also before a superscript.
            if not raw.FPDFText_IsGenerated(text_page, place):
                blank_gap = blank_gap if character == "\0" else -math.inf
            elif character == " ":
                blank_gap = min(blank_gap, 0.05)
            fonts[font].append(" ")
            continue
        item = raw.FPDFText_GetTextObject(text_page, place)
        address = ctypes.addressof(item.contents) if item else last
        if address != last:
            last, font = address, _font_name(item)
            # Within a text, PDFium knows the letters' spacing.
            blank_gap = min(blank_gap, _BLANK_GAP)
            raw.FPDFText_GetMatrix(text_page, place, matrix)
            operand = raw.FPDFText_GetFontSize(text_page, place)
            size = max(abs(operand) * math.hypot(matrix.c, matrix.d), 0.1)
            turn = math.degrees(math.atan2(matrix.b, matrix.a)) + 180 * (operand < 0)
            angle = round(turn) % 360
            raw.FPDFText_GetCharOrigin(text_page, place, x, y)
            base = _turned(x.value, y.value, angle)[1]
        raw.FPDFText_GetLooseCharBox(text_page, place, box)
        left, right = (box.left, box.right) if angle == 0 else _extent(box, size, angle)
        shown = _character(character, font, unmapped)
        by_angle[angle].append(Sign(shown, left, right, base, size, blank_gap, place))
        fonts[font].append(character)
        blank_gap = math.inf
    angle = _usual_angle(by_angle)
    for mark, box in boxes:
        size = box.top - box.bottom
        center, middle = _turned((box.left + box.right) / 2, (box.top + box.bottom) / 2, angle)
        left, right = center - size / 2, center + size / 2
        place, base = layer.count_chars(), middle - 0.3 * size
        by_angle[angle].append(Sign(mark, left, right, base, size, -math.inf, place))
    layer.close()
    return by_angle, ["".join(text) for text in fonts.values()]


def _usual_angle(by_angle: Mapping[int, Sequence[Sign]]) -> int:
    return max(by_angle, key=lambda angle: len(by_angle[angle]), default=0)


def _font_name(item: Any) -> str:
    from pypdfium2 import raw

    name = ctypes.create_string_buffer(128)
    raw.FPDFFont_GetBaseFontName(raw.FPDFTextObj_GetFont(item), name, len(name))
    return name.value.decode(errors="replace")


def _turned(x: float, y: float, angle: int) -> tuple[float, float]:
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return x * cosine + y * sine, y * cosine - x * sine


def _extent(box: Any, size: float, angle: int) -> tuple[float, float]:
    cosine, sine = (abs(part) for part in _turned(1, 0, angle))
    width, height = box.right - box.left, box.top - box.bottom
    width = (width - size * sine) / cosine if cosine > sine else (height - size * cosine) / sine
    center, _ = _turned((box.left + box.right) / 2, (box.top + box.bottom) / 2, angle)
    return center - width / 2, center + width / 2


@cache
def _character(character: str, font: str, unmapped: bool) -> str:
    """Return a character as the font draws it, `LOST` without Unicode."""
    if character in _HYPHENS and not unmapped:
        return "-"
    drawn = symbol(character, font)
    if drawn == character and (unmapped or unicodedata.category(character) in ("Cc", "Cn", "Co")):
        return LOST
    return "☐" if drawn == character == LOST else drawn


def _rarity(text: str) -> float:
    """Return the mean rank of the letters of longer words, less two standard errors."""
    words = [word for word in text.split() if len(word) > 3 and word.isascii() and word.isalpha()]
    ranks = [_LETTERS.index(letter) for word in words for letter in word.lower()]
    return fmean(ranks) - 2 * pstdev(ranks) / math.sqrt(len(ranks)) if ranks else 0.0


def _line(page: int, row: Sequence[Cell], text: str) -> _Line:
    last = row[-1]
    text = " ".join(_storable(text).replace("\ufffd", LOST).split())
    hyphenated = len(row) == 1 and text[-1] in "-‐" and text[-2:-1].isalnum()
    text = text[:-1] if hyphenated else text
    figures = " " in text and not any(map(str.isalpha, text))
    is_row = len(row) > 1 or not _BOXES.isdisjoint(text) or figures
    return _Line(text, page, last.left, last.right, last.base, last.size, is_row, hyphenated)


def _running_text(pages: Sequence[Sequence[_Line]]) -> tuple[str, list[tuple[int, int]]]:
    """Join lines to paragraphs. Return the text, and `(offset, page)` where a page begins."""
    pages = _without_running_heads(pages)
    lines = list(chain.from_iterable(pages))
    words = Counter(word.casefold() for line in lines for word in _WORD.findall(line.text))
    gap, rights = _usual_gap(pages), _column_rights(pages)
    text, page_starts = "", list[tuple[int, int]]()
    before: _Line | None = None
    for line in lines:
        if before is not None:
            continues = _continues(before, line, gap, rights)
            if before.hyphenated and (continues or _is_full(before, rights)):
                text += _hyphen(before.text, line.text, words)
            else:
                text += "-" * before.hyphenated + _blank(before, line, continues)
        if before is None or before.page != line.page:
            page_starts.append((len(text), line.page))
        text += line.text
        before = line
    return text + "-" * lines[-1].hyphenated if lines else text, page_starts


def _blank(before: _Line, line: _Line, continues: bool) -> str:
    if continues:
        in_range = before.text[-1] == "–" and before.text[-2:-1].isdecimal()
        return "" if in_range and line.text[0].isdecimal() else " "
    are_rows = before.is_row and line.is_row and before.page == line.page
    return "\n" if are_rows else "\n\n"


def _without_running_heads(pages: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """Leave out lines that pages have in one place, apart from page numbers."""
    alike = defaultdict[tuple[str, int], list[_Line]](list)
    for page in (sorted(page, key=attrgetter("base")) for page in pages):
        for line in dict.fromkeys((*page[:_MARGIN_LINES], *page[-_MARGIN_LINES:])):
            words, place = _PAGE_NUMBER.sub("#", line.text), round(line.base / 3)
            for near in (place, place + 1):
                alike[words, near].append(line)
    pairs = chain.from_iterable(map(pairwise, alike.values()))
    heads = {line for pair in pairs if _recurs(*pair) for line in pair}
    return [[line for line in page if line not in heads] for page in pages]


def _recurs(before: _Line, line: _Line) -> bool:
    pages = line.page - before.page
    numbers = zip(*(map(int, _NUMBER.findall(each.text)) for each in (before, line)), strict=False)
    return 0 < pages < 3 and all(number - first in (0, pages) for first, number in numbers)


def _usual_gap(pages: Sequence[Sequence[_Line]]) -> float:
    gaps = [
        (before.base - line.base) / line.size
        for before, line in chain.from_iterable(map(pairwise, pages))
        if 0 < before.base - line.base < 3 * line.size
    ]
    return median(gaps) if gaps else 1.2


def _column_rights(pages: Sequence[Sequence[_Line]]) -> dict[_Line, float]:
    edges = {}
    for page in pages:
        for line in page:
            near = 3 * line.size
            rights = sorted(each.right for each in page if abs(each.left - line.left) < near)
            # A title may be wider than the column below it.
            edges[line] = rights[int(0.9 * (len(rights) - 1))]
    return edges


def _continues(before: _Line, line: _Line, gap: float, rights: dict[_Line, float]) -> bool:
    """Return whether a line continues the paragraph, or the last cell, of the line before."""
    indent = (line.left - before.left) / line.size
    if before.is_row and (before.right - before.left < PROSE * before.size or abs(indent) >= 0.4):
        return False
    if line.is_row or abs(before.size - line.size) > 0.1 * before.size:
        return False
    if line.text[0].islower():
        return True
    if before.page != line.page or line.base >= before.base:  # another column
        ends = before.text.rstrip("'\"”’)],–-0123456789").endswith((".", "!", "?", ":"))
        return _is_full(before, rights) and not ends
    near = before.base - line.base <= 1.4 * gap * line.size
    return _is_full(before, rights) and near and -4 < indent < 0.4


def _is_full(line: _Line, rights: dict[_Line, float]) -> bool:
    return line.right - line.left >= _FULL * (rights[line] - line.left)


def _hyphen(before: str, after: str, words: Counter[str]) -> str:
    first, ending = _WORD.findall(before)[-1], _WORD.match(after)
    if ending is None:
        return "-"
    if ending[0] in ("and", "or"):
        return "- "
    whole, hyphened = (f"{first}{joint}{ending[0]}".casefold() for joint in ("", "-"))
    # A word is not broken after a capital: LDL-cholesterol.
    is_broken = before[-1].islower() and after[0].islower()
    return "" if is_broken and words[whole] >= words[hyphened] else "-"
