"""The changes that a batch of records makes to a knowledge base."""

from dataclasses import dataclass, field

from briefcontext.knowledge.store.manifest import Counts, IndexedSource
from briefcontext.knowledge.store.passages import NewPassage

Reject = tuple[int, str, str]
"""The number of a source, the position in it, and the reason."""


@dataclass(frozen=True, slots=True)
class RecordState:
    """The state of a source id in a base."""

    source: int
    """The number of the source that gave the record last, or deleted it."""
    digest: bytes
    """Of its content; empty where it is deleted."""
    revision: str
    deleted: bool = False


@dataclass(slots=True)
class Changes:
    """The changes of a batch of records, on top of the batches before it."""

    passages: dict[str, list[NewPassage]] = field(default_factory=dict)
    """The new passages of each record, by source id."""
    records: dict[str, RecordState] = field(default_factory=dict)
    """What is known from now on, by source id."""
    removed: set[str] = field(default_factory=set)
    """Source ids whose passages from before this batch go."""
    owners: dict[str, str] = field(default_factory=dict)
    """The source id of each new passage, by its id."""
    rejects: list[Reject] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    sources: list[IndexedSource] = field(default_factory=list)
    """All sources as they are after this batch."""
    next_number: int = 1
    written: bool = False
    """It is in the tables."""

    def remove(self, source_id: str) -> None:
        """Take out all passages of a record."""
        self.removed.add(source_id)
        for passage in self.passages.pop(source_id, []):
            del self.owners[str(passage.document.id)]

    def new_passages(self) -> list[NewPassage]:
        """All new passages, in the order of their numbers."""
        found = [passage for passages in self.passages.values() for passage in passages]
        return sorted(found, key=lambda passage: passage.number)
