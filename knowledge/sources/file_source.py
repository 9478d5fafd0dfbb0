"""A file as a source: its size, how far it has been read, its fingerprint, and its content uncompressed."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from briefcontext.errors import KnowledgeBaseError
from briefcontext.files import file_sha256, sha256
from briefcontext.knowledge.sources.source import SourceEntry

GZIP_MAGIC = b"\x1f\x8b"
DAMAGED_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a truncated or altered gzip file raises."""

Read = Callable[[BinaryIO], Iterator[SourceEntry]]


class FileSource:
    """One file, plain or gzipped, that `read` takes the entries from. `size` counts its bytes on disk."""

    def __init__(
        self,
        path: Path,
        read: Read,
        *,
        name: str,
        format: str,
        reading: Sequence[object],
        document_id: str | None = None,
    ) -> None:
        """Name a file and its reader; nothing is read yet.

        Args:
            path: the file.
            read: the entries of its uncompressed content.
            name: what people call it.
            format: what `read` takes it for.
            reading: what else decides how it is read, JSON values: the version of the reader, options. A file
                that is read in another way is another source.
            document_id: the id of the document that the file is, where its place gives it; None: its documents have
                ids of their own.
        """
        self.path = path
        self.name = name
        self.format = format
        self.document_id = document_id
        self.consumed = 0
        self._read = read
        self._reading = [format, *reading]
        with file_errors(path):
            self.size = path.stat().st_size

    @cached_property
    def fingerprint(self) -> str:
        """`sha256:…` of the file's bytes and of how they are read; computed when it is first asked for."""
        return fingerprint([self.path], self._reading)

    def entries(self) -> Iterator[SourceEntry]:
        """Read it from the beginning, lazily."""
        self.consumed = 0
        with file_errors(self.path), open_content(self.path, self._count) as stream:
            yield from self._read(stream)

    def _count(self, size: int) -> None:
        self.consumed += size


def fingerprint(paths: Sequence[Path], reading: Sequence[object]) -> str:
    """`sha256:…` of the files' bytes and of how they are read."""
    digests = []
    for path in paths:
        with file_errors(path):
            digests.append(file_sha256(path))
    return f"sha256:{sha256(json.dumps([*reading, *digests]))}"


@contextmanager
def open_content(path: Path, count: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """The file's content, uncompressed where it is gzipped; `count` is told of the bytes read from disk."""
    with path.open("rb", buffering=0) as file, io.BufferedReader(_CountedFile(file, count)) as stored:
        # By its first bytes: many tools unpack a download and leave it its name.
        if stored.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            with gzip.GzipFile(fileobj=stored) as content:
                yield cast(BinaryIO, content)
        else:
            yield stored


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Say which file the operating system does not let us read."""
    try:
        yield
    except DAMAGED_GZIP:
        raise
    except OSError as error:
        raise KnowledgeBaseError(
            f"{path} cannot be read ({error.strerror or error}): check the path and its permissions."
        ) from error


class _CountedFile(io.RawIOBase):
    def __init__(self, file: io.FileIO, count: Callable[[int], None] | None) -> None:
        self._file = file
        self._count = count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = self._file.readinto(buffer)
        if self._count is not None:
            self._count(size)
        return size
