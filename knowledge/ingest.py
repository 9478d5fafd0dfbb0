"""Applying records to the passages of a knowledge base: what is new, what replaces, what goes, what is rejected."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.passages import PassageStore
from briefcontext.knowledge.source_ledger import SourceLedger
from briefcontext.knowledge.sources.records import Deletion, Reject
from briefcontext.knowledge.sources.source import SourceEntry, VectorDocument

MAX_ID_LENGTH = 512

Outcome = Literal["indexed", "updated", "unchanged", "deleted", "rejected"]
Cut = Callable[[Document], list[Document] | None]


@dataclass(slots=True)
class Record:
    """What a source says of one source id: a document, or several that follow each other."""

    source_id: str
    documents: list[VectorDocument | Document] = field(default_factory=list)


Item = Record | Deletion | Reject


def gather_records(entries: Iterable[SourceEntry]) -> Generator[tuple[Item, int]]:
    """Records in order, each with how many entries have been taken up once it is dealt with.

    Documents that follow each other with one source id and different ids are one record; an id that comes
    again begins another version of it.
    """
    taken = 0
    record: Record | None = None
    ids: set[str | None] = set()
    for entry in entries:
        if isinstance(entry, Deletion | Reject):
            if record is not None:
                yield record, taken
                record = None
            taken += 1
            yield entry, taken
            continue
        document = _plain(entry)
        source_id = str(document.metadata.get("source_id") or document.id or "")
        if record is None or source_id != record.source_id or document.id in ids:
            if record is not None:
                yield record, taken
            record, ids = Record(source_id), set()
        record.documents.append(entry)
        ids.add(document.id)
        taken += 1
    if record is not None:
        yield record, taken


def text_length(item: Item) -> int:
    """How many characters of text a record brings."""
    if not isinstance(item, Record):
        return 0
    return sum(len(_plain(entry).page_content) for entry in item.documents)


class Ingest:
    """Applies the records of one source after the other to a passage store, inside the caller's transaction."""

    def __init__(self, passages: PassageStore, ledger: SourceLedger, *, cut: Cut | None, dimension: int) -> None:
        """`cut` divides a document into its chunks, or returns None to leave it whole; None leaves all whole."""
        self._passages = passages
        self._ledger = ledger
        self._cut = cut
        self._dimension = dimension

    def apply(self, item: Item, source: int, taken: int) -> Outcome:
        """Apply one record of the source numbered `source`, which ends on its entry `taken` (from 1)."""
        if isinstance(item, Reject):
            return self._reject(source, item.position, item.reason)
        if isinstance(item, Deletion):
            return self._delete(item, source)
        position = f"entry {taken}" + (f" ({item.source_id})" if item.source_id else "")
        reason = self._unusable(item)
        if reason is not None:
            return self._reject(source, position, reason)
        return self._upsert(item, source, position)

    def _reject(self, source: int, position: str, reason: str) -> Outcome:
        self._ledger.reject(source, position, reason)
        return "rejected"

    def _delete(self, deletion: Deletion, source: int) -> Outcome:
        source_id = deletion.source_id
        owner, held = self._one("SELECT source, revision FROM records WHERE source_id = ?", source_id)
        deleter, deleted = self._one("SELECT source, revision FROM deletions WHERE source_id = ?", source_id)
        if held not in (None, _NO_REVISION) and self._ledger.is_read_again(source):
            # The record came back by a revision after this very deletion, which is given once more.
            return "unchanged"
        # What remains of it: an older copy, in a source that is read later, is not to bring it back.
        revision = _latest(held or deleted or _NO_REVISION, deletion.revised)
        self._passages.rows("INSERT OR REPLACE INTO deletions VALUES (?, ?, ?)", (source_id, source, revision))
        if deleter is not None:
            self._ledger.take_over(deleter, source, replaced=False)
        if held is None:
            return "unchanged"
        if _compare(held, revision) is None:
            self._ledger.take_over(owner, source, replaced=True)
        self._passages.remove(source_id)
        self._passages.rows("DELETE FROM records WHERE source_id = ?", (source_id,))
        return "deleted"

    def _one(self, statement: str, source_id: str) -> tuple[Any, Any]:
        rows = self._passages.rows(statement, (source_id,))
        return rows[0] if rows else (None, None)

    def _withdrawn(self, record: Record, revision: str, source: int) -> str | None:
        """Why a record that was deleted before stays so; None when it may come in."""
        deleted = self._passages.rows(
            "SELECT revision, name, number FROM deletions JOIN sources ON number = source WHERE source_id = ?",
            (record.source_id,),
        )
        if not deleted:
            return None
        known, name, deleter = deleted[0]
        order = _compare(revision, known)
        if order in (1, None):
            self._passages.rows("DELETE FROM deletions WHERE source_id = ?", (record.source_id,))
            if order is None:
                self._ledger.take_over(deleter, source, replaced=True)
            return None
        return f"{record.source_id!r} was deleted by {name}, and this copy of it is not newer."

    def _unusable(self, record: Record) -> str | None:
        """Why a record cannot be indexed; None when it can."""
        if (problem := _id_problem("source id", record.source_id)) is not None:
            return problem
        for entry in record.documents:
            document = _plain(entry)
            if document.id is not None and (problem := _id_problem("id", document.id)) is not None:
                return problem
            if not document.page_content.strip():
                return f"Document {document.id or record.source_id!r} has no text."
            try:
                json.dumps([document.page_content, document.metadata], allow_nan=False, ensure_ascii=False).encode()
            except (TypeError, ValueError) as error:
                return f"Document {document.id or record.source_id!r} cannot be stored: {error}."
            if isinstance(entry, VectorDocument) and (problem := self._vector_problem(entry.vector)) is not None:
                return f"Document {document.id or record.source_id!r} {problem}."
        return None

    def _vector_problem(self, vector: NDArray[np.float32]) -> str | None:
        if vector.shape != (self._dimension,):
            return f"has a vector of shape {vector.shape} where ({self._dimension},) is needed"
        return None if np.isfinite(vector).all() else "has a vector with values that are not finite"

    def _upsert(self, record: Record, source: int, position: str) -> Outcome:
        documents = [_plain(entry) for entry in record.documents]
        digest, revision = _digest(documents), _revision(documents[0])
        held = self._passages.rows(
            "SELECT source, digest, revision FROM records WHERE source_id = ?", (record.source_id,)
        )
        if held:
            held_source, held_digest, held_revision = held[0]
            if digest == held_digest:
                return self._confirm(record.source_id, source, held_source)
            order = _compare(revision, held_revision)
            if order == -1:
                return self._confirm(record.source_id, source, held_source)
            if order != 1 and held_source == source:
                reason = f"Source id {record.source_id!r} stands in this source before, with other content."
                return self._reject(source, position, reason)
            if revision == _NO_REVISION != held_revision and self._ledger.is_read_again(source):
                # A record with a revision came after it, and stays.
                return "unchanged"
        elif (withdrawn := self._withdrawn(record, revision, source)) is not None:
            return self._reject(source, position, withdrawn)
        # A savepoint, so that a passage id that is taken leaves nothing of the record behind.
        self._passages.rows("SAVEPOINT record")
        try:
            self._passages.remove(record.source_id)
            self._passages.rows(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)",
                (record.source_id, source, digest, revision),
            )
            for document, vector in self._passages_of(record):
                self._passages.add(record.source_id, document, vector)
        except sqlite3.IntegrityError:
            self._passages.rows("ROLLBACK TO record")
            self._passages.rows("RELEASE record")
            ids = ", ".join(repr(document.id) for document in documents[:3])
            return self._reject(source, position, f"The passage ids of {ids} are those of another record.")
        self._passages.rows("RELEASE record")
        if held and order != 1:
            came_back = revision == _NO_REVISION or held_revision != _NO_REVISION
            self._ledger.take_over(held_source, source, replaced=came_back)
        return "updated" if held else "indexed"

    def _confirm(self, source_id: str, source: int, held_source: int) -> Outcome:
        # The source that has a record last owns it: other content for it in the same source is then a duplicate.
        if source != held_source:
            self._passages.rows("UPDATE records SET source = ? WHERE source_id = ?", (source, source_id))
            self._ledger.take_over(held_source, source, replaced=False)
        return "unchanged"

    def _passages_of(self, record: Record) -> Iterator[tuple[Document, NDArray[np.float32] | None]]:
        chunks = 0
        for entry in record.documents:
            document = _plain(entry)
            if document.id is None:
                document = document.model_copy(update={"id": record.source_id})
            if isinstance(entry, VectorDocument):
                # Its vector stands for the whole document: a document with a vector is never cut.
                yield document, np.ascontiguousarray(entry.vector, np.float32)
            elif (cut := self._cut(document) if self._cut else None) is None:
                yield document, None
            else:
                # A text without a token gives no chunk, and stays whole. Chunks are counted through the record.
                for chunk in cut or [document.model_copy(deep=True)]:
                    chunk.id, chunk.metadata["chunk_index"] = f"{record.source_id}#{chunks}", chunks
                    chunks += 1
                    yield chunk, None


def _plain(entry: VectorDocument | Document) -> Document:
    return entry.document if isinstance(entry, VectorDocument) else entry


def _id_problem(what: str, value: str) -> str | None:
    if not value:
        return f"There is no {what}."
    if len(value) > MAX_ID_LENGTH:
        return f"The {what} {value[:40]!r}… has {len(value):,} characters, and {MAX_ID_LENGTH} are allowed."
    if value != value.strip() or not value.isprintable():
        return f"The {what} {value!r} has blanks around it, or characters that cannot be printed."
    return None


def _digest(documents: list[Document]) -> bytes:
    content = [(document.id, document.page_content, sorted(document.metadata.items())) for document in documents]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).digest()


def _revision(document: Document) -> str:
    version, revised = document.metadata.get("version"), document.metadata.get("revised")
    return json.dumps([version if isinstance(version, int) else None, str(revised) if revised else None])


_NO_REVISION = json.dumps([None, None])


def _latest(revision: str, revised: str) -> str:
    """A revision with the later of its own date and another."""
    version, date = json.loads(revision)
    return json.dumps([version, max(date or "", revised) or None])


def _compare(new: str, held: str) -> int | None:
    """-1, 0 or 1 as a revision is older than, equal to or newer than the one held; None: there is no telling.

    Versions count first, then the dates of revision. What only one of the two has is no ground to tell.
    """
    parts = [
        (ours, theirs)
        for ours, theirs in zip(json.loads(new), json.loads(held), strict=True)
        if ours is not None and theirs is not None
    ]
    for ours, theirs in parts:
        if ours != theirs:
            return 1 if ours > theirs else -1
    return 0 if parts else None
