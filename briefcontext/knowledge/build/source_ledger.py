"""Bookkeeping of sources: how far each was read, which file a document came from, and which are to be read."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.source import Deletion, EntrySource, FileSource, Source
from briefcontext.knowledge.store.manifest import RECORDS, IndexedSource, Manifest, open_place
from briefcontext.knowledge.store.table import Table


class SourceLedger:
    """The sources of a knowledge base in the order given, numbered from 0, and those that a build was given.

    A source that was read before is read again when its records may have become others since: when a source that does
    not follow it in this build took records over from it, or deleted them. It has another entry then. So giving the
    same sources in the same order again reads nothing, and giving an older state of a file again brings that back.
    """

    def __init__(self, held: Sequence[IndexedSource], given: Sequence[Source]) -> None:
        self.entries = list(held)
        """As they are now. None is changed in place: a batch that waits to be written keeps them as they were."""
        self.read: dict[int, int] = {}
        """The places of the sources that were read among those given, and under which entries."""
        self._given = given
        self._numbers: dict[str | int, list[int]] = {}
        """The entries of the same content, or of the source at one place, where its content is unknown."""
        for number, entry in enumerate(held):
            self._numbers.setdefault(entry.fingerprint, []).append(number)
        for place, source in enumerate(given):
            if (source.fingerprint or place) not in self._numbers:
                self._add(place)
            path, known = _path_of(source), self.entries[self.entry(place)].path
            if path is not None and not (known is not None and Path(known).is_file()):
                self.change(self.entry(place), path=path)
        self._last = {source.fingerprint: place for place, source in enumerate(given) if source.fingerprint}

    def _add(self, place: int) -> int:
        source, number = self._given[place], len(self.entries)
        note, path = getattr(source, "note", ""), _path_of(source)
        self.entries.append(IndexedSource(name=source.name, fingerprint=source.fingerprint, note=note, path=path))
        self._numbers.setdefault(source.fingerprint or place, []).append(number)
        return number

    def change(self, number: int, **changes: Any) -> None:
        self.entries[number] = self.entries[number].model_copy(update=changes)

    def entry(self, place: int) -> int:
        """The entry that the source at a place among those given has by now."""
        return self._numbers[self._given[place].fingerprint or place][-1]

    def due(self) -> list[int]:
        """The entries of the sources that would have to be read now."""
        return [self.entry(place) for place in range(len(self._given)) if self._is_due(place)]

    def __iter__(self) -> Iterator[tuple[Source, int]]:
        """Each source that is to be read, and its entry; that is decided when its turn comes."""
        for place, source in enumerate(self._given):
            if self._is_due(place):
                entry = self.entry(place)
                self.read[place] = self._add(place) if self.entries[entry].finished else entry
                yield source, self.read[place]

    def _is_due(self, place: int) -> bool:
        entry = self.entries[self.entry(place)]
        owners = {self.entries[number].fingerprint for number in entry.replaced_by}
        return not entry.finished or any(self._last.get(fingerprint, -1) <= place for fingerprint in owners)

    def hand_over(self, number: int, by: int) -> None:
        """Note that a source has a record now that another had before it."""
        known = self.entries[number].replaced_by
        if number != by and by not in known:
            self.change(number, replaced_by=known | {by})

    def is_read_again(self, number: int) -> bool:
        """Return whether a source of the same content was read to its end before."""
        fingerprint = self.entries[number].fingerprint
        earlier = self._numbers[fingerprint] if fingerprint else []
        return any(other < number and self.entries[other].finished for other in earlier)


def _path_of(source: object) -> str | None:
    return str(source.path.resolve()) if isinstance(source, FileSource) else None


def keep_ids(records: Table, listed: Sequence[IndexedSource], sources: Iterable[object]) -> None:
    """Have the documents of files that are in the base keep their ids, whichever folder is given this time."""
    files = {_path_of(source): source for source in sources if isinstance(source, FileSource) and source.document_id}
    numbers = [number for number, entry in enumerate(listed) if entry.path in files]
    ids = dict[FileSource, set[str]]()
    for row in records.find(["source_id", "source"], "source", numbers, "NOT deleted").to_pylist():
        source = files[listed[row["source"]].path]
        if PurePosixPath(row["source_id"]).name == PurePosixPath(source.document_id or "").name:
            ids.setdefault(source, set()).add(row["source_id"])
    for source, held in ids.items():
        if source.document_id not in held:
            source.keep_id(min(held))


def refuse_clashes(records: Table, listed: Sequence[IndexedSource], sources: Iterable[object]) -> None:
    """Raise KnowledgeBaseError where a file that is still there would lose its document to another one of that name."""
    given: dict[str, FileSource] = {}
    for source in sources:
        if isinstance(source, FileSource) and source.document_id is not None:
            other = given.setdefault(source.document_id, source)
            if other.fingerprint != source.fingerprint:
                raise KnowledgeBaseError(_clash(source, str(other.path)))
    for row in records.find(["source_id", "source"], "source_id", given, "NOT deleted").to_pylist():
        source, owner = given[row["source_id"]], listed[row["source"]]
        if owner.path is None or owner.fingerprint == source.fingerprint or not Path(owner.path).is_file():
            continue
        if not Path(owner.path).samefile(source.path):
            raise KnowledgeBaseError(_clash(source, owner.path))


def _clash(source: FileSource, held: str) -> str:
    depth = len(PurePosixPath(source.document_id or "").parts)
    folders = source.path.resolve().parents
    return (
        f"{source.name} would replace {held}, another file: both are document {source.document_id!r}. Give the folder "
        f"above it, {folders[min(depth, len(folders)) - 1]}, so that its document gets a longer name; or, where it is "
        "to replace the other, remove that file first."
    )


def gone_records(
    path: str | os.PathLike[str], given: Iterable[str | Path], sources: Iterable[object]
) -> EntrySource | None:
    """The deletions of what a base has from files that are gone, or do not hold it any more, if any.

    The files are those given, and those in the folders given; the sources are what they hold now, and were just
    indexed into the base.
    """
    if (manifest := Manifest.published(open_place(path))) is None:
        return None
    roots = [Path(root).expanduser().resolve() for root in given]
    read = [source for source in sources if isinstance(source, FileSource)]
    now, paths = {(_path_of(source), source.fingerprint) for source in read}, set(map(_path_of, read))
    gone = [
        number
        for number, entry in enumerate(manifest.sources)
        if entry.path is not None
        and (entry.path, entry.fingerprint) not in now
        and (entry.path in paths or not Path(entry.path).is_file())
        and any(Path(entry.path).is_relative_to(root) for root in roots)
    ]
    held = manifest.table(RECORDS).find(["source_id"], "source", gone, "NOT deleted")["source_id"].to_pylist()
    deletions = [Deletion(id) for id in sorted(held)]
    return EntrySource(deletions, name="files that are gone", size=len(held)) if held else None
