"""The next state of a knowledge base while a build writes it, and the changes of its batches."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.knowledge.store.manifest import PASSAGES, RECORDS, TERMS, Counts, Manifest
from briefcontext.knowledge.store.passages import NewPassage, passage_rows, passage_schema, terms_of
from briefcontext.knowledge.store.table import (
    Table,
    bring_up_to_date,
    check,
    index_columns,
    indexed,
)

with needing("offline", "A knowledge base needs the packages pylance and pyarrow"):
    import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from lance.fragment import FragmentMetadata
    from numpy.typing import NDArray

UNINDEXED_RECORDS = 1_000_000
"""Rows that a lookup may read without an index; then one is made."""

REJECTS_FILE = "rejects.jsonl"
"""The source, the position and the reason of every record that was left out."""
_RECORDS = pa.schema(
    {
        "source_id": pa.string(),
        "source": pa.int32(),
        "digest": pa.binary(),
        "revision": pa.string(),
        "deleted": pa.bool_(),
    }
)
_TERMS = pa.schema({"term": pa.string(), "passages": pa.int64()})
"""How many passages hold a term: the sum of the rows of the term."""

Encoded = Union["NDArray[np.float32]", "list[FragmentMetadata]"]
"""The vectors (n, d) of passages, or fragments of the table of passages that hold them already."""


class RecordState(NamedTuple):
    """The state of a source id in a base."""

    source: int
    """The number of the source that gave the record last, or deleted it."""
    digest: bytes
    """Of its content and metadata; empty if it is deleted."""
    revision: str
    deleted: bool = False


@dataclass(slots=True)
class Changes:
    """The changes of a batch of records."""

    passages: dict[str, list[NewPassage]] = field(default_factory=dict)
    """The new passages of each record, by source id."""
    records: dict[str, RecordState] = field(default_factory=dict)
    """The new states, by source id."""
    removed: set[str] = field(default_factory=set)
    """Source ids whose earlier passages are deleted."""
    owners: dict[str, str] = field(default_factory=dict)
    """The source id of each new passage, by its id."""
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    """The numbers of sources, positions in them, and reasons."""
    counts: dict[int, Counts] = field(default_factory=dict)
    """By the number of the source."""
    finished: list[int] = field(default_factory=list)
    """The numbers of the sources that end in this batch."""
    written: bool = False

    def remove(self, source_id: str) -> None:
        """Take out all passages of a record."""
        self.removed.add(source_id)
        for passage in self.passages.pop(source_id, []):
            del self.owners[str(passage.document.id)]

    def new_passages(self) -> list[NewPassage]:
        """All new passages, record by record."""
        return [passage for passages in self.passages.values() for passage in passages]


class HeldRecords:
    """Looks up the records and passage ids of a base, unwritten batches included."""

    def __init__(self, records: Table, passages: Table) -> None:
        self._records = records
        self._passages = passages
        self._batches: list[Changes] = []
        self._states: dict[str, RecordState] = {}
        self._owners: dict[str, str] = {}

    def begin(self, changes: Changes, source_ids: Sequence[str]) -> None:
        """Look up the states of some source ids for a new batch."""
        self._batches = [batch for batch in self._batches if not batch.written]
        rows = self._records.find(_RECORDS.names, "source_id", source_ids).to_pylist()
        self._states = {row.pop("source_id"): RecordState(**row) for row in rows}
        for batch in self._batches:
            self._states |= {id: batch.records[id] for id in source_ids if id in batch.records}
        self._owners = {}
        self._batches.append(changes)

    def look_up_ids(self, ids: Sequence[str]) -> None:
        """Look up the records that have passages of these ids."""
        rows = self._passages.find(["id", "source_id"], "id", ids)
        owners = dict(zip(rows["id"].to_pylist(), rows["source_id"].to_pylist(), strict=True))
        for batch in self._batches[:-1]:
            owners = {id: owner for id, owner in owners.items() if owner not in batch.removed}
            owners |= {id: batch.owners[id] for id in ids if id in batch.owners}
        self._owners |= owners

    def state(self, source_id: str) -> RecordState | None:
        """Return the state of a source id, this batch's changes included."""
        return self._batches[-1].records.get(source_id) or self._states.get(source_id)

    def owner(self, id: str) -> str | None:
        """Return the source id of the record that has a passage of this id."""
        changes = self._batches[-1]
        owner = self._owners.get(id)
        return changes.owners.get(id) or (None if owner in changes.removed else owner)


class Draft:
    """The state that a build has reached, beyond the published one.

    Each batch ends with the file of the draft, which names the versions of the tables. The next
    build takes back anything that was written after it. Readers stay with the versions that the
    manifest names.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Continue from a state, or begin a new base."""
        self.manifest = manifest
        schemas = {
            PASSAGES: passage_schema(manifest.encoder.dimension),
            RECORDS: _RECORDS,
            TERMS: _TERMS,
        }
        self._tables = {
            name: Table.create(manifest.place.table(name), schema)
            if manifest.versions is None
            else Table.restore(manifest.place.table(name), manifest.versions[name])
            for name, schema in schemas.items()
        }
        self.passages, self.records, self._terms = self._tables.values()
        self._unindexed = len(self.records) - indexed(self.records).get("source_id", 0)
        self._rejects = [
            json.loads(line) for line in (manifest.place.read(REJECTS_FILE) or b"").splitlines()
        ]
        self._numbers: dict[str, list[int]] = {}
        """The entries of a file, or of another name."""
        for number, entry in enumerate(manifest.sources):
            self._numbers.setdefault(entry.key, []).append(number)

    def begin(self, numbers: Sequence[int]) -> None:
        """Save that there is a build which is not complete, and which sources it reads from their start."""
        names = {self.manifest.sources[number].name for number in numbers}
        self._rejects = [row for row in self._rejects if row["source"] not in names]
        for number in numbers:
            self._change(number, counts=Counts())
        self._save()

    def _change(self, number: int, **changes: Any) -> None:
        self.manifest.sources[number] = self.manifest.sources[number].model_copy(update=changes)

    def write(self, changes: Changes, encoded: Encoded) -> None:
        """Write a batch, with its new passages encoded."""
        self.remove_passages(changes.removed)
        if len(encoded):
            passages = changes.new_passages()
            if isinstance(encoded, list):
                self.passages.append(encoded)
                self._count_terms(terms_of(passage.document) for passage in passages)
            else:
                rows = passage_rows(passages, encoded)
                self.passages.append(rows)
                self._count_terms(terms.split() for terms in rows["terms"].to_pylist())
        if changes.records:
            states = [{"source_id": id, **state._asdict()} for id, state in changes.records.items()]
            self.records.upsert("source_id", pa.Table.from_pylist(states, _RECORDS))
            self._unindexed += len(states)
            if self._unindexed > UNINDEXED_RECORDS:
                # A first build that takes days needs quick lookups, too.
                index_columns(self.records, ("source_id",))
                index_columns(self.passages, ("id", "source_id"))
                self._unindexed = 0
        for number, counts in changes.counts.items():
            self._change(number, counts=self.manifest.sources[number].counts + counts)
        for number in changes.finished:
            self._finish(number)
        for number, position, reason in changes.rejects:
            source = self.manifest.sources[number].name
            self._rejects.append({"source": source, "position": position, "reason": reason})
        if changes.rejects:
            self._write_rejects()
        self._save()
        changes.written = True

    def _finish(self, number: int) -> None:
        """Note that a source was read to its end. It replaces its entries of other content."""
        self._change(number, finished=True)
        numbers = self._numbers.setdefault(self.manifest.sources[number].key, [])
        self.forget(earlier for earlier in numbers if earlier != number)
        numbers[:] = [number]

    def forget(self, numbers: Iterable[int]) -> None:
        """Have sources read again when they are given again."""
        for number in numbers:
            self._change(number, fingerprint="", note="")

    def remove_passages(self, source_ids: Iterable[str]) -> None:
        """Delete the passages of records, and count their terms down."""
        ids = list(source_ids)
        if ids and len(self.passages):
            held = self.passages.find(["terms"], "source_id", ids)["terms"].to_pylist()
            self.passages.delete("source_id", ids)
            self._count_terms((terms.split() for terms in held), -1)

    def remove_records(self, source_ids: Sequence[str]) -> None:
        """Delete records, without a trace of their revisions."""
        self.remove_passages(source_ids)
        self.records.delete("source_id", source_ids)

    def _count_terms(self, passages: Iterable[Iterable[str]], sign: int = 1) -> None:
        counts = Counter(term for terms in passages for term in set(terms))
        rows = [list(counts), [sign * count for count in counts.values()]]
        self._terms.append(pa.table(rows, schema=_TERMS))

    def _save(self) -> None:
        self.manifest.versions = {name: table.version for name, table in self._tables.items()}
        self.manifest.passages = len(self.passages)
        self.manifest.write_draft()

    def is_published(self) -> bool:
        """Return whether readers see this very state, and its indexes are sound."""
        published = Manifest.published(self.manifest.place)
        if published is None or published.serial != self.manifest.serial:
            return False
        try:
            check(self.passages, self.manifest.encoder.metric)
        except KnowledgeBaseError:
            return False
        return True

    def publish(self) -> None:
        """Bring all indexes up to date, let readers see this state, and delete earlier ones."""
        manifest = self.manifest
        manifest.trained = bring_up_to_date(
            self.passages, manifest.encoder.metric, manifest.trained
        )
        if self._unindexed > UNINDEXED_RECORDS // 10:
            index_columns(self.records, ("source_id",))
        terms = self._terms.read(_TERMS.names).group_by("term").aggregate([("passages", "sum")])
        self._terms.overwrite(
            terms.rename_columns(_TERMS.names).filter(pa.compute.field("passages") > 0)
        )
        index_columns(self._terms, ("term",))
        for number, entry in enumerate(manifest.sources):
            if entry.note and not self.records.count(f"source = {number} AND NOT deleted"):
                self._change(number, note="")
        manifest.records = self.records.count("NOT deleted")
        manifest.retracted = self.passages.count("retracted")
        manifest.texts = self.passages.count("length > 0")
        lengths = self.passages.pages(["length"])
        manifest.terms = sum(
            int(page["length"].to_numpy(zero_copy_only=False).sum()) for page in lengths
        )
        self._save()
        manifest.publish()
        for table in self._tables.values():
            table.clean()

    def _write_rejects(self) -> None:
        lines = (json.dumps(row, ensure_ascii=False) for row in self._rejects)
        self.manifest.place.write(REJECTS_FILE, "".join(f"{line}\n" for line in lines).encode())
