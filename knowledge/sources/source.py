"""The interface of sources: named, readable more than once, and made of documents, deletions and rejects."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

WHOLE_FILE = "the whole file"
"""The position of a reject that is not a part of its file."""


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


class Source(Protocol):
    """One file, one download, one table: whatever is read from beginning to end.

    Documents of one record (the sections of an article) share their `source_id` and follow each other.
    Reading a source of the same fingerprint again yields the same entries in the same order: a build that was
    stopped counts on it to go on where it was.

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
    """A source made of entries at hand: a list of documents, a generator. `size` counts entries."""

    def __init__(
        self,
        entries: Iterable[Entry] | Callable[[], Iterable[Entry]],
        *,
        name: str = "records",
        fingerprint: str = "",
        size: int | None = None,
    ) -> None:
        """Name the entries, or a function that gives them; a generator can be read once only."""
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
