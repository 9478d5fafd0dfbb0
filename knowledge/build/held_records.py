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
        unknown = [id for id in source_ids if self._pending(id) is None]
        rows = self._records.find(RECORD_SCHEMA.names, "source_id", unknown).to_pylist()
        self._states = {row.pop("source_id"): RecordState(**row) for row in rows}
        self._owners = {}
        self._batches.append(changes)

    def look_up_ids(self, ids: Sequence[str]) -> None:
        """Look up whose passages some ids are."""
        rows = self._passages.find(["id", "source_id"], "id", ids)
        self._owners |= zip(rows["id"].to_pylist(), rows["source_id"].to_pylist(), strict=True)

    def state(self, source_id: str) -> RecordState | None:
        """Return what is known of a source id, by this batch's own changes too."""
        pending = self._pending(source_id)
        return self._states.get(source_id) if pending is None else pending

    def _pending(self, source_id: str) -> RecordState | None:
        found = (batch.records[source_id] for batch in reversed(self._batches) if source_id in batch.records)
        return next(found, None)

    def owner(self, id: str) -> str | None:
        """The source id of the record that has a passage of this id; None where none has."""
        later: list[Changes] = []
        for batch in reversed(self._batches):
            if (owner := batch.owners.get(id)) is not None and not _removed(owner, later):
                return owner
            later.append(batch)
        owner = self._owners.get(id)
        return None if owner is None or _removed(owner, later) else owner


def _removed(source_id: str, batches: Sequence[Changes]) -> bool:
    return any(source_id in batch.removed for batch in batches)
