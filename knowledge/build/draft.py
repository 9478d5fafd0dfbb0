"""The next state of a knowledge base, while a build writes it."""

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.records import RECORD_SCHEMA, Changes
from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.store import indexes
from briefcontext.knowledge.store.manifest import PASSAGES, RECORDS, REJECTS, Manifest, TableVersions
from briefcontext.knowledge.store.passages import passage_rows, passage_schema
from briefcontext.knowledge.store.table import Table
from briefcontext.knowledge.store.verification import search_problems

if TYPE_CHECKING:
    import numpy as np
    from lance.fragment import FragmentMetadata
    from numpy.typing import NDArray

UNINDEXED_RECORDS = 1_000_000
"""Rows that may be looked through for each batch of records before an index over them is made or renewed."""

REJECTS_FILE = "rejects.jsonl"
"""The source, the position and the reason of every record that was left out, in order."""
_REJECT_SCHEMA = pa.schema({"source": pa.int32(), "position": pa.string(), "reason": pa.string()})

Encoded = Union["NDArray[np.float32]", "list[FragmentMetadata]"]
"""The vectors (n, d) of passages, or fragments of the table of passages in which they are already."""


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
        self.passages, self.records, self._rejects = (
            Table.create(manifest.place.table(name), schema)
            if manifest.versions is None
            else Table.restore(manifest.place.table(name), getattr(manifest.versions, name))
            for name, schema in schemas.items()
        )
        self._unindexed = len(self.records) - indexes.indexed(self.records).get("source_id", 0)

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
                indexes.index_columns(self.records, ("source_id",))
                indexes.index_columns(self.passages, ("id", "source_id"))
                self._unindexed = 0
        if changes.rejects:
            columns = zip(*changes.rejects, strict=True)
            self._rejects.append(pa.table(list(columns), schema=_REJECT_SCHEMA))
        self.manifest.sources, self.manifest.next_number = changes.sources, changes.next_number
        self._save()
        changes.written = True

    def _save(self) -> None:
        self.manifest.versions = TableVersions(
            passages=self.passages.version, records=self.records.version, rejects=self._rejects.version
        )
        self.manifest.write_draft()

    def is_published(self) -> bool:
        """Return whether readers see this very state, and all that they search is sound."""
        published = Manifest.published(self.manifest.place)
        if published is None or published.serial != self.manifest.serial:
            return False
        try:
            return not search_problems(self.manifest, self.passages)
        except KnowledgeBaseError:
            return False

    def publish(self, ledger: SourceLedger) -> None:
        """Bring all indexes up to date, make this the state that readers see, and remove what none needs any more."""
        manifest = self.manifest
        metric = manifest.encoder.metric if manifest.store is None else None
        manifest.trained = indexes.bring_up_to_date(self.passages, metric, manifest.trained)
        if self._unindexed > UNINDEXED_RECORDS // 10:
            indexes.index_columns(self.records, ("source_id",))
        for number, source in enumerate(ledger.entries):
            if source.note and not self.records.count(f"source = {number} AND NOT deleted"):
                ledger.change(number, note="")
        manifest.sources = ledger.entries
        manifest.records = self.records.count("NOT deleted")
        manifest.passages, manifest.retracted = len(self.passages), self.passages.count("retracted")
        manifest.texts = self.passages.count("length > 0")
        lengths = self.passages.pages(["length"])
        manifest.terms = sum(int(page["length"].to_numpy(zero_copy_only=False).sum()) for page in lengths)
        with ExitStack() as stale:
            if manifest.store is not None:
                from briefcontext.knowledge.store.chroma import updating

                stale.enter_context(updating(manifest, self.passages))
            self._save()
            self._write_rejects()
            manifest.publish()
        for table in (self.passages, self.records, self._rejects):
            table.clean()

    def _write_rejects(self) -> None:
        rows = [row for page in self._rejects.pages(_REJECT_SCHEMA.names) for row in page.to_pylist()]
        if rows:
            named = ({**row, "source": self.manifest.sources[row["source"]].name} for row in rows)
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in named)
            self.manifest.place.write(REJECTS_FILE, lines.encode())
