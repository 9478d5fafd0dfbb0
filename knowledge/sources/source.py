"""What a knowledge base is built from: a named source whose entries can be read again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.sources.records import Entry


@dataclass(frozen=True, slots=True, eq=False)
class VectorDocument:
    """A document that comes with its vector, (d,) float32: indexed without being encoded again."""

    document: Document
    vector: NDArray[np.float32]


SourceEntry = Entry | VectorDocument


class Source(Protocol):
    """One file, one download, one table: whatever is read from beginning to end.

    Documents of one record (the sections of an article) share their `source_id` and follow each other.
    Reading a source of the same fingerprint again yields the same entries in the same order: a build that was
    stopped counts on it to go on where it was.
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

    def entries(self) -> Iterator[SourceEntry]:
        """Read it from the beginning, lazily."""


class EntrySource:
    """A source made of entries at hand: a list of documents, a generator. `size` counts entries."""

    def __init__(
        self,
        entries: Iterable[SourceEntry],
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

    def entries(self) -> Iterator[SourceEntry]:
        """Each entry in turn; a generator can be read once only."""
        self.consumed = 0
        for entry in self._entries:
            self.consumed += 1
            yield entry
