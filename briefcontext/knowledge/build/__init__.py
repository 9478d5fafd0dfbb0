"""Building and updating knowledge bases."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.build.draft import REJECTS_FILE, Draft
from briefcontext.knowledge.build.files import keep_ids, path_of, refuse_clashes
from briefcontext.knowledge.build.pipeline import Pipeline, Progress, ray_workers
from briefcontext.knowledge.knowledge_base import DEMO, KnowledgeBase
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import (
    Deletion,
    Entry,
    EntrySource,
    Reject,
    Source,
    VectorDocument,
)
from briefcontext.knowledge.store.counts import Counts, IndexedSource
from briefcontext.knowledge.store.manifest import DRAFT_FILE, RECORDS, Manifest
from briefcontext.knowledge.store.place import LOCK_FILE, Place, open_place

DEFAULT_ENCODER = "e5"

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The counts of one source."""

    name: str
    skipped: bool
    """Whether the same content was read before."""
    counts: Counts
    """Of its records; zeros if it was skipped."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build."""

    path: Path | str
    """The folder of the base, or its URL in an object store."""
    sources: list[SourceReport]
    passages: int
    """Passages that the base now holds."""
    rejects_file: Path | str | None
    """The list of the records that were left out; None if there are none."""

    @property
    def counts(self) -> Counts:
        return Counts.total(source.counts for source in self.sources)


def build_knowledge_base(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Source | Entry],
    path: str | os.PathLike[str],
    *,
    encoder: "Encoder | str | None" = None,
    chunk_tokens: int | None = None,
    on: Literal["ray"] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> BuildReport:
    """Index sources into the knowledge base at `path`.

    An unchanged record is neither encoded nor written. A newer revision (`version`, then `revised`)
    replaces an older one; of records without revisions, the last one given counts. After a
    deletion, only something newer brings the record back. A source that was read to its end is
    skipped, by its fingerprint. Call it again to finish a build that was stopped. Until a build is
    complete, questions are answered from the state before it.

    Args:
        sources: files, folders and globs; or sources; or documents and deletions. A document
            without an id gets one from its `source` and its text.
        path: the folder of the base, which is created, or a URL such as `s3://bucket/name`.
        encoder: an encoder or its name (see `load_encoder`); by default the base's, for a new base
            `e5`.
        chunk_tokens: the tokens of a chunk; by default as in the base. In a new base whole texts
            are cut into chunks of 128 tokens, abstracts and passages not at all.
        on: `ray` encodes and writes on a Ray cluster.
        progress: called after each batch.

    Raises:
        InputError: the chunk size, the encoder or a source cannot be used.
        KnowledgeBaseError: the base is the bundled one or has another encoder or chunk size; the
            folder holds something else; another process builds in it; a source cannot be read,
            has vectors of another encoder, or would replace the document of another file.
    """
    from briefcontext.knowledge.encoders import load_encoder

    place, given = place_to_build(path), _sources(sources)
    existing = Manifest.latest(place)
    default = DEFAULT_ENCODER if existing is None else existing.encoder.name
    loaded = load_encoder(default if encoder is None else encoder)
    check_build(place, given, loaded.name, chunk_tokens=chunk_tokens)
    with place.lock():
        if (manifest := Manifest.latest(place)) is None:
            manifest = Manifest.new(place, loaded, chunk_tokens=chunk_tokens)
            manifest.write_draft()
        manifest.check(loaded, chunk_tokens=chunk_tokens)
        return _build(manifest, loaded, given, on, progress)


def place_to_build(path: str | os.PathLike[str]) -> Place:
    """Return the place of a base. Raises KnowledgeBaseError for the bundled one."""
    if path == DEMO:
        raise KnowledgeBaseError(
            f"{DEMO} is the bundled knowledge base, which cannot be changed: name another folder, "
            f"or ./{DEMO}."
        )
    return open_place(path)


def check_build(
    place: Place, sources: Iterable[Source], encoder: str, *, chunk_tokens: int | None
) -> None:
    """Raise the errors of a build that are known before the encoder is loaded."""
    if chunk_tokens is not None and chunk_tokens < 1:
        raise InputError(f"chunk_tokens is {chunk_tokens}: a chunk has at least 1 token.")
    if (manifest := Manifest.latest(place)) is not None:
        manifest.check(encoder, chunk_tokens=chunk_tokens)
    elif others := place.names() - {LOCK_FILE, f"{DRAFT_FILE}.partial"}:
        raise KnowledgeBaseError(
            f"{place} is not a knowledge base and holds {min(others)!r}: name another folder."
        )
    for source in sources:
        if (needed := getattr(source, "encoder", None)) not in (None, encoder.partition(":")[0]):
            raise KnowledgeBaseError(
                f"{source.name} has vectors of the encoder {needed!r}, and the base's encoder is "
                f"{encoder!r}: index it into another base, with --encoder {needed}."
            )


def _sources(
    given: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Source | Entry],
) -> list[Source]:
    if isinstance(given, str | os.PathLike):
        return open_sources([os.fspath(given)])
    items = iter(given)
    first = next(items, None)
    if first is None:
        return []
    rest = chain([first], items)
    if isinstance(first, str | os.PathLike):
        return open_sources([os.fspath(path) for path in rest])  # type: ignore[arg-type]
    if isinstance(first, Document | VectorDocument | Deletion | Reject):
        size = len(given) if isinstance(given, list | tuple) else None
        return [EntrySource(rest, size=size)]  # type: ignore[arg-type]
    sources = list(rest)
    if none := [source for source in sources if not isinstance(source, Source)]:
        raise InputError(
            f"{none[0]!r:.100} is not a source: pass paths, LangChain documents, or sources of "
            "briefcontext.knowledge.open_sources."
        )
    return sources  # type: ignore[return-value]


def _build(
    manifest: Manifest,
    encoder: "Encoder",
    sources: list[Source],
    on: Literal["ray"] | None,
    progress: Callable[[Progress], None] | None,
) -> BuildReport:
    draft, before = Draft(manifest), list(manifest.sources)
    keep_ids(draft.records, before, sources)
    refuse_clashes(draft.records, before, sources)
    numbers = _numbers(manifest, sources)
    due: dict[int, Source] = {}
    for source, number in zip(sources, numbers, strict=True):
        if not manifest.sources[number].finished:
            due.setdefault(number, source)
    if due:
        draft.begin(list(due))
        pipeline = Pipeline(draft, [(source, number) for number, source in due.items()], encoder)
        with ray_workers(encoder, draft.passages.uri) if on else nullcontext() as encode_all:
            pipeline.run(progress, encode_all)
    if manifest.sources != before or not draft.is_published():
        draft.publish()
    reports = []
    for source, number in zip(sources, numbers, strict=True):
        skipped = due.get(number) is not source
        counts = Counts() if skipped else manifest.sources[number].counts
        reports.append(SourceReport(source.name, skipped, counts))
    return _report(draft, reports)


def _numbers(manifest: Manifest, sources: Iterable[Source]) -> list[int]:
    """Return the numbers of sources in the manifest, to which new content is added."""
    known = {
        entry.fingerprint: number
        for number, entry in enumerate(manifest.sources)
        if entry.fingerprint
    }
    numbers = []
    for source in sources:
        number, path = known.get(source.fingerprint), path_of(source)
        if number is None:
            number, note = len(manifest.sources), getattr(source, "note", "")
            entry = IndexedSource(
                name=source.name, fingerprint=source.fingerprint, note=note, path=path
            )
            manifest.sources.append(entry)
            if source.fingerprint:
                known[source.fingerprint] = number
        entry = manifest.sources[number]
        if path is not None and not (entry.path is not None and Path(entry.path).is_file()):
            manifest.sources[number] = entry.model_copy(update={"path": path})
        numbers.append(number)
    return numbers


def _report(draft: Draft, sources: list[SourceReport]) -> BuildReport:
    place = draft.manifest.place
    rejects_file = place.locate(REJECTS_FILE) if place.stamp(REJECTS_FILE) else None
    return BuildReport(place.path, sources, draft.manifest.passages, rejects_file)


def remove_records(
    path: str | os.PathLike[str], source_ids: Sequence[str], *, reread: Iterable[Source] = ()
) -> BuildReport:
    """Delete documents from the knowledge base at `path`, by their source ids.

    They return when a file that has them is indexed again: the files that they came from, and the
    sources `reread`, are not skipped. Raises KnowledgeBaseError if an id or the base is missing, or
    a build is not complete.
    """
    place = place_to_build(path)
    with KnowledgeBase.open(path):
        pass
    with place.lock():
        if (manifest := Manifest.published(place)) is None or Manifest.draft(place) is not None:
            raise KnowledgeBaseError(
                f"An update of {place} is not complete: finish it by the same index command first."
            )
        held = manifest.table(RECORDS).find(
            ["source_id", "source"], "source_id", source_ids, "NOT deleted"
        )
        ids = held["source_id"].to_pylist()
        if missing := [id for id in dict.fromkeys(source_ids) if id not in ids]:
            raise KnowledgeBaseError(
                f"{place} has no document {', '.join(map(repr, missing[:3]))}: "
                f"see `briefcontext kb list {place}`."
            )
        draft = Draft(manifest)
        draft.remove_records(ids)
        fingerprints = {source.fingerprint for source in reread} - {""}
        draft.forget(
            number
            for number, entry in enumerate(manifest.sources)
            if number in set(held["source"].to_pylist()) or entry.fingerprint in fingerprints
        )
        removal = IndexedSource(
            name="kb remove",
            fingerprint="",
            finished=True,
            counts=Counts(read=len(ids), deleted=len(ids)),
        )
        manifest.sources.append(removal)
        draft.publish()
    return _report(draft, [SourceReport(removal.name, False, removal.counts)])
