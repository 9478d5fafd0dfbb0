"""Bookkeeping of sources: how far each was read, and which file a document came from."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.file_source import FileSource
from briefcontext.knowledge.sources.source import Source
from briefcontext.knowledge.store.manifest import Counts, IndexedSource, unfinished
from briefcontext.knowledge.store.table import Table


class SourceLedger:
    """The sources of a knowledge base in the order given, numbered from 0; a source may have several entries."""

    def __init__(self, sources: Iterable[IndexedSource]) -> None:
        self._sources = list(sources)
        self._numbers: dict[str, list[int]] = {}
        for number, source in enumerate(self._sources):
            self._numbers.setdefault(source.fingerprint, []).append(number)

    def __getitem__(self, number: int) -> IndexedSource:
        return self._sources[number]

    def entries(self) -> list[IndexedSource]:
        """All entries as they are now, in order."""
        return list(self._sources)

    def register(self, source: Source) -> int:
        """The entry of a source: the latest one of the same content, or a new one when there is none."""
        if (number := self._latest(source.fingerprint)) is None:
            return self.add(source)
        path, held = _path_of(source), self[number].path
        if path is not None and not (held is not None and Path(held).is_file()):
            self._change(number, path=path)
        return number

    def add(self, source: Source) -> int:
        """A new entry for a source, which is to be read from its beginning."""
        note = getattr(source, "note", "")
        number = len(self._sources)
        self._sources.append(
            IndexedSource(name=source.name, fingerprint=source.fingerprint, note=note, path=_path_of(source))
        )
        self._numbers.setdefault(source.fingerprint, []).append(number)
        return number

    def current(self, number: int) -> int:
        """The latest entry of the same content."""
        latest = self._latest(self[number].fingerprint)
        return number if latest is None else latest

    def _latest(self, fingerprint: str) -> int | None:
        return self._numbers[fingerprint][-1] if fingerprint and fingerprint in self._numbers else None

    def take_over(self, number: int, by: int, *, replaced: bool) -> None:
        """Note that a source has a record now that another had before it.

        `replaced` says that the other's would come back if that were read again.
        """
        name = "replaced_by" if replaced else "shared_with"
        known: frozenset[int] = getattr(self[number], name)
        if number != by and by not in known:
            self._change(number, **{name: known | {by}})

    def displaced_by(self, number: int) -> set[str]:
        """Fingerprints of the sources that replaced or deleted records of a source, or of those it shares records with.

        What a source shares with others, and who of them had which record, is not kept: more may be listed, and none
        is left out.
        """
        sharing, found = {number}, set[str]()
        todo = [number]
        while todo:
            source = self[todo.pop()]
            found |= {self[by].fingerprint for by in source.replaced_by}
            todo += source.shared_with - sharing
            sharing |= source.shared_with
        return found

    def is_read_again(self, number: int) -> bool:
        """Return whether a source of the same content was read to its end before."""
        fingerprint = self[number].fingerprint
        earlier = self._numbers[fingerprint] if fingerprint else []
        return any(other < number and self[other].finished for other in earlier)

    def advance(self, number: int, position: int | None, counts: Counts, *, finished: bool) -> None:
        """Note the new position of a source (None: it has not moved), and what became of the records up to there."""
        source = self[number]
        position = source.position if position is None else position
        self._change(number, position=position, finished=finished, counts=source.counts + counts)

    def unfinished(self) -> list[str]:
        """Names of the sources that were left off, and not read to the end under the same name since."""
        return unfinished(self._sources)

    def without_notes(self, numbers: Iterable[int]) -> None:
        """Drop the notes of sources that the base has no records from any more."""
        for number in numbers:
            self._change(number, note="")

    def noted(self) -> Iterator[int]:
        """The sources with a note."""
        return (number for number, source in enumerate(self._sources) if source.note)

    def _change(self, number: int, **changes: Any) -> None:
        # Entries are never changed in place: a batch that waits to be written keeps them as they were.
        self._sources[number] = self[number].model_copy(update=changes)


def _path_of(source: object) -> str | None:
    """The absolute path of a source that is a file; None for other sources."""
    return str(source.path.resolve()) if isinstance(source, FileSource) else None


def replaced_files(records: Table, listed: Sequence[IndexedSource], sources: Iterable[object]) -> dict[str, str]:
    """The files that gave documents before which other files give now, and which are gone: by the new ones' names.

    Such a file was moved, or its place was taken: who reads the report can tell.

    Raises:
        KnowledgeBaseError: a file that is still there would lose its document to another one of that name.
    """
    gone = {}
    given: dict[str, FileSource] = {}
    for source in sources:
        if not isinstance(source, FileSource) or source.document_id is None:
            continue
        other = given.setdefault(source.document_id, source)
        if other.fingerprint != source.fingerprint:
            raise KnowledgeBaseError(_clash(source, str(other.path)))
    found = records.find(["source_id", "source"], "source_id", given, "NOT deleted").to_pylist()
    for row in found:
        source, owner = given[row["source_id"]], listed[row["source"]]
        if owner.path is None or owner.fingerprint == source.fingerprint or owner.path == _path_of(source):
            continue
        if not Path(owner.path).is_file():
            gone[source.name] = owner.path
        elif not Path(owner.path).samefile(source.path):
            raise KnowledgeBaseError(_clash(source, owner.path))
    return gone


def _clash(source: FileSource, held: str) -> str:
    depth = len(PurePosixPath(source.document_id or "").parts)
    folders = source.path.resolve().parents
    return (
        f"{source.name} would replace {held}, another file: both are document {source.document_id!r}. Give the folder "
        f"above it, {folders[min(depth, len(folders)) - 1]}, so that its document gets a longer name; or, where it is "
        "to replace the other, remove that file first."
    )
