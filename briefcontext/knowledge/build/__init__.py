"""Building a knowledge base: a new one, one that was stopped half-way, or one to be updated."""

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
from briefcontext.knowledge.store.manifest import (
    DRAFT_FILE,
    LOCK_FILE,
    RECORDS,
    Counts,
    IndexedSource,
    Manifest,
    Place,
    open_place,
)

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
    """Where every record that was left out stands with its reason; None: there are none."""

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

    A record is its source id and a hash of its content and metadata. An unchanged record is neither
    encoded nor written. A newer revision (`version`, then `revised`) replaces an older one; of
    records without revisions, the last one given counts. A deletion remains in force until a newer
    record is given.

    A source that was read to its end is skipped, by its fingerprint. A build that was stopped
    continues when it is called again: the source that it stopped in is read from its start, and
    the records that were written are found unchanged.

    A base that is updated stays in use: until the build is complete, questions are answered from
    its old state, and from then on from the new one. That holds also when the build is stopped.

    Args:
        sources: Files, folders and globs; or sources; or entries (documents, deletions), which are
            one source without a fingerprint. A document without an id gets one from its `source`
            and its text.
        path: the folder of the base, created where it is missing; or a URL in an object store:
            `s3://bucket/name`.
        encoder: makes the vectors; or its name (see `load_encoder`). By default the base's own, and
            for a new one `e5`. A base that exists needs the one it was built with.
        chunk_tokens: cut documents into chunks of about this many tokens; None: as the base has it,
            and for a new one whole texts into chunks of 128, and abstracts and passages not at all.
        on: `ray`: encode and write on a Ray cluster, whose workers load the encoder by its name;
            None: in this process.
        progress: called after each batch.

    Raises:
        InputError: the chunk size is less than 1, there is no such encoder, or a source is none.
        KnowledgeBaseError: the base is the bundled one; the folder holds something else, or a base
            of another encoder, chunk size; another process builds in it; a source cannot be read,
            or brings vectors of another encoder, or is another file than the one that its document
            came from.
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
    """Return the place of a base that may be written. Raises KnowledgeBaseError for the bundled one."""
    if path == DEMO:
        raise KnowledgeBaseError(
            f"{DEMO} names the bundled knowledge base, which stays as it is: name another folder, "
            f"or ./{DEMO}."
        )
    return open_place(path)


def check_build(
    place: Place, sources: Iterable[Source], encoder: str, *, chunk_tokens: int | None
) -> None:
    """Refuse what a build with an encoder of that name would refuse, before it is loaded."""
    if chunk_tokens is not None and chunk_tokens < 1:
        raise InputError(f"chunk_tokens is {chunk_tokens}, and a chunk has at least 1 token.")
    if (manifest := Manifest.latest(place)) is not None:
        manifest.check(encoder, chunk_tokens=chunk_tokens)
    elif others := place.names() - {LOCK_FILE, f"{DRAFT_FILE}.partial"}:
        raise KnowledgeBaseError(
            f"{place} is not empty and is no knowledge base (it holds {min(others)!r}): name "
            f"another folder."
        )
    for source in sources:
        # Vectors of another encoder may have the right length, and their similarities would mean
        # nothing.
        if (needed := getattr(source, "encoder", None)) not in (None, encoder.partition(":")[0]):
            raise KnowledgeBaseError(
                f"{source.name} holds vectors of the encoder {needed!r}, and the knowledge base's encoder is "
                f"{encoder!r}: index it into a base of its own, with --encoder {needed}."
            )


def _sources(
    given: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Source | Entry],
) -> list[Source]:
    """Return sources: those of paths, given ones, or one of entries, read only to the first."""
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
        return [EntrySource(rest, size=len(given) if isinstance(given, list | tuple) else None)]  # type: ignore[arg-type]
    sources = list(rest)
    if none := [source for source in sources if not isinstance(source, Source)]:
        raise InputError(
            f"{none[0]!r:.100} is no source: pass paths, LangChain documents, or sources of "
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
    """Build in a place that is locked."""
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
    """Return the numbers of sources in the manifest; content that was not read before gets a new one."""
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
    rejects_file = place.named(REJECTS_FILE) if place.stamp(REJECTS_FILE) else None
    return BuildReport(place.path, sources, draft.manifest.passages, rejects_file)


def remove_records(
    path: str | os.PathLike[str], source_ids: Sequence[str], *, reread: Iterable[Source] = ()
) -> BuildReport:
    """Delete documents from the knowledge base at `path`, by their source ids; no encoder is loaded.

    A document returns when a file that holds it is indexed again: the files that it came from, and
    the sources `reread`, are read again.

    Raises:
        KnowledgeBaseError: there is no base, it is the bundled one, a build of it is not complete,
            or an id is not held. Nothing is deleted then.
    """
    place = place_to_build(path)
    with KnowledgeBase.open(path):
        pass
    with place.lock():
        if (manifest := Manifest.published(place)) is None or Manifest.draft(place) is not None:
            raise KnowledgeBaseError(
                f"An update of {place} is not complete: run its index command again to finish it, "
                f"and remove then."
            )
        held = manifest.table(RECORDS).find(
            ["source_id", "source"], "source_id", source_ids, "NOT deleted"
        )
        ids = held["source_id"].to_pylist()
        if missing := [id for id in dict.fromkeys(source_ids) if id not in ids]:
            raise KnowledgeBaseError(
                f"{place} holds no document {', '.join(map(repr, missing[:3]))}: see `briefcontext kb list {place}`."
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
