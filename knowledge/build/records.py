"""Records by their source ids: what a base holds of them, and what a batch changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from briefcontext.knowledge.store.manifest import Counts, IndexedSource
from briefcontext.knowledge.store.passages import NewPassage
from briefcontext.knowledge.store.table import Table

RECORD_SCHEMA = pa.schema(
    {
        "source_id": pa.string(),
        "source": pa.int32(),
        "digest": pa.binary(),
        "revision": pa.string(),
        "deleted": pa.bool_(),
    }
)


class RecordState(NamedTuple):
    """The state of a source id in a base: the rest of its row."""

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
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    """The number of a source, the position in it, and the reason."""
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
        return [passage for passages in self.passages.values() for passage in passages]


class HeldRecords:
    """Looks records and passage ids up for one batch after the other, each in one go."""

    def __init__(self, records: Table, passages: Table) -> None:
        self._records = records
        self._passages = passages
        self._batches: list[Changes] = []
        self._states: dict[str, RecordState] = {}
        self._owners: dict[str, str] = {}

    def begin(self, changes: Changes, source_ids: Sequence[str]) -> None:
        """Look up what is held under some source ids; `changes` are those of the batch that begins."""
        self._batches = [batch for batch in self._batches if not batch.written]
        rows = self._records.find(RECORD_SCHEMA.names, "source_id", source_ids).to_pylist()
        self._states = {row.pop("source_id"): RecordState(**row) for row in rows}
        for batch in self._batches:
            self._states |= {id: batch.records[id] for id in source_ids if id in batch.records}
        self._owners = {}
        self._batches.append(changes)

    def look_up_ids(self, ids: Sequence[str]) -> None:
        """Look up whose passages some ids are."""
        rows = self._passages.find(["id", "source_id"], "id", ids)
        owners = dict(zip(rows["id"].to_pylist(), rows["source_id"].to_pylist(), strict=True))
        for batch in self._batches[:-1]:
            owners = {id: owner for id, owner in owners.items() if owner not in batch.removed}
            owners |= {id: batch.owners[id] for id in ids if id in batch.owners}
        self._owners |= owners

    def state(self, source_id: str) -> RecordState | None:
        """Return what is known of a source id, by this batch's own changes too."""
        return self._batches[-1].records.get(source_id) or self._states.get(source_id)

    def owner(self, id: str) -> str | None:
        """The source id of the record that has a passage of this id; None where none has."""
        changes = self._batches[-1]
        owner = self._owners.get(id)
        return changes.owners.get(id) or (None if owner in changes.removed else owner)
