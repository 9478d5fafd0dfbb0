"""Documents that are named by their files: which file a document came from, and that no other takes its place."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.passages import PassageStore


@runtime_checkable
class DocumentFile(Protocol):
    """A source that is one file, and one document where it has a `document_id`."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def fingerprint(self) -> str:
        """`sha256:…` of the content and the id."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def document_id(self) -> str | None:
        """The id that its place gives the document; None: its documents have ids of their own."""


def path_of(source: object) -> str | None:
    """The absolute path of a source that is a document; None for other sources."""
    if isinstance(source, DocumentFile) and source.document_id is not None:
        return str(source.path.resolve())
    return None


def replaced_files(passages: PassageStore, sources: Iterable[object]) -> dict[str, str]:
    """The files that gave documents before which other files give now, and which are gone: by the new ones' names.

    Such a file was moved, or its place was taken: who reads the report can tell.

    Raises:
        KnowledgeBaseError: a file that is still there would lose its document to another one of that name.
    """
    gone = {}
    given: dict[str, DocumentFile] = {}
    for source in sources:
        if not isinstance(source, DocumentFile) or source.document_id is None:
            continue
        other = given.setdefault(source.document_id, source)
        if other.fingerprint != source.fingerprint:
            raise KnowledgeBaseError(_clash(source, str(other.path)))
        rows = passages.rows(
            "SELECT path, fingerprint FROM records JOIN sources ON number = source"
            " WHERE source_id = ? AND path IS NOT NULL",
            (source.document_id,),
        )
        for held, fingerprint in rows:
            if fingerprint == source.fingerprint or held == path_of(source):
                continue
            if not Path(held).is_file():
                gone[source.name] = held
            elif not Path(held).samefile(source.path):
                raise KnowledgeBaseError(_clash(source, held))
    return gone


def _clash(source: DocumentFile, held: str) -> str:
    depth = len(PurePosixPath(source.document_id or "").parts)
    folders = source.path.resolve().parents
    return (
        f"{source.name} would replace {held}, another file: both are document {source.document_id!r}. Give the folder "
        f"above it, {folders[min(depth, len(folders)) - 1]}, so that its document gets a longer name; or, where it is "
        "to replace the other, remove that file first."
    )
