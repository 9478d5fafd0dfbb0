"""Bookkeeping of document files: which file a document came from, so that no other takes its place."""

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.file_source import FileSource
from briefcontext.knowledge.store.manifest import IndexedSource
from briefcontext.knowledge.store.table import Table


def path_of(source: object) -> str | None:
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
        if owner.path is None or owner.fingerprint == source.fingerprint or owner.path == path_of(source):
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
