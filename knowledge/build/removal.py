"""Taking documents out of a knowledge base: by their ids, or because their files are gone."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.file_source import FileSource
from briefcontext.knowledge.sources.source import Deletion, EntrySource
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.passages import RECORDS
from briefcontext.knowledge.store.place import open_place
from briefcontext.knowledge.store.table import Table

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

__all__ = ["gone_records", "remove_records"]


def remove_records(path: str | os.PathLike[str], source_ids: Sequence[str]) -> BuildReport:
    """Take documents out of the knowledge base at `path`, by their source ids; no encoder is loaded.

    One whose file is indexed again comes back.

    Raises:
        KnowledgeBaseError: there is no base, a build of it is not complete, or one of the ids is not held; nothing is
            removed then.
    """
    place = open_place(path)
    with KnowledgeBase.open(path) as base:
        manifest = base.manifest
    if Manifest.draft(place) is not None:
        raise KnowledgeBaseError(
            f"An update of {place} is not complete: run its index command again to finish it, and remove then."
        )
    assert manifest.versions is not None
    records = Table(place.table(RECORDS), manifest.versions.records)
    held = set(records.find(["source_id"], "source_id", source_ids, "NOT deleted")["source_id"].to_pylist())
    if missing := [id for id in dict.fromkeys(source_ids) if id not in held]:
        raise KnowledgeBaseError(
            f"{place} holds no document {', '.join(map(repr, missing[:3]))}: see `briefcontext kb list {place}`."
        )
    # What a base notes of its encoder is all that is asked of one that has nothing to encode.
    return build_knowledge_base([_deletions(held, "kb remove")], path, encoder=cast("Encoder", manifest.encoder))


def _deletions(source_ids: Iterable[str], name: str) -> EntrySource:
    return EntrySource([Deletion(id) for id in sorted(source_ids)], name=name)


def gone_records(
    path: str | os.PathLike[str], folders: Iterable[str | Path], sources: Iterable[object]
) -> EntrySource | None:
    """The deletion of what a base has from files in some folders that are gone, or say something else by now.

    Args:
        path: of the base, into which the sources were just indexed.
        folders: those among them that are no folder are left out.
        sources: what lies in the folders now.

    Returns:
        A source of deletions; None where there is nothing to delete.
    """
    place = open_place(path)
    manifest = Manifest.published(place)
    roots = [Path(folder).expanduser().resolve() for folder in folders if Path(folder).expanduser().is_dir()]
    if manifest is None or manifest.versions is None:
        return None
    now = {(str(source.path.resolve()), source.fingerprint) for source in sources if isinstance(source, FileSource)}
    gone = [
        number
        for number, source in enumerate(manifest.sources)
        if source.path is not None
        and (source.path, source.fingerprint) not in now
        and any(Path(source.path).is_relative_to(root) for root in roots)
    ]
    records = Table(place.table(RECORDS), manifest.versions.records)
    held = records.find(["source_id"], "source", gone, "NOT deleted")["source_id"].to_pylist()
    return _deletions(held, "files that are gone") if held else None
