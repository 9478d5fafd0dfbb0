"""Building a knowledge base: a new one, one that was stopped half-way, or one to be updated."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.build_lock import LOCK_FILE, build_lock
from briefcontext.knowledge.document_files import replaced_files
from briefcontext.knowledge.manifest import MANIFEST_FILE, Counts, Manifest, timestamp
from briefcontext.knowledge.passage_schema import INDEXED, PUBLISHED
from briefcontext.knowledge.passages import PassageStore
from briefcontext.knowledge.pipeline import Pipeline, Progress
from briefcontext.knowledge.reading_plan import ReadingPlan
from briefcontext.knowledge.source_ledger import SourceLedger
from briefcontext.knowledge.sources.records import Deletion, Reject
from briefcontext.knowledge.sources.source import EntrySource, Source, SourceEntry, VectorDocument, check_encoder
from briefcontext.knowledge.term_index import TermIndexBuild
from briefcontext.knowledge.vector_index import VectorIndexBuild
from briefcontext.knowledge.vectors import check_server

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

REJECTS_FILE = "rejects.jsonl"

WHOLE_TEXTS = frozenset({"article", "markdown", "pdf", "text"})
"""Kinds of documents of which an encoder would read no more than the beginning."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What became of one source."""

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
    """What a build did."""

    path: Path
    sources: list[SourceReport]
    passages: int
    """Passages that the base now holds."""
    vectors_written: int
    """Vectors that this run wrote."""
    rejects_file: Path | None
    """Where every record that was left out stands with its reason; None: there are none."""
    unfinished: list[str]
    """Names of sources that an earlier build was stopped in, and that this one was not given."""

    @property
    def counts(self) -> Counts:
        """The records of all sources."""
        return Counts.total(source.counts for source in self.sources)


def build_knowledge_base(
    sources: Iterable[Source] | Iterable[SourceEntry],
    path: str | os.PathLike[str],
    *,
    encoder: "Encoder",
    chunk_tokens: int | None = None,
    store: str | None = None,
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
        path: the folder of the base; created where it is missing.
        encoder: makes the vectors; for a base that exists, the one that it was built with.
        chunk_tokens: cut documents into chunks of this many tokens; None: as the base has it, and for a new one
            whole texts into chunks of 128, and abstracts and passages not at all.
        store: URL of the Chroma server that takes the vectors; None: as the base has it, and for a new one in
            its folder.
        progress: called after each batch.

    Raises:
        InputError: the chunk size is less than 1, or the store is no URL.
        KnowledgeBaseError: the folder holds something else, or a base of another encoder, chunk size or store;
            another process builds in it; the server does not answer; a source cannot be read, or brings vectors of
            another encoder, or is another file than the one that its document came from.
    """
    folder = Path(path)
    if chunk_tokens is not None and chunk_tokens < 1:
        raise InputError(f"chunk_tokens is {chunk_tokens}, and a chunk has at least 1 token.")
    if store is not None and not (folder / MANIFEST_FILE).exists():
        check_server(store)
    given = _sources(sources)
    for source in given:
        check_encoder(source, encoder.name)
    _make_folder(folder)
    with build_lock(folder):
        manifest = _manifest(folder, encoder, chunk_tokens, store)
        with closing(PassageStore(folder, writable=True)) as passages:
            return _Build(folder, manifest, passages, encoder).run(given, progress)


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise KnowledgeBaseError(f"{folder} is a file: name a folder for the knowledge base.")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MANIFEST_FILE).exists():
        others = {entry.name for entry in folder.iterdir()} - {LOCK_FILE, f"{MANIFEST_FILE}.tmp"}
        if others:
            raise KnowledgeBaseError(
                f"{folder} is not empty and is no knowledge base (it holds {min(others)!r}): name another folder."
            )


def _manifest(folder: Path, encoder: "Encoder", chunk_tokens: int | None, store: str | None) -> Manifest:
    """The manifest that is there, checked against what is asked for; a new one where there is none."""
    if not (folder / MANIFEST_FILE).exists():
        manifest = Manifest.new(encoder, store=store, chunk_tokens=chunk_tokens)
        manifest.write(folder)
        return manifest
    manifest = Manifest.read(folder)
    manifest.check_encoder(encoder, folder)
    manifest.check_options(folder, encoder=encoder.name, chunk_tokens=chunk_tokens, store=store)
    return manifest


def _sources(given: Iterable[Source] | Iterable[SourceEntry]) -> list[Source]:
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

    def __init__(self, folder: Path, manifest: Manifest, passages: PassageStore, encoder: "Encoder") -> None:
        self._folder = folder
        self._manifest = manifest
        self._passages = passages
        self._ledger = SourceLedger(passages)
        self._vectors = VectorIndexBuild(folder, manifest, passages)
        self._terms = TermIndexBuild(folder, passages)
        self._encoder = encoder

    def run(self, sources: list[Source], progress: Callable[[Progress], None] | None) -> BuildReport:
        replaced = replaced_files(self._passages, sources)
        with self._passages.transaction():
            plan = ReadingPlan(self._ledger, sources)
        # The manifest lists the sources in the order of their numbers.
        indexed = {number for number, listed in enumerate(self._manifest.sources, start=1) if listed.finished}
        written = 0
        if plan.due() or not self._is_whole():
            self._keep_published()
            self._write_manifest("building")
            written = self._fill(plan, progress)
            self._write_manifest("complete")
        rejects_file = self._folder / REJECTS_FILE
        return BuildReport(
            path=self._folder,
            sources=list(self._reports(sources, plan, indexed, replaced)),
            passages=self._passages.value("SELECT count(*) FROM passages"),
            vectors_written=written,
            rejects_file=rejects_file if rejects_file.exists() else None,
            unfinished=self._ledger.unfinished(),
        )

    def _reports(
        self, sources: list[Source], plan: ReadingPlan, indexed: set[int], replaced: dict[str, str]
    ) -> Iterator[SourceReport]:
        # One that was read to its end by a build that was stopped later is not skipped, and not read again.
        seen = set(indexed)
        for place, source in enumerate(sources):
            row = plan.row(place)
            if place in plan.read:
                row = plan.read[place]
            skipped = place not in plan.read and row.number in seen
            seen.add(row.number)
            counts = Counts() if skipped else self._ledger.counts(row)
            yield SourceReport(source.name, row.fingerprint, skipped, counts, replaced.get(source.name))

    def _is_whole(self) -> bool:
        """Whether the base is complete, with nothing left to do."""
        return self._manifest.state == "complete" and self._terms.current() and self._vectors.intact()

    def _keep_published(self) -> None:
        """Note what is complete, in a base that an earlier version made."""
        if self._manifest.state == "complete" and not self._passages.is_published():
            self._passages.set_mark(PUBLISHED, self._passages.mark(INDEXED))

    def _fill(self, plan: ReadingPlan, progress: Callable[[Progress], None] | None) -> int:
        """Read sources and bring the indexes up to date; how many vectors were written."""
        with closing(self._vectors):
            self._vectors.prepare()
            written = Pipeline(self._passages, self._vectors, self._encoder, self._cut, progress).run(plan)
            indexes = (self._terms, self._vectors)
            for index in indexes:
                index.finish()
            with self._passages.transaction():
                for index in indexes:
                    index.publish()
                self._passages.publish()
            for index in indexes:
                index.clean()
        self._write_rejects()
        return written

    def _cut(self, document: Document) -> list[Document] | None:
        """A document's chunks; None where it is not to be cut."""
        from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document

        whole_text = document.metadata.get("kind") in WHOLE_TEXTS
        tokens = self._manifest.chunk_tokens or (CHUNK_TOKENS if whole_text else None)
        return None if tokens is None else chunk_document(document, self._encoder, tokens=tokens)

    def _write_rejects(self) -> None:
        target, unfinished = self._folder / REJECTS_FILE, self._folder / f"{REJECTS_FILE}.tmp"
        with unfinished.open("w", encoding="utf-8") as file:
            for source, position, reason in self._ledger.rejects():
                row = {"source": source, "position": position, "reason": reason}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        if unfinished.stat().st_size:
            os.replace(unfinished, target)
        else:
            unfinished.unlink()

    def _write_manifest(self, state: Literal["building", "complete"]) -> None:
        update: dict[str, object] = {"state": state}
        if state == "complete":
            update |= {
                "updated": timestamp(),
                "records": self._passages.value("SELECT count(*) FROM records"),
                "passages": self._passages.value("SELECT count(*) FROM passages"),
                "retracted": self._passages.value("SELECT count(*) FROM passages WHERE retracted = 1"),
                "sources": self._ledger.listed(),
            }
        self._manifest = self._manifest.model_copy(update=update)
        self._manifest.write(self._folder)
