"""Plain text, and the documents that whole files become."""

import codecs
import re
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from pathlib import PurePosixPath
from typing import Any

from langchain_core.documents import Document

from briefcontext.knowledge.sources.publication import record
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting

MAX_BYTES = 1 << 28
"""The size of a file that is read into memory."""

_FILE_ENDINGS = "docx?|dvi|html?|indd|odt|pdf|pptx?|qxd|rtf|tex"
_FILE_NAME = re.compile(rf"(?i)untitled.*|microsoft word - .*|.*\.(?:{_FILE_ENDINGS})")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@rejecting
def read_text(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as one document of kind `text`, or its reject.

    The file is UTF-8, or UTF-16 with a byte order mark. Another encoding is rejected and not
    guessed: a dose in µg must not become another.
    """
    yield file_document(document_id, decoded(read_whole(stream)), kind="text")


def read_whole(stream: BufferedIOBase) -> bytes:
    """Return all of a file's content. Raises UnreadableError if it is too large."""
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UnreadableError(f"The file has more than {MAX_BYTES:,} bytes: split it.")
    return content


def file_document(
    document_id: str, text: str, *titles: str, kind: str, metadata: Mapping[str, Any] | None = None
) -> Document:
    """Return the document of a whole file. Raises UnreadableError if there is no text.

    Its title is the first of `titles` that is not a file's name, else the file's stem.
    """
    if not text.strip():
        raise UnreadableError("It has no text.")
    stated = (" ".join(title.split()) for title in titles)
    named = (title for title in stated if title and not _FILE_NAME.fullmatch(title))
    title = next(named, stem(document_id))
    return record(document_id, text, title=title, kind=kind, metadata=metadata or {}, optional={})


def stem(document_id: str) -> str:
    """Return the file's name without its ending."""
    return PurePosixPath(document_id.removesuffix(".gz")).stem


def decoded(content: bytes) -> str:
    """Return the text of UTF-8, or of UTF-16 with a byte order mark.

    Raises UnreadableError for another encoding and for NUL characters.
    """
    try:
        text = content.decode("utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig")
    except UnicodeDecodeError as error:
        byte = content[error.start : error.start + 1].hex()
        raise UnreadableError(
            f"It is not {error.encoding.upper()} (byte 0x{byte} at {error.start:,}): convert it to "
            "UTF-8, for example with `iconv -f WINDOWS-1252 -t UTF-8`."
        ) from None
    if "\0" in text:
        raise UnreadableError("It holds NUL characters: it is not text.")
    return text
