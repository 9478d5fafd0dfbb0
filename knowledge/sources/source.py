"""Sources: named, readable more than once, and made of documents, deletions and rejects; entries at hand, and files."""

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
"""The position of a reject that is not a part of its file."""
GZIP_MAGIC = b"\x1f\x8b"
DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a truncated or altered gzip file raises."""

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True, eq=False)
class VectorDocument:
    """A document that comes with its vector, (d,) float32: indexed without being encoded again."""

    document: Document
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A record that the source withdraws."""

    source_id: str
    revised: str = ""
    """The latest revision date among the records that the source gave before, YYYY-MM-DD, or "": a copy of the
    record that was not revised since stays deleted."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not be read."""

    position: str
    """Where in the source: `line 12`, `record 40 (PMID 123)`."""
    reason: str
    """One sentence for a person."""


Entry = Document | VectorDocument | Deletion | Reject


@runtime_checkable
class Source(Protocol):
    """One file, one download, one table: whatever is read from beginning to end.

    Documents of one record share their `source_id` and follow each other. A source of the same fingerprint yields the
    same entries in the same order: a build that was stopped counts on it to go on where it was.

    A source of documents with vectors has the encoder's name, without a folder, as its `encoder`; one that people
    should know something of has a sentence as its `note`.
    """

    @property
    def name(self) -> str:
        """What people call it; a file's path."""

    @property
    def fingerprint(self) -> str:
        """`sha256:…` of the content; "" when it is unknown: the source is then read whenever it is given."""

    @property
    def size(self) -> int | None:
        """How much there is to read, in bytes or in records; None when it is unknown."""

    @property
    def consumed(self) -> int:
        """How much of `size` has been read so far, in the same unit."""

    def entries(self) -> Iterator[Entry]:
        """Read it from the beginning, lazily."""


class EntrySource:
    """A source made of entries at hand, or of a function that gives them. `size` counts entries."""

    def __init__(
        self,
        entries: Iterable[Entry] | Callable[[], Iterable[Entry]],
        *,
        name: str = "records",
        fingerprint: str = "",
        size: int | None = None,
    ) -> None:
        self._entries = entries
        self.name = name
        self.fingerprint = fingerprint
        self.size = size
        self.consumed = 0

    def entries(self) -> Iterator[Entry]:
        self.consumed = 0
        for entry in self._entries() if callable(self._entries) else self._entries:
            self.consumed += 1
            yield entry


class UnreadableError(Exception):
    """A file cannot be read, or not further; the message says why, without its name."""

    def __init__(self, reason: str, position: str = "") -> None:
        super().__init__(reason)
        self.position = position


def rejecting(read: Callable[_P, Iterator[Entry]]) -> Callable[_P, Iterator[Entry]]:
    """Have a reader end on a reject where it raises UnreadableError, or compressed data turn out to be damaged."""

    @wraps(read)
    def entries(*args: _P.args, **options: _P.kwargs) -> Iterator[Entry]:
        count = 0
        try:
            for entry in read(*args, **options):
                yield entry
                count += 1
        except (UnreadableError, *DAMAGED_GZIP) as error:
            reason = str(error) if isinstance(error, UnreadableError) else f"The compressed data is damaged: {error}"
            place = getattr(error, "position", "") or (f"after record {count}" if count else WHOLE_FILE)
            yield Reject(place, reason)

    return entries


class FileSource:
    """One file, plain or gzipped, that `read` takes the entries from. `size` counts its bytes on disk."""

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
        """Nothing is read yet.

        Args:
            read: the entries of its uncompressed content; given the document's id as well where there is one.
            reading: the format, the version of the reader, options, as JSON values: read otherwise, it is another
                source.
            document_id: of the document that the file is; None: its documents have ids of their own.
            beside: files that it is read together with.
        """
        self.path = path
        self.name = name
        self.reading = reading
        self.document_id = document_id
        self.consumed = 0
        self._read = read
        self._files = [*beside, path]
        with file_errors(path):
            self.size = path.stat().st_size

    @cached_property
    def fingerprint(self) -> str:
        """`sha256:…` of the files' bytes and of how they are read."""
        digests = [] if self.document_id is None else [self.document_id]
        for path in self._files:
            with file_errors(path):
                digests.append(file_sha256(path))
        return f"sha256:{sha256(json.dumps([*self.reading, *digests]))}"

    def keep_id(self, document_id: str) -> None:
        """Have its document keep the id that it has in a base."""
        self.document_id = document_id
        self.__dict__.pop("fingerprint", None)

    def entries(self) -> Iterator[Entry]:
        self.consumed = 0
        ids = [] if self.document_id is None else [self.document_id]
        entry: Entry | None = None
        with open_content(self.path) as (stream, position):
            for entry in self._read(stream, *ids):
                self.consumed = position()
                yield entry
            self.consumed = position()
        if entry is None:
            yield Reject(WHOLE_FILE, "It holds no record.")


@contextmanager
def open_content(path: Path) -> Iterator[tuple[BufferedIOBase, Callable[[], int]]]:
    """The file's content, uncompressed, and how many of its bytes have been read. Raises what `file_errors` does."""
    with file_errors(path), path.open("rb", buffering=0) as file, io.BufferedReader(file) as stored:
        # By its first bytes: many tools unpack a download and leave it its name.
        gzipped = stored.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
        with gzip.GzipFile(fileobj=stored) if gzipped else stored as content:
            yield content, file.tell


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raise KnowledgeBaseError where the operating system does not let us read a file."""
    try:
        yield
    except DAMAGED_GZIP:
        raise
    except OSError as error:
        raise KnowledgeBaseError(
            f"{path} cannot be read ({error.strerror or error}): check the path and its permissions."
        ) from error


def only_document(path: str | Path, entries: Iterable[Entry]) -> Document:
    """Return the one document of a file; raises KnowledgeBaseError without one, or where a part cannot be read."""
    found: Document | None = None
    for entry in entries:
        if isinstance(entry, Reject):
            place = "" if entry.position == WHOLE_FILE else f" at {entry.position}"
            raise KnowledgeBaseError(f"{path} cannot be read{place}: {entry.reason}")
        if not isinstance(entry, Deletion):
            if found is not None:
                raise several_documents(path)
            found = entry.document if isinstance(entry, VectorDocument) else entry
    if found is None:
        raise KnowledgeBaseError(f"There is no document in {path}. Give a file that holds one.")
    return found


def several_documents(path: str | Path) -> KnowledgeBaseError:
    """Return what is wrong with a file of several documents where one is read."""
    return KnowledgeBaseError(f"{path} holds more than one document. Index it: briefcontext index {path} --kb DIR")
