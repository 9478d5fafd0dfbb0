"""Lookup of the records that a base holds: in its tables, and in batches still to be written."""

from collections.abc import Sequence

import pyarrow as pa

from briefcontext.knowledge.build.changes import Changes, RecordState
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


def record_rows(records: dict[str, RecordState]) -> pa.Table:
    """Records as rows of their table."""
    rows = [(id, state.source, state.digest, state.revision, state.deleted) for id, state in records.items()]
    columns = zip(*rows, strict=True) if rows else [()] * len(RECORD_SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)],
        schema=RECORD_SCHEMA,
    )


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
