"""The records of sources: which are new, replace others, are deleted, or are rejected."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.files import encodable, sha256
from briefcontext.knowledge.build.draft import Changes, Draft, RecordState
from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, VectorDocument
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.passages import NewPassage

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

MAX_ID_LENGTH = 512
WHOLE_TEXTS = frozenset({"article", "markdown", "pdf", "text"})
"""Kinds of documents that are too long for an encoder."""

Outcome = Literal["indexed", "updated", "unchanged", "deleted", "rejected"]
Part = tuple[Document, NDArray[np.float32] | None]
"""A document or a passage, and the vector (d,) that comes with it, if any."""


@dataclass(slots=True)
class Record:
    """One source id's entries: a document, or several that follow each other."""

    source_id: str
    parts: dict[str | None, Part]
    """By the documents' ids."""
    position: str = ""
    digest: bytes = b""
    revision: str = ""
    passages: list[Part] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """The ids of its passages."""
        return [str(document.id) for document, _ in self.passages]

    @property
    def lost_characters(self) -> int:
        """Characters of its documents that have no Unicode."""
        documents = (document for document, _ in self.parts.values())
        return sum(each.metadata.get("characters_without_unicode", 0) for each in documents)

    def is_continued_by(self, other: "Record") -> bool:
        return self.source_id == other.source_id and self.parts.keys().isdisjoint(other.parts)


Item = Record | Deletion | Reject


def gather_records(entries: Iterable[Entry]) -> Generator[Item]:
    """Yield the records of a source, in order.

    Documents that follow each other with one source id and different ids are one record. An id that
    is repeated begins another version of it.
    """
    last: Item | None = None
    for taken, entry in enumerate(entries):
        item = entry if isinstance(entry, Deletion | Reject) else _record(entry)
        if isinstance(item, Record) and isinstance(last, Record) and last.is_continued_by(item):
            last.parts |= item.parts
        else:
            if last is not None:
                yield _checked(last, taken)
            last = item
    if last is not None:
        yield _checked(last, taken + 1)


def _record(entry: Document | VectorDocument) -> Record:
    vector = entry.vector if isinstance(entry, VectorDocument) else None
    document = entry.document if isinstance(entry, VectorDocument) else entry
    if document.id is None and not document.metadata.get("source_id"):
        digest = sha256(document.page_content)[:12]
        named = f"{document.metadata.get('source') or 'document'}#{digest}"
        document = document.model_copy(update={"id": named})
    source_id = str(document.metadata.get("source_id") or document.id or "")
    return Record(source_id, {document.id: (document, vector)})


class Ingest:
    """Decides, batch by batch, what the records of sources change."""

    def __init__(self, draft: Draft, encoder: "Encoder") -> None:
        self._draft, self._encoder = draft, encoder
        self._changes, self._source = Changes(), 0
        self._states: dict[str, RecordState] = {}
        self._owners: dict[str, str] = {}

    def batch(self, items: Sequence[tuple[int, Item | None]]) -> Changes:
        """Return the changes of records, each with the number of its source. None ends one."""
        finished = [source for source, item in items if item is None]
        changes = self._changes = Changes(finished=finished)
        checked = [(source, self._checked(item)) for source, item in items if item is not None]
        ids = {item.source_id for _, item in checked if not isinstance(item, Reject)}
        self._states, self._owners = self._draft.states(ids), {}
        records = [item for _, item in checked if isinstance(item, Record)]
        self._cut([record for record in records if not self._is_unchanged(record)])
        outcomes = defaultdict[int, Counter[str]](Counter)
        for self._source, item in checked:
            outcomes[self._source].update(["read", self._apply(item)])
            outcomes[self._source]["lost_characters"] += getattr(item, "lost_characters", 0)
        changes.counts = {source: Counts(**counts) for source, counts in outcomes.items()}
        return changes

    def _is_unchanged(self, record: Record) -> bool:
        state = self._states.get(record.source_id)
        return state is not None and state.digest == record.digest

    def _cut(self, records: Sequence[Record]) -> None:
        """Cut records into passages, and look up the records that have passages of their ids."""
        for record in records:
            record.passages = list(self._chunks(record))
        self._owners |= self._draft.owners([id for record in records for id in record.ids])

    def _owner(self, id: str) -> str | None:
        owner = self._owners.get(id)
        return self._changes.owners.get(id) or (None if owner in self._changes.removed else owner)

    def _apply(self, item: Item) -> Outcome:
        if isinstance(item, Reject):
            return self._reject(item.position, item.reason)
        state = self._changes.records.get(item.source_id) or self._states.get(item.source_id)
        if isinstance(item, Deletion):
            return self._delete(item, state)
        return self._upsert(item, state)

    def _reject(self, position: str, reason: str) -> Outcome:
        self._changes.rejects.append((self._source, position, reason))
        return "rejected"

    def _delete(self, deletion: Deletion, state: RecordState | None) -> Outcome:
        """Delete a record, and keep a tombstone: an older copy must not bring the record back."""
        revision = json.dumps([None, deletion.revised or None])
        # A newer record comes after the deletion, in a source that is read once more.
        if state is not None and _compare(revision, state.revision) != -1:
            version, date = json.loads(state.revision)
            revision = json.dumps([version, max(date or "", deletion.revised) or None])
        tombstone = RecordState(self._source, b"", revision, deleted=True)
        self._changes.records[deletion.source_id] = tombstone
        if state is None or state.deleted:
            return "unchanged"
        self._changes.remove(deletion.source_id)
        return "deleted"

    def _upsert(self, record: Record, state: RecordState | None) -> Outcome:
        """Index a record, unless the one in the base is the same or newer."""
        if state is None:
            return self._replace(record, is_update=False)
        order = _compare(record.revision, state.revision)
        if state.deleted:
            if order in (-1, 0):
                reason = f"{record.source_id!r} was deleted, and this copy is not newer."
                return self._reject(record.position, reason)
            return self._replace(record, is_update=False)
        if record.digest == state.digest or order == -1:
            if self._source != state.source:
                self._changes.records[record.source_id] = state._replace(source=self._source)
            return "unchanged"
        if order != 1 and state.source == self._source:
            reason = f"{record.source_id!r} was in this source before, with other content."
            return self._reject(record.position, reason)
        return self._replace(record, is_update=True)

    def _replace(self, record: Record, *, is_update: bool) -> Outcome:
        """Write a record, unless its passages have ids of other records."""
        if not record.passages:
            self._cut([record])
        ids, owners = record.ids, (None, record.source_id)
        if len(set(ids)) < len(ids) or any(self._owner(id) not in owners for id in ids):
            named = ", ".join(map(repr, list(record.parts)[:3]))
            reason = f"The passage ids of {named} are those of another record."
            return self._reject(record.position, reason)
        changes, source_id = self._changes, record.source_id
        if is_update:
            changes.remove(source_id)
        changes.records[source_id] = RecordState(self._source, record.digest, record.revision)
        changes.passages[source_id] = [
            NewPassage(place, source_id, document, vector)
            for place, (document, vector) in enumerate(record.passages)
        ]
        changes.owners |= dict.fromkeys(ids, source_id)
        return "updated" if is_update else "indexed"

    def _checked(self, item: Item) -> Item:
        """Reject a record whose vectors cannot be stored."""
        if not isinstance(item, Record):
            return item
        dimension = self._encoder.dimension
        for document, vector in item.parts.values():
            if vector is not None and (vector.shape != (dimension,) or not is_storable(vector)):
                reason = (
                    f"Document {document.id or item.source_id!r} has a vector of shape "
                    f"{vector.shape}; {dimension} finite numbers are needed."
                )
                return Reject(item.position, reason)
        return item

    def _chunks(self, record: Record) -> Iterator[Part]:
        chunks = 0
        for document, vector in record.parts.values():
            if document.id is None:
                document = document.model_copy(update={"id": record.source_id})
            whole_text = document.metadata.get("kind") in WHOLE_TEXTS
            tokens = self._draft.manifest.chunk_tokens or (CHUNK_TOKENS if whole_text else None)
            if vector is not None:
                # A vector belongs to the whole document, which is therefore never cut.
                yield document, np.ascontiguousarray(vector, np.float32)
            elif tokens is None:
                yield document, None
            else:
                # A text without a token gives no chunk, and is kept whole.
                chunked = chunk_document(document, self._encoder, tokens=tokens)
                for chunk in chunked or [document.model_copy(deep=True)]:
                    chunk.id, chunk.metadata["chunk_index"] = f"{record.source_id}#{chunks}", chunks
                    chunks += 1
                    yield chunk, None


def is_storable(vectors: NDArray[np.float32]) -> bool:
    """Return whether the values of vectors are finite in half precision."""
    return bool((np.abs(vectors) <= float(np.finfo(np.float16).max)).all())


def _checked(item: Item, taken: int) -> Item:
    """Set a record's position, digest and revision, or reject it.

    `taken` counts the entries up to its end.
    """
    position, problem = f"entry {taken}", None
    if isinstance(item, Record):
        position += f" ({encodable(item.source_id)})" if item.source_id else ""
        item.position, problem = position, _problem(item)
    elif isinstance(item, Deletion):
        problem = _id_problem("source id", item.source_id)
    return item if problem is None else Reject(position, problem)


def _problem(record: Record) -> str | None:
    ids = [("id", id) for id in record.parts if id is not None]
    for what, id in [("source id", record.source_id), *ids]:
        if (problem := _id_problem(what, id)) is not None:
            return problem
    documents = [document for document, _ in record.parts.values()]
    for document in documents:
        if not document.page_content.strip():
            return f"Document {document.id or record.source_id!r} has no text."
    try:
        content = [
            (id, document.page_content, sorted(document.metadata.items()))
            for id, document in zip(record.parts, documents, strict=True)
        ]
        stored = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        return f"Document {documents[0].id or record.source_id!r} cannot be stored: {error}."
    record.digest = hashlib.sha256(stored).digest()[:16]
    version, revised = (documents[0].metadata.get(name) for name in ("version", "revised"))
    version = version if isinstance(version, int) else None
    record.revision = json.dumps([version, str(revised) if revised else None])
    return None


def _id_problem(what: str, value: str) -> str | None:
    if not value:
        return f"There is no {what}."
    if len(value) > MAX_ID_LENGTH:
        return f"The {what} {value[:40]!r}… has {len(value):,} characters, over {MAX_ID_LENGTH}."
    if value != value.strip() or not value.isprintable():
        return f"The {what} {value!r} has blanks around it, or characters that cannot be printed."
    return None


def _compare(new: str, held: str) -> int | None:
    """Return -1, 0 or 1 for an older, equal or newer revision, or None if they cannot be compared.

    Versions count first, then the dates of revision.
    """
    pairs = zip(json.loads(new), json.loads(held), strict=True)
    known = [pair for pair in pairs if None not in pair]
    for ours, theirs in known:
        if ours != theirs:
            return 1 if ours > theirs else -1
    return 0 if known else None
