"""The next state of a knowledge base, while a build writes it."""

import json
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.records import RECORD_SCHEMA, Changes, record_rows
from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.store import indexes
from briefcontext.knowledge.store.manifest import Manifest, TableVersions
from briefcontext.knowledge.store.passages import PASSAGES, RECORDS, passage_rows, passage_schema
from briefcontext.knowledge.store.place import Place
from briefcontext.knowledge.store.table import Table
from briefcontext.knowledge.store.vector_search import EMBEDDED, add_missing, open_vector_search, vector_problems

if TYPE_CHECKING:
    import numpy as np
    from lance.fragment import FragmentMetadata
    from numpy.typing import NDArray

UNINDEXED_RECORDS = 1_000_000
"""Rows that may be looked through for each batch of records before an index over them is made or renewed."""

REJECTS = "rejects"
REJECTS_FILE = "rejects.jsonl"
_REJECT_SCHEMA = pa.schema({"source": pa.int32(), "position": pa.string(), "reason": pa.string()})


class Draft:
    """The state that a build has reached, beyond the published one.

    What is written counts once the manifest or the draft's file names the tables' versions: whatever a build that is
    killed has written after that is taken back when the next one begins. Readers stay with the versions that the
    manifest names.
    """

    def __init__(self, place: Place, manifest: Manifest) -> None:
        """Go on from a state, or begin a new base."""
        self.manifest = manifest
        self._place = place
        if manifest.versions is None:
            schemas = {
                PASSAGES: passage_schema(manifest.encoder.dimension),
                RECORDS: RECORD_SCHEMA,
                REJECTS: _REJECT_SCHEMA,
            }
            tables = {name: Table.create(place.table(name), schema) for name, schema in schemas.items()}
        else:
            versions = manifest.versions.model_dump()
            tables = {name: Table.restore(place.table(name), version) for name, version in versions.items()}
        self.passages, self.records, self._rejects = tables[PASSAGES], tables[RECORDS], tables[REJECTS]
        self._unindexed = indexes.unindexed(self.records, "source_id")

    def begin(self, ledger: SourceLedger) -> None:
        """Keep which sources were given, and that there is a build which is not complete."""
        self.manifest.sources = ledger.entries()
        self._save()

    def write(self, changes: Changes, encoded: "NDArray[np.float32] | list[FragmentMetadata]") -> None:
        """Write a batch, and that it was written.

        `encoded`: the vectors (n, d) of its new passages, or fragments of the table in which they are already.
        """
        if len(self.passages):
            self.passages.delete("source_id", changes.removed)
        if isinstance(encoded, list):
            self.passages.append_fragments(encoded)
        elif len(encoded):
            self.passages.append(passage_rows(changes.new_passages(), encoded))
        if changes.records:
            if len(self.records):
                self.records.delete("source_id", changes.records)
            self.records.append(record_rows(changes.records))
            self._unindexed += len(changes.records)
            if self._unindexed > UNINDEXED_RECORDS:
                self._index_ids()
        if changes.rejects:
            columns = zip(*changes.rejects, strict=True)
            self._rejects.append(pa.table(list(columns), schema=_REJECT_SCHEMA))
        self.manifest.sources, self.manifest.next_number = changes.sources, changes.next_number
        self._save()
        changes.written = True

    def _index_ids(self) -> None:
        """Make lookups by id quick, also in a first build that takes days."""
        for table, columns in ((self.records, ("source_id",)), (self.passages, ("id", "source_id"))):
            indexes.index_columns(table, columns)
        self._unindexed = 0

    def _save(self) -> None:
        self.manifest.versions = TableVersions(
            passages=self.passages.version, records=self.records.version, rejects=self._rejects.version
        )
        self.manifest.write_draft(self._place)

    def is_published(self) -> bool:
        """Return whether readers see this very state, and all that they search is sound."""
        published = Manifest.published(self._place)
        if published is None or published.serial != self.manifest.serial:
            return False
        try:
            indexes.check(self.passages, self._metric)
            return not vector_problems(self._place, self.manifest, self.passages)
        except KnowledgeBaseError:
            return False

    @property
    def _metric(self) -> Literal["cosine", "ip"] | None:
        """That of the vectors in the table; None where they are searched elsewhere."""
        return self.manifest.encoder.metric if self.manifest.store is None else None

    def publish(self, ledger: SourceLedger) -> None:
        """Bring all indexes up to date, and make this the state that readers see."""
        manifest = self.manifest
        manifest.trained = indexes.bring_up_to_date(self.passages, self._metric, manifest.trained)
        if self._unindexed > UNINDEXED_RECORDS // 10:
            indexes.index_columns(self.records, ("source_id",))
        stale = self._bring_vector_search_up_to_date()
        ledger.without_notes(number for number in ledger.noted() if not self._has_records_of(number))
        manifest.sources = ledger.entries()
        manifest.records = self.records.count("NOT deleted")
        manifest.passages, manifest.retracted = len(self.passages), self.passages.count("retracted")
        manifest.texts, manifest.terms = self._count_terms()
        self._save()
        self._write_rejects()
        manifest.publish(self._place)
        self._clean(stale)

    def _has_records_of(self, source: int) -> bool:
        return self.records.count(f"source = {source} AND NOT deleted") > 0

    def _count_terms(self) -> tuple[int, int]:
        lengths = [page["length"].to_numpy(zero_copy_only=False) for page in self.passages.pages(["length"])]
        return sum(int((part > 0).sum()) for part in lengths), sum(int(part.sum()) for part in lengths)

    def _bring_vector_search_up_to_date(self) -> set[int]:
        """Give what searches vectors elsewhere all that it needs; the numbers that it needs no more."""
        manifest = self.manifest
        if manifest.store is None:
            return set()
        if manifest.store == EMBEDDED:
            # A process that is killed while Chroma writes can leave an index that gives wrong answers
            # (chroma-core/chroma#7678 and #7238): the one in use is not written to, a new one takes its place.
            manifest.generation += 1
            shutil.rmtree(self._place.folder / EMBEDDED / str(manifest.generation), ignore_errors=True)
        search = open_vector_search(self._place, manifest, create=True)
        assert search is not None
        try:
            return add_missing(search, self.passages)
        finally:
            search.close()

    def _clean(self, stale: set[int]) -> None:
        """Remove what no state needs any more."""
        for table in (self.passages, self.records, self._rejects):
            table.clean()
        if self.manifest.store == EMBEDDED:
            for folder in (self._place.folder / EMBEDDED).iterdir():
                if folder.name != str(self.manifest.generation):
                    shutil.rmtree(folder, ignore_errors=True)
        elif stale and (search := open_vector_search(self._place, self.manifest)) is not None:
            try:
                search.remove(list(stale))
            finally:
                search.close()

    def rejects(self) -> Iterator[dict[str, str]]:
        """Source name, position and reason of every record that was left out, in order."""
        for page in self._rejects.pages(_REJECT_SCHEMA.names):
            for row in page.to_pylist():
                yield {**row, "source": self.manifest.sources[row["source"]].name}

    def _write_rejects(self) -> None:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rejects())
        if lines:
            self._place.write(REJECTS_FILE, lines.encode())
