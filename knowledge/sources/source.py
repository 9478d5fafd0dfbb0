"""The interface of sources: named, and readable more than once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
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


@runtime_checkable
class VectorSource(Protocol):
    """A source whose documents come with the vectors of one encoder."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def encoder(self) -> str:
        """The encoder, by its name without a folder."""


def check_encoder(source: Source, encoder: str) -> None:
    """Raise KnowledgeBaseError where a source's vectors are not those of the encoder, named as `load_encoder` does.

    Vectors of another encoder may have the right length, and their similarities would mean nothing.
    """
    if isinstance(source, VectorSource) and encoder.partition(":")[0] != source.encoder:
        raise KnowledgeBaseError(
            f"{source.name} holds vectors of the encoder {source.encoder!r}, and the knowledge base's encoder is "
            f"{encoder!r}: index it into a base of its own, with --encoder {source.encoder}."
        )


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
