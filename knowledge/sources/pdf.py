"""PDF: one document per file, the text of its pages parted by form feeds."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, BinaryIO

from briefcontext.errors import MissingExtraError
from briefcontext.knowledge.sources.plain_text import (
    WHOLE_FILE,
    UnreadableFileError,
    file_document,
    read_whole,
    stem,
)
from briefcontext.knowledge.sources.records import Entry, Reject

if TYPE_CHECKING:
    from pypdf import PdfReader

PAGE_BREAK = "\f"


def require_pdf() -> None:
    """Raise MissingExtraError when the package that reads PDF is not installed."""
    if find_spec("pypdf") is None:
        raise MissingExtraError("To read PDF, the package pypdf is needed: pip install 'briefcontext[pdf]'.")


def read_pdf(stream: BinaryIO, document_id: str) -> Iterator[Entry]:
    """The file as one document of kind `pdf`, and a reject for each page that cannot be read.

    A form feed stands between two pages and nowhere else, so that the page of an offset is one more than the
    form feeds before it. `pages` counts them all, `pages_without_text` those that are blank or pictures. The
    title is the one that the file says it has, else its name without the ending. A file that needs a password
    or has no text at all, as a scan, is rejected.
    """
    rejects: list[Reject] = []
    try:
        reader = _open(read_whole(stream))
        pages = list(_pages(reader, rejects))
        if not any(map(str.strip, pages)):
            raise UnreadableFileError(
                f"None of its {len(pages)} pages can be read, the first because: {rejects[0].reason}"
                if rejects
                else f"None of its {len(pages)} pages has text, as in a scan: run text recognition (OCR) over it first."
            )
    except UnreadableFileError as reason:
        yield Reject(WHOLE_FILE, str(reason))
        return
    metadata = {"pages": len(pages)}
    if blank := sum(not page.strip() for page in pages):
        metadata["pages_without_text"] = blank
    title = _title(reader) or stem(document_id)
    yield file_document(document_id, PAGE_BREAK.join(pages), title=title, kind="pdf", **metadata)
    yield from rejects


def _open(content: bytes) -> "PdfReader":
    require_pdf()
    from pypdf import PasswordType, PdfReader

    with _pdf_errors():
        reader = PdfReader(io.BytesIO(content))
        # Most protected files only forbid changes: they open with an empty password.
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise UnreadableFileError("It needs a password: save a copy that does not.")
        len(reader.pages)
    return reader


def _pages(reader: "PdfReader", rejects: list[Reject]) -> Iterator[str]:
    """The text of each page, "" for one that cannot be read, of which `rejects` then tells."""
    for number in range(len(reader.pages)):
        try:
            with _pdf_errors():
                text = reader.pages[number].extract_text()
        except UnreadableFileError as reason:
            rejects.append(Reject(f"page {number + 1}", str(reason)))
            text = ""
        yield _storable(text).replace(PAGE_BREAK, "\n")


def _title(reader: "PdfReader") -> str:
    try:
        with _pdf_errors():
            title = reader.metadata.title if reader.metadata else None
    except UnreadableFileError:
        title = None  # the file has a name, too
    return " ".join(_storable(title).split()) if isinstance(title, str) else ""


@contextmanager
def _pdf_errors() -> Iterator[None]:
    """Turn what pypdf raises into the reason for a reject."""
    from pypdf.errors import DependencyError

    try:
        yield
    except UnreadableFileError:
        raise
    except DependencyError:
        raise UnreadableFileError(
            "It is encrypted with AES, which needs the package cryptography: pip install 'briefcontext[pdf]'."
        ) from None
    # A damaged file may make pypdf raise anything, as it documents.
    except Exception as error:
        raise UnreadableFileError(
            f"The PDF cannot be read: {str(error).rstrip('.') or type(error).__name__}."
        ) from error


def _storable(text: str) -> str:
    """The text with surrogates joined or replaced, which broken fonts' tables give and UTF-8 cannot hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
