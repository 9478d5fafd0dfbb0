"""The next state of a knowledge base while a build writes it."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.manifest import PASSAGES, RECORDS, TERMS, Manifest
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
"""The source, the position and the reason of each record that was left out."""
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
"""The number of passages with a term is the sum of its rows."""

Encoded = Union["NDArray[np.float32]", "list[FragmentMetadata]"]
"""The vectors (n, d) of passages, or fragments of the table of passages that hold them already."""


class RecordState(NamedTuple):
    """The state of a source id in a base."""

    source: int
    """The number of the source that gave the record last, or deleted it."""
    digest: bytes
    """Hash of content and metadata; empty if the record is deleted."""
    revision: str
    deleted: bool = False


@dataclass(slots=True)
class Changes:
    """The changes of a batch of records."""

    passages: dict[str, list[NewPassage]] = field(default_factory=dict)
    """The new passages by source id."""
    records: dict[str, RecordState] = field(default_factory=dict)
    """The new states by source id."""
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

    def remove(self, source_id: str) -> None:
        """Delete all passages of a record."""
        self.removed.add(source_id)
        for passage in self.passages.pop(source_id, []):
            del self.owners[str(passage.document.id)]

    def new_passages(self) -> list[NewPassage]:
        """Return all new passages, record by record."""
        return [passage for passages in self.passages.values() for passage in passages]


class Draft:
    """The state that a build has reached.

    Each batch ends with the draft's file, which names the versions of the tables. The next build
    continues from these. Readers use the versions that the manifest names.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Continue from a state, or begin a new base."""
        self.manifest = manifest
        dimension = manifest.encoder.dimension
        schemas = {PASSAGES: passage_schema(dimension), RECORDS: _RECORDS, TERMS: _TERMS}
        self._tables: dict[str, Table] = {}
        for name, schema in schemas.items():
            uri = str(manifest.place.locate(f"{name}.lance"))
            self._tables[name] = (
                Table.create(uri, schema)
                if manifest.versions is None
                else Table.restore(uri, manifest.versions[name])
            )
        self.passages, self.records, self._terms = self._tables.values()
        self._unindexed = len(self.records) - indexed(self.records).get("source_id", 0)
        rejects = manifest.place.read(REJECTS_FILE) or b""
        self._rejects = [json.loads(line) for line in rejects.splitlines()]

    def begin(self, numbers: Sequence[int]) -> None:
        """Save which sources an incomplete build reads from their start."""
        names = {self.manifest.sources[number].name for number in numbers}
        self._rejects = [row for row in self._rejects if row["source"] not in names]
        for number in numbers:
            self._change(number, counts=Counts())
        self._save()

    def _change(self, number: int, **changes: Any) -> None:
        self.manifest.sources[number] = self.manifest.sources[number].model_copy(update=changes)

    def states(self, source_ids: Iterable[str]) -> dict[str, RecordState]:
        """Return the states of source ids."""
        rows = self.records.find(_RECORDS.names, "source_id", source_ids).to_pylist()
        return {row.pop("source_id"): RecordState(**row) for row in rows}

    def owners(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the source ids of the passages with some ids."""
        rows = self.passages.find(["id", "source_id"], "id", ids)
        return dict(zip(rows["id"].to_pylist(), rows["source_id"].to_pylist(), strict=True))

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
                index_columns(self.records, ("source_id",))
                index_columns(self.passages, ("id", "source_id"))
                self._unindexed = 0
        for number, counts in changes.counts.items():
            self._change(
                number, counts=Counts.total([self.manifest.sources[number].counts, counts])
            )
        self._finish(changes.finished)
        for number, position, reason in changes.rejects:
            source = self.manifest.sources[number].name
            self._rejects.append({"source": source, "position": position, "reason": reason})
        if changes.rejects:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in self._rejects)
            self.manifest.place.write(REJECTS_FILE, "".join(lines).encode())
        self._save()

    def _finish(self, numbers: Sequence[int]) -> None:
        """Note that sources were read to their ends: entries of other content are forgotten."""
        sources = self.manifest.sources
        latest = {sources[number].path or sources[number].name: number for number in numbers}
        for number in numbers:
            self._change(number, finished=True)
        self.forget(
            number
            for number, entry in enumerate(sources)
            if latest.get(entry.path or entry.name, number) != number and entry.fingerprint
        )

    def forget(self, numbers: Iterable[int]) -> None:
        """Have sources read again when they are given again."""
        for number in list(numbers):
            self._change(number, fingerprint="", note="")

    def remove_passages(self, source_ids: Iterable[str]) -> None:
        """Delete the passages of records."""
        ids = list(source_ids)
        if ids and len(self.passages):
            rows = self.passages.find(["terms"], "source_id", ids)["terms"].to_pylist()
            self.passages.delete("source_id", ids)
            self._count_terms((terms.split() for terms in rows), -1)

    def remove_records(self, source_ids: Sequence[str]) -> None:
        """Delete records with their revisions: they may return."""
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
        """Return whether readers see this state, and its indexes are sound."""
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
        manifest, metric = self.manifest, self.manifest.encoder.metric
        manifest.trained = bring_up_to_date(self.passages, metric, manifest.trained)
        if self._unindexed > UNINDEXED_RECORDS // 10:
            index_columns(self.records, ("source_id",))
        terms = self._terms.read(_TERMS.names).group_by("term").aggregate([("passages", "sum")])
        present = pa.compute.field("passages") > 0
        self._terms.overwrite(terms.rename_columns(_TERMS.names).filter(present))
        index_columns(self._terms, ("term",))
        for number, entry in enumerate(manifest.sources):
            if entry.note and not self.records.count(f"source = {number} AND NOT deleted"):
                self._change(number, note="")
        manifest.records = self.records.count("NOT deleted")
        manifest.retracted = self.passages.count("retracted")
        manifest.texts = self.passages.count("length > 0")
        pages = self.passages.pages(["length"])
        manifest.terms = sum(pa.compute.sum(page["length"]).as_py() or 0 for page in pages)
        self._save()
        manifest.publish()
        for table in self._tables.values():
            table.clean()
