"""The files of a knowledge base: the ids of their documents, and files that are gone."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.source import FileSource
from briefcontext.knowledge.store.counts import IndexedSource
from briefcontext.knowledge.store.manifest import RECORDS, Manifest
from briefcontext.knowledge.store.place import open_place
from briefcontext.knowledge.store.table import Table


def path_of(source: object) -> str | None:
    """Return the path of a file; None for another source."""
    return str(source.path.resolve()) if isinstance(source, FileSource) else None


def keep_ids(records: Table, listed: Sequence[IndexedSource], sources: Iterable[object]) -> None:
    """Have documents keep their ids, whichever folder is given this time."""
    files = {
        path_of(source): source
        for source in sources
        if isinstance(source, FileSource) and source.document_id
    }
    numbers = [number for number, entry in enumerate(listed) if entry.path in files]
    ids = dict[FileSource, set[str]]()
    for row in records.find(["source_id", "source"], "source", numbers, "NOT deleted").to_pylist():
        source = files[listed[row["source"]].path]
        if PurePosixPath(row["source_id"]).name == PurePosixPath(source.document_id or "").name:
            ids.setdefault(source, set()).add(row["source_id"])
    for source, held in ids.items():
        if source.document_id not in held:
            source.keep_id(min(held))


def refuse_clashes(
    records: Table, listed: Sequence[IndexedSource], sources: Iterable[object]
) -> None:
    """Raise KnowledgeBaseError if a file would replace the document of another file."""
    given: dict[str, FileSource] = {}
    for source in sources:
        if isinstance(source, FileSource) and source.document_id is not None:
            other = given.setdefault(source.document_id, source)
            if other.fingerprint != source.fingerprint:
                raise KnowledgeBaseError(_clash(source, str(other.path)))
    for row in records.find(["source_id", "source"], "source_id", given, "NOT deleted").to_pylist():
        source, owner = given[row["source_id"]], listed[row["source"]]
        if (
            owner.path is None
            or owner.fingerprint == source.fingerprint
            or not Path(owner.path).is_file()
        ):
            continue
        if not Path(owner.path).samefile(source.path):
            raise KnowledgeBaseError(_clash(source, owner.path))


def _clash(source: FileSource, held: str) -> str:
    depth = len(PurePosixPath(source.document_id or "").parts)
    folders = source.path.resolve().parents
    return (
        f"{source.name} would replace {held}: both are document {source.document_id!r}. Index "
        f"{folders[min(depth, len(folders)) - 1]}, so that its document gets a longer name, or "
        "remove the other file first."
    )


def gone_records(
    path: str | os.PathLike[str], given: Iterable[str | Path], sources: Iterable[object]
) -> list[str]:
    """Return the source ids from files below `given` that are gone, or no longer have them."""
    if (manifest := Manifest.published(open_place(path))) is None:
        return []
    roots = [Path(root).expanduser().resolve() for root in given]
    read = [source for source in sources if isinstance(source, FileSource)]
    now, paths = {(path_of(source), source.fingerprint) for source in read}, set(map(path_of, read))
    gone = [
        number
        for number, entry in enumerate(manifest.sources)
        if entry.path is not None
        and (entry.path, entry.fingerprint) not in now
        and (entry.path in paths or not Path(entry.path).is_file())
        and any(Path(entry.path).is_relative_to(root) for root in roots)
    ]
    held = manifest.table(RECORDS).find(["source_id"], "source", gone, "NOT deleted")
    return sorted(held["source_id"].to_pylist())
