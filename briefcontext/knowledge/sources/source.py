"""Sources of documents, deletions and rejects: entries in memory, and files."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from io import BufferedIOBase
from pathlib import Path
from typing import ParamSpec, Protocol, runtime_checkable

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.files import file_sha256, sha256

WHOLE_FILE = "the whole file"
GZIP_MAGIC = b"\x1f\x8b"
DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True, eq=False)
class VectorDocument:
    """A document with its vector, (d,) float32, which is not encoded again."""

    document: Document
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A record that the source withdraws."""

    source_id: str
    revised: str = ""
    """The last revision, YYYY-MM-DD, in the records before; an older copy stays deleted."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not be read."""

    position: str
    """Its place in the source: `line 12`, `record 40 (PMID 123)`."""
    reason: str
    """One sentence."""


Entry = Document | VectorDocument | Deletion | Reject


@runtime_checkable
class Source(Protocol):
    """A file, a download or a table that can be read from its beginning more than once.

    Documents of one record share their `source_id` and follow each other. A source of vectors has
    an `encoder`, its name. `note` is a sentence for users.
    """

    @property
    def name(self) -> str:
        """A file's path, or another name."""

    @property
    def fingerprint(self) -> str:
        """`sha256:…` of the content; "" if unknown, so that the source is always read."""

    @property
    def size(self) -> int | None:
        """The bytes or records to read; None if unknown."""

    @property
    def consumed(self) -> int:
        """The part of `size` that has been read."""

    def entries(self) -> Iterator[Entry]:
        """Read the source from its beginning, lazily."""


class EntrySource:
    """A source of entries in memory, or of a function that returns them. `size` counts entries."""

    def __init__(
        self,
        entries: Iterable[Entry] | Callable[[], Iterable[Entry]],
        *,
        name: str = "records",
        fingerprint: str = "",
        size: int | None = None,
    ) -> None:
        self._entries, self.name, self.fingerprint = entries, name, fingerprint
        self.size, self.consumed = size, 0

    def entries(self) -> Iterator[Entry]:
        self.consumed = 0
        for entry in self._entries() if callable(self._entries) else self._entries:
            self.consumed += 1
            yield entry


class UnreadableError(Exception):
    """A file cannot be read, or not further; the message is the reason."""

    def __init__(self, reason: str, position: str = "") -> None:
        super().__init__(reason)
        self.position = position


def rejecting(read: Callable[_P, Iterator[Entry]]) -> Callable[_P, Iterator[Entry]]:
    """Let a reader end with a reject if its file is unreadable or damaged from a place on."""

    @wraps(read)
    def entries(*args: _P.args, **options: _P.kwargs) -> Iterator[Entry]:
        count, position = 0, ""
        try:
            for entry in read(*args, **options):
                yield entry
                count += 1
            return
        except UnreadableError as error:
            reason, position = str(error), error.position
        except DAMAGED_GZIP as error:
            reason = f"The compressed data is damaged: {error}"
        yield Reject(position or (f"after record {count}" if count else WHOLE_FILE), reason)

    return entries


class FileSource:
    """A file, plain or gzipped. `size` counts its bytes on disk."""

    def __init__(
        self,
        path: Path,
        read: Callable[..., Iterator[Entry]],
        *,
        name: str,
        reading: Sequence[object],
        document_id: str | None = None,
        beside: Sequence[Path] = (),
    ) -> None:
        """Describe a file, whose content `read` reads, with the document's id if it has one.

        `reading` is the way of reading, as JSON values for the fingerprint; `beside` are files that
        are read together with it.
        """
        self.path, self.name, self.reading, self.document_id = path, name, reading, document_id
        self._read, self._files, self.consumed = read, [*beside, path], 0
        with file_errors(path):
            self.size = path.stat().st_size

    @property
    def _ids(self) -> list[str]:
        return [] if self.document_id is None else [self.document_id]

    @cached_property
    def fingerprint(self) -> str:
        """`sha256:…` of the files' bytes and of how they are read."""
        digests = self._ids
        for path in self._files:
            with file_errors(path):
                digests.append(file_sha256(path))
        return f"sha256:{sha256(json.dumps([*self.reading, *digests]))}"

    def keep_id(self, document_id: str) -> None:
        """Set the id that the document has in a knowledge base."""
        self.document_id = document_id
        self.__dict__.pop("fingerprint", None)

    def entries(self) -> Iterator[Entry]:
        self.consumed = 0
        entry: Entry | None = None
        with open_content(self.path) as (stream, position):
            for entry in self._read(stream, *self._ids):
                self.consumed = position()
                yield entry
            self.consumed = position()
        if entry is None:
            yield Reject(WHOLE_FILE, "It holds no record.")


@contextmanager
def open_content(path: Path) -> Iterator[tuple[BufferedIOBase, Callable[[], int]]]:
    """Open a file's uncompressed content, and a function that counts the bytes read."""
    with file_errors(path), path.open("rb", 0) as file, io.BufferedReader(file) as stored:
        gzipped = stored.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
        with gzip.GzipFile(fileobj=stored) if gzipped else stored as content:
            yield content, file.tell


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raise KnowledgeBaseError if the operating system cannot read a file."""
    try:
        yield
    except DAMAGED_GZIP:
        raise
    except OSError as error:
        reason = error.strerror or error
        message = f"{path} cannot be read ({reason}): check the path and its permissions."
        raise KnowledgeBaseError(message) from error


def only_document(path: str | Path, entries: Iterable[Entry]) -> Document:
    """Return the one document of a file, else raise KnowledgeBaseError."""
    document: Document | None = None
    for entry in entries:
        if isinstance(entry, Reject):
            place = "" if entry.position == WHOLE_FILE else f" at {entry.position}"
            raise KnowledgeBaseError(f"{path} cannot be read{place}: {entry.reason}")
        if not isinstance(entry, Deletion):
            if document is not None or isinstance(entry, VectorDocument):
                raise several_documents(path)
            document = entry
    if document is None:
        raise KnowledgeBaseError(f"There is no document in {path}. Give a file that holds one.")
    return document


def several_documents(path: str | Path) -> KnowledgeBaseError:
    """Return the error for a file of several documents."""
    advice = f"Index it: briefcontext index {path} --kb DIR"
    return KnowledgeBaseError(f"{path} holds more than one document. {advice}")
