"""Ingestion of a source's records: which are new, replace others, are deleted, or are rejected."""

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.files import encodable, sha256
from briefcontext.knowledge.build.draft import Changes, Draft, HeldRecords, RecordState
from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, VectorDocument
from briefcontext.knowledge.store.manifest import Counts
from briefcontext.knowledge.store.passages import NewPassage

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

MAX_ID_LENGTH = 512
WHOLE_TEXTS = frozenset({"article", "markdown", "pdf", "text"})
"""Kinds of documents of which an encoder would read no more than the beginning."""

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
        known = (document.metadata for document, _ in self.parts.values())
        return sum(metadata.get("characters_without_unicode", 0) for metadata in known)

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
    document, vector = (
        (entry.document, entry.vector) if isinstance(entry, VectorDocument) else (entry, None)
    )
    if document.id is None and not document.metadata.get("source_id"):
        digest = sha256(document.page_content)[:12]
        named = f"{document.metadata.get('source') or 'document'}#{digest}"
        document = document.model_copy(update={"id": named})
    source_id = str(document.metadata.get("source_id") or document.id or "")
    return Record(source_id, {document.id: (document, vector)})


class Ingest:
    """Decides, batch by batch, what the records of sources change."""

    def __init__(self, draft: Draft, encoder: "Encoder") -> None:
        self._held = HeldRecords(draft.records, draft.passages)
        self._encoder = encoder
        self._chunk_tokens = draft.manifest.chunk_tokens
        self._changes = Changes()
        self._source = 0

    def batch(self, items: Sequence[tuple[int, Item | None]]) -> Changes:
        """Return the changes of the next records, each with the number of its source. None ends a source.

        The next batch takes the changes into account, written or not.
        """
        changes = self._changes = Changes(
            finished=[source for source, item in items if item is None]
        )
        checked = [
            (source, self._with_vectors_checked(item)) for source, item in items if item is not None
        ]
        self._held.begin(
            changes, [item.source_id for _, item in checked if not isinstance(item, Reject)]
        )
        records = [item for _, item in checked if isinstance(item, Record)]
        for record in records:
            state = self._held.state(record.source_id)
            if state is None or state.digest != record.digest:
                record.passages = list(self._chunks(record))
        self._held.look_up_ids([id for record in records for id in record.ids])
        outcomes: dict[int, Counter[str]] = {}
        for self._source, item in checked:
            outcomes.setdefault(self._source, Counter()).update(
                {
                    "read": 1,
                    self._apply(item): 1,
                    "lost_characters": getattr(item, "lost_characters", 0),
                }
            )
        changes.counts = {source: Counts(**counts) for source, counts in outcomes.items()}
        return changes

    def _apply(self, item: Item) -> Outcome:
        if isinstance(item, Reject):
            return self._reject(item.position, item.reason)
        return self._delete(item) if isinstance(item, Deletion) else self._upsert(item)

    def _reject(self, position: str, reason: str) -> Outcome:
        self._changes.rejects.append((self._source, position, reason))
        return "rejected"

    def _delete(self, deletion: Deletion) -> Outcome:
        """Delete a record, and keep a tombstone: an older copy must not bring the record back."""
        source_id, state = deletion.source_id, self._held.state(deletion.source_id)
        revision = json.dumps([None, deletion.revised or None])
        # A newer record comes after the deletion, in a source that is read once more.
        if state is not None and _compare(revision, state.revision) != -1:
            revision = _latest(state.revision, deletion.revised)
        self._changes.records[source_id] = RecordState(self._source, b"", revision, deleted=True)
        if state is None or state.deleted:
            return "unchanged"
        self._changes.remove(source_id)
        return "deleted"

    def _upsert(self, record: Record) -> Outcome:
        """Index a record, unless the one that is held is the same or newer."""
        state = self._held.state(record.source_id)
        order = None if state is None else _compare(record.revision, state.revision)
        if state is not None and state.deleted:
            if order in (-1, 0):
                return self._reject(
                    record.position,
                    f"{record.source_id!r} was deleted, and this copy is not newer.",
                )
        elif state is not None:
            if record.digest == state.digest or order == -1:
                if self._source != state.source:
                    self._changes.records[record.source_id] = state._replace(source=self._source)
                return "unchanged"
            if order != 1 and state.source == self._source:
                reason = f"{record.source_id!r} was in this source before, with other content."
                return self._reject(record.position, reason)
        return self._replace(record, held=state is not None and not state.deleted)

    def _replace(self, record: Record, *, held: bool) -> Outcome:
        """Replace what is held of a record, unless its passages have ids of others."""
        if not record.passages:
            record.passages = list(self._chunks(record))
            self._held.look_up_ids(record.ids)
        ids = record.ids
        if len(set(ids)) < len(ids) or any(
            self._held.owner(id) not in (None, record.source_id) for id in ids
        ):
            named = ", ".join(map(repr, list(record.parts)[:3]))
            return self._reject(
                record.position, f"The passage ids of {named} are those of another record."
            )
        changes = self._changes
        if held:
            changes.remove(record.source_id)
        changes.records[record.source_id] = RecordState(
            self._source, record.digest, record.revision
        )
        changes.passages[record.source_id] = [
            NewPassage(place, record.source_id, document, vector)
            for place, (document, vector) in enumerate(record.passages)
        ]
        changes.owners |= dict.fromkeys(ids, record.source_id)
        return "updated" if held else "indexed"

    def _with_vectors_checked(self, item: Item) -> Item:
        if isinstance(item, Record):
            for document, vector in item.parts.values():
                name = f"Document {document.id or item.source_id!r}"
                if vector is not None and vector.shape != (dimension := self._encoder.dimension,):
                    reason = f"{name} has a vector of shape {vector.shape} where ({dimension},) is needed."
                    return Reject(item.position, reason)
                if vector is not None and not is_storable(vector):
                    return Reject(
                        item.position, f"{name} has a vector with values that are not finite."
                    )
        return item

    def _chunks(self, record: Record) -> Iterator[Part]:
        chunks = 0
        for document, vector in record.parts.values():
            if document.id is None:
                document = document.model_copy(update={"id": record.source_id})
            whole_text = document.metadata.get("kind") in WHOLE_TEXTS
            tokens = self._chunk_tokens or (CHUNK_TOKENS if whole_text else None)
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
    """Return whether half precision can hold the values of vectors: they are finite, and not too large."""
    return bool((np.abs(vectors) <= float(np.finfo(np.float16).max)).all())


def _checked(item: Item, taken: int) -> Item:
    """Note a record's position, digest and revision, or reject it. `taken` counts the entries up to its end."""
    if isinstance(item, Record):
        item.position = f"entry {taken}" + (
            f" ({encodable(item.source_id)})" if item.source_id else ""
        )
        problem = _problem(item)
        return item if problem is None else Reject(item.position, problem)
    if (
        isinstance(item, Deletion)
        and (problem := _id_problem("source id", item.source_id)) is not None
    ):
        return Reject(f"entry {taken}", problem)
    return item


def _problem(record: Record) -> str | None:
    ids = [("id", id) for id in record.parts if id is not None]
    for what, id in [("source id", record.source_id), *ids]:
        if (problem := _id_problem(what, id)) is not None:
            return problem
    first, _ = next(iter(record.parts.values()))
    for document, _ in record.parts.values():
        if not document.page_content.strip():
            return f"Document {document.id or record.source_id!r} has no text."
    try:
        content = [
            (id, part.page_content, sorted(part.metadata.items()))
            for id, (part, _) in record.parts.items()
        ]
        stored = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        return f"Document {first.id or record.source_id!r} cannot be stored: {error}."
    record.digest, record.revision = hashlib.sha256(stored).digest()[:16], _revision(first)
    return None


def _id_problem(what: str, value: str) -> str | None:
    if not value:
        return f"There is no {what}."
    if len(value) > MAX_ID_LENGTH:
        return f"The {what} {value[:40]!r}… has {len(value):,} characters, and {MAX_ID_LENGTH} are allowed."
    if value != value.strip() or not value.isprintable():
        return f"The {what} {value!r} has blanks around it, or characters that cannot be printed."
    return None


def _revision(document: Document) -> str:
    version, revised = document.metadata.get("version"), document.metadata.get("revised")
    return json.dumps(
        [version if isinstance(version, int) else None, str(revised) if revised else None]
    )


def _latest(revision: str, revised: str) -> str:
    version, date = json.loads(revision)
    return json.dumps([version, max(date or "", revised) or None])


def _compare(new: str, held: str) -> int | None:
    """Return -1, 0 or 1 for an older, equal or newer revision, or None if they cannot be compared.

    Versions count first, then the dates of revision. Both must have the one or the other.
    """
    parts = [
        pair for pair in zip(json.loads(new), json.loads(held), strict=True) if None not in pair
    ]
    for ours, theirs in parts:
        if ours != theirs:
            return 1 if ours > theirs else -1
    return 0 if parts else None
