"""The next state of a knowledge base while a build writes it: what is held of each record, and what batches change."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Union

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.store.manifest import PASSAGES, RECORDS, REJECTS, Counts, IndexedSource, Manifest
from briefcontext.knowledge.store.passages import NewPassage, passage_rows, passage_schema
from briefcontext.knowledge.store.table import Table, bring_up_to_date, check, index_columns, indexed

with needing("offline", "A knowledge base needs the packages pylance and pyarrow"):
    import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from lance.fragment import FragmentMetadata
    from numpy.typing import NDArray

UNINDEXED_RECORDS = 1_000_000
"""Rows that may be looked through for each batch of records before an index over them is made or renewed."""

REJECTS_FILE = "rejects.jsonl"
"""The source, the position and the reason of every record that was left out, in order."""
RECORD_SCHEMA = pa.schema(
    {
        "source_id": pa.string(),
        "source": pa.int32(),
        "digest": pa.binary(),
        "revision": pa.string(),
        "deleted": pa.bool_(),
    }
)
_REJECT_SCHEMA = pa.schema({"source": pa.int32(), "position": pa.string(), "reason": pa.string()})

Encoded = Union["NDArray[np.float32]", "list[FragmentMetadata]"]
"""The vectors (n, d) of passages, or fragments of the table of passages in which they are already."""


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


class Draft:
    """The state that a build has reached, beyond the published one.

    What is written counts once the manifest or the draft's file names the tables' versions: whatever a build that is
    killed has written after that is taken back when the next one begins. Readers stay with the versions that the
    manifest names.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Go on from a state, or begin a new base."""
        self.manifest = manifest
        schemas = {
            PASSAGES: passage_schema(manifest.encoder.dimension),
            RECORDS: RECORD_SCHEMA,
            REJECTS: _REJECT_SCHEMA,
        }
        self._tables = {
            name: Table.create(manifest.place.table(name), schema)
            if manifest.versions is None
            else Table.restore(manifest.place.table(name), manifest.versions[name])
            for name, schema in schemas.items()
        }
        self.passages, self.records, self._rejects = self._tables.values()
        self._unindexed = len(self.records) - indexed(self.records).get("source_id", 0)

    def begin(self, ledger: SourceLedger) -> None:
        """Keep which sources were given, and that there is a build which is not complete."""
        self.manifest.sources = ledger.entries
        self._save()

    def write(self, changes: Changes, encoded: Encoded) -> None:
        """Write a batch, with its new passages encoded, and that it was written."""
        if len(self.passages):
            self.passages.delete("source_id", changes.removed)
        if len(encoded):
            rows = encoded if isinstance(encoded, list) else passage_rows(changes.new_passages(), encoded)
            self.passages.append(rows)
        if changes.records:
            if len(self.records):
                self.records.delete("source_id", changes.records)
            rows = [{"source_id": id, **state._asdict()} for id, state in changes.records.items()]
            self.records.append(pa.Table.from_pylist(rows, RECORD_SCHEMA))
            self._unindexed += len(rows)
            if self._unindexed > UNINDEXED_RECORDS:
                # Lookups by id are to be quick, also in a first build that takes days.
                index_columns(self.records, ("source_id",))
                index_columns(self.passages, ("id", "source_id"))
                self._unindexed = 0
        if changes.rejects:
            columns = zip(*changes.rejects, strict=True)
            self._rejects.append(pa.table(list(columns), schema=_REJECT_SCHEMA))
        self.manifest.sources, self.manifest.next_number = changes.sources, changes.next_number
        self._save()
        changes.written = True

    def _save(self) -> None:
        self.manifest.versions = {name: table.version for name, table in self._tables.items()}
        self.manifest.write_draft()

    def is_published(self) -> bool:
        """Return whether readers see this very state, and all that they search is sound."""
        published = Manifest.published(self.manifest.place)
        if published is None or published.serial != self.manifest.serial:
            return False
        try:
            check(self.passages, self.manifest.encoder.metric)
        except KnowledgeBaseError:
            return False
        return True

    def publish(self, ledger: SourceLedger) -> None:
        """Bring all indexes up to date, make this the state that readers see, and remove what none needs any more."""
        manifest = self.manifest
        manifest.trained = bring_up_to_date(self.passages, manifest.encoder.metric, manifest.trained)
        if self._unindexed > UNINDEXED_RECORDS // 10:
            index_columns(self.records, ("source_id",))
        for number, source in enumerate(ledger.entries):
            if source.note and not self.records.count(f"source = {number} AND NOT deleted"):
                ledger.change(number, note="")
        manifest.sources = ledger.entries
        manifest.records = self.records.count("NOT deleted")
        manifest.passages, manifest.retracted = len(self.passages), self.passages.count("retracted")
        manifest.texts = self.passages.count("length > 0")
        lengths = self.passages.pages(["length"])
        manifest.terms = sum(int(page["length"].to_numpy(zero_copy_only=False).sum()) for page in lengths)
        self._save()
        self._write_rejects()
        manifest.publish()
        for table in self._tables.values():
            table.clean()

    def _write_rejects(self) -> None:
        rows = [row for page in self._rejects.pages(_REJECT_SCHEMA.names) for row in page.to_pylist()]
        if rows:
            named = ({**row, "source": self.manifest.sources[row["source"]].name} for row in rows)
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in named)
            self.manifest.place.write(REJECTS_FILE, lines.encode())
