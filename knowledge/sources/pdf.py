"""PDF: one document per file, the running text of its pages."""

import io
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any

from briefcontext.errors import MissingExtraError
from briefcontext.knowledge.sources.file_source import UnreadableError, rejecting
from briefcontext.knowledge.sources.pdf_layout import Line, running_text
from briefcontext.knowledge.sources.source import Entry, Reject
from briefcontext.knowledge.sources.texts import file_document, read_whole

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_HYPHEN = "\x02"
"""What PDFium gives for a hyphen at the end of a line."""
_LINE = re.compile(rf"[^\r\n{_HYPHEN}]+")
_alone = threading.Lock()
"""PDFium may be used by one thread at a time."""


def require_pdf() -> None:
    """Raise MissingExtraError when the package that reads PDF is not installed."""
    if find_spec("pypdfium2") is None:
        raise MissingExtraError("To read PDF, the package pypdfium2 is needed: pip install 'briefcontext[pdf]'.")


@rejecting
def read_pdf(stream: BufferedIOBase, document_id: str, **metadata: str | int) -> Iterator[Entry]:
    """The file as one document of kind `pdf`, and a reject for each page that cannot be read.

    Its lines are joined to paragraphs, words that were broken at their ends too; running heads and page numbers are
    left out. `page_starts` is JSON: `[offset, page]` for each page that text begins on. `page_count` counts them all,
    `pages_without_text` those that are blank or pictures. The title is the one that the file says it has, else its
    name without the ending. A file that needs a password or has no text at all, as a scan, is rejected.
    """
    content = read_whole(stream)
    require_pdf()
    from pypdfium2 import PdfDocument

    pages: list[list[Line]] = []
    rejects: list[Reject] = []
    with _alone, _pdf_errors(), PdfDocument(io.BytesIO(content)) as document:
        title = " ".join(_storable(document.get_metadata_dict().get("Title", "")).split())
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
    text, page_starts = running_text([line for lines in pages for line in lines])
    metadata |= {"page_count": len(pages), "page_starts": json.dumps(page_starts)}
    if blank := sum(not lines for lines in pages):
        metadata["pages_without_text"] = blank
    yield file_document(document_id, text, title=title, kind="pdf", metadata=metadata)
    yield from rejects


def _lines(document: "PdfDocument", number: int) -> Iterator[Line]:
    from pypdfium2 import raw

    page = document[number - 1]
    words = page.get_textpage()
    try:
        signs = "".join(chr(raw.FPDFText_GetUnicode(words, place)) for place in range(words.count_chars()))
        for line in _LINE.finditer(signs):
            if printed := line[0].strip():
                first = line.start() + line[0].index(printed)
                left, base, _, _ = words.get_charbox(first, loose=True)
                _, _, right, _ = words.get_charbox(first + len(printed) - 1, loose=True)
                size = raw.FPDFText_GetFontSize(words, first)
                text = " ".join(_storable(printed).split())
                yield Line(text, number, left, right, base, size, hyphenated=signs.startswith(_HYPHEN, line.end()))
    finally:
        words.close()
        page.close()


@contextmanager
def _pdf_errors() -> Iterator[None]:
    """Turn what PDFium says into the reason for a reject."""
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
