"""Building a knowledge base: a new one, one that was stopped half-way, or one to be updated."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.build.draft import REJECTS_FILE, Draft
from briefcontext.knowledge.build.pipeline import Pipeline, Progress
from briefcontext.knowledge.build.reading_plan import ReadingPlan
from briefcontext.knowledge.build.source_ledger import SourceLedger, replaced_files
from briefcontext.knowledge.sources.source import (
    Deletion,
    Entry,
    EntrySource,
    Reject,
    Source,
    VectorDocument,
    check_encoder,
)
from briefcontext.knowledge.store.manifest import DRAFT_FILE, Counts, Manifest
from briefcontext.knowledge.store.place import LOCK_FILE, Place, open_place
from briefcontext.knowledge.store.vector_search import EMBEDDED

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

WHOLE_TEXTS = frozenset({"article", "markdown", "pdf", "text"})
"""Kinds of documents of which an encoder would read no more than the beginning."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The counts of one source."""

    name: str
    fingerprint: str
    skipped: bool
    """The same content was indexed by an earlier build, or stands earlier in this one: it was not read again."""
    counts: Counts
    """Its records, those included that were read before a build was stopped; none when it was skipped."""
    replaced_file: str | None = None
    """The path of the file that gave this document before, where that is another one, and gone."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build."""

    path: Path | str
    """The folder of the base, or its URL in an object store."""
    sources: list[SourceReport]
    passages: int
    """Passages that the base now holds."""
    vectors_written: int
    """Vectors that this run wrote."""
    rejects_file: Path | str | None
    """Where every record that was left out stands with its reason; None: there are none."""
    unfinished: list[str]
    """Names of sources that an earlier build was stopped in, and that this one was not given."""

    @property
    def counts(self) -> Counts:
        """The records of all sources."""
        return Counts.total(source.counts for source in self.sources)


def build_knowledge_base(
    sources: Iterable[Source] | Iterable[Entry],
    path: str | os.PathLike[str],
    *,
    encoder: "Encoder",
    chunk_tokens: int | None = None,
    store: str | None = None,
    on: Literal["ray"] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> BuildReport:
    """Index sources into the knowledge base at `path`.

    A source whose content was indexed before (by its fingerprint) is skipped, unless a source that came later, and
    that does not follow it here, replaced or deleted records of it: then it is read again, and the last word counts.
    A record with a revision (`version`, `revised`) does not give way to an older one, and what is read again neither
    puts a record without a revision in its place nor deletes it. A record that a source no longer has stays: only a
    `Deletion` removes it. A build that was stopped, in whatever way, goes on where it was when it is called again with
    the same sources.

    A base that is updated stays in use: until the build is complete, questions are answered from its old state, and
    from then on from the new one. That holds also when the build is stopped.

    Args:
        sources: sources; or entries (documents, deletions), which then are one source without a fingerprint.
        path: the folder of the base, created where it is missing; or a URL in an object store: `s3://bucket/name`.
        encoder: makes the vectors; for a base that exists, the one that it was built with.
        chunk_tokens: cut documents into chunks of about this many tokens; None: as the base has it, and for a new one
            whole texts into chunks of 128, and abstracts and passages not at all.
        store: what searches the vectors: `chroma`, in the base's folder, or the URL of a Chroma server; None: as the
            base has it, and for a new one the base's own table.
        on: `ray`: encode and write on a Ray cluster, whose workers load the encoder by its name; None: in this process.
        progress: called after each batch.

    Raises:
        InputError: the chunk size is less than 1, or the store is no URL.
        KnowledgeBaseError: the folder holds something else, or a base of another encoder, chunk size or store;
            another process builds in it; the server does not answer; a source cannot be read, or brings vectors of
            another encoder, or is another file than the one that its document came from.
    """
    place = open_place(path)
    if chunk_tokens is not None and chunk_tokens < 1:
        raise InputError(f"chunk_tokens is {chunk_tokens}, and a chunk has at least 1 token.")
    if store not in (None, EMBEDDED) and Manifest.latest(place) is None:
        from briefcontext.knowledge.store.chroma import check_server

        check_server(str(store))
    given = _sources(sources)
    for source in given:
        check_encoder(source, encoder.name)
    if Manifest.latest(place) is None and (others := place.names() - {LOCK_FILE, f"{DRAFT_FILE}.partial"}):
        raise KnowledgeBaseError(
            f"{place} is not empty and is no knowledge base (it holds {min(others)!r}): name another folder."
        )
    with place.lock():
        manifest = _manifest(place, encoder, chunk_tokens, store)
        return _Build(place, manifest, encoder).run(given, on, progress)


def _manifest(place: Place, encoder: "Encoder", chunk_tokens: int | None, store: str | None) -> Manifest:
    """The state to go on from, checked against what is asked for; a new one where there is none."""
    if (manifest := Manifest.latest(place)) is None:
        manifest = Manifest.new(encoder, store=store, chunk_tokens=chunk_tokens)
        manifest.write_draft(place)
        return manifest
    manifest.check_encoder(encoder, place)
    manifest.check_options(place, encoder=encoder.name, chunk_tokens=chunk_tokens, store=store)
    return manifest


def _sources(given: Iterable[Source] | Iterable[Entry]) -> list[Source]:
    """Sources as they are given; entries as one source, read no further than the first."""
    items = iter(given)
    first = next(items, None)
    if first is None:
        return []
    rest = chain([first], items)
    if isinstance(first, Document | VectorDocument | Deletion | Reject):
        return [EntrySource(rest, size=len(given) if isinstance(given, list | tuple) else None)]  # type: ignore[arg-type]
    return list(rest)  # type: ignore[arg-type]


class _Build:
    """One build in a folder that is locked."""

    def __init__(self, place: Place, manifest: Manifest, encoder: "Encoder") -> None:
        self._place = place
        self._encoder = encoder
        self._chunk_tokens = manifest.chunk_tokens
        self._draft = Draft(place, manifest)
        self._before = manifest.sources
        published = Manifest.published(place)
        listed = published.sources if published is not None else []
        self._indexed = {number for number, source in enumerate(listed) if source.finished}
        self._ledger = SourceLedger(manifest.sources)

    def run(
        self, sources: list[Source], on: Literal["ray"] | None, progress: Callable[[Progress], None] | None
    ) -> BuildReport:
        draft, ledger = self._draft, self._ledger
        replaced = replaced_files(draft.records, self._before, sources)
        plan = ReadingPlan(ledger, sources)
        written = 0
        if plan.due():
            draft.begin(ledger)
            pipeline = Pipeline(draft, ledger, self._encoder, self._cut, progress)
            if on is None:
                written = pipeline.run(plan)
            else:
                from briefcontext.knowledge.build.ray_workers import RayWorkers

                with RayWorkers(self._encoder, draft.passages.uri) as workers:
                    written = pipeline.run_on(workers, plan)
        if plan.read or ledger.entries() != self._before or not draft.is_published():
            draft.publish(ledger)
        return BuildReport(
            path=self._place.path,
            sources=list(self._reports(sources, plan, replaced)),
            passages=draft.manifest.passages,
            vectors_written=written,
            rejects_file=self._place.named(REJECTS_FILE) if self._place.exists(REJECTS_FILE) else None,
            unfinished=ledger.unfinished(),
        )

    def _reports(self, sources: list[Source], plan: ReadingPlan, replaced: dict[str, str]) -> Iterator[SourceReport]:
        # One that was read to its end by a build that was stopped later is not skipped, and not read again.
        seen = set(self._indexed)
        for place, source in enumerate(sources):
            entry = plan.read.get(place, plan.entry(place))
            skipped = place not in plan.read and entry in seen
            seen.add(entry)
            counts = Counts() if skipped else self._ledger[entry].counts
            fingerprint = self._ledger[entry].fingerprint
            yield SourceReport(source.name, fingerprint, skipped, counts, replaced.get(source.name))

    def _cut(self, document: Document) -> list[Document] | None:
        """A document's chunks; None where it is not to be cut."""
        from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document

        whole_text = document.metadata.get("kind") in WHOLE_TEXTS
        tokens = self._chunk_tokens or (CHUNK_TOKENS if whole_text else None)
        return None if tokens is None else chunk_document(document, self._encoder, tokens=tokens)
