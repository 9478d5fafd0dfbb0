"""From paths to sources: files, folders and globs, each file read by its format."""

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Literal

from briefcontext.errors import InputError, KnowledgeBaseError, MissingExtraError
from briefcontext.files import sha256
from briefcontext.knowledge.sources.file_source import FileSource, file_errors
from briefcontext.knowledge.sources.formats import (
    ENDINGS,
    TABLES,
    FoundFile,
    NotASourceError,
    detect_format,
    has_name_of,
    open_file,
    open_loaded,
    printable,
)
from briefcontext.knowledge.sources.loaders import LOADERS, READ_BY_LOADER, loader_class
from briefcontext.knowledge.sources.medcpt_embeddings import part_beside
from briefcontext.knowledge.sources.source import WHOLE_FILE, EntrySource, Reject, Source
from briefcontext.knowledge.sources.tables import columns_of

AUTO = "auto"
FORMATS = tuple(ENDINGS)
_ADVICE = f"Known formats: {', '.join(FORMATS)}; --format names one."


class SkippedFile(EntrySource):
    """A file that lies in a folder or matches a glob, and is not read; as a source, it is one reject."""

    def __init__(self, name: str, reason: str) -> None:
        """Say why, in a clause: `its kind is not known`."""
        fingerprint = f"sha256:{sha256(json.dumps(['skipped', name, reason]))}"
        reject = Reject(WHOLE_FILE, f"It was skipped: {reason}.")
        super().__init__([reject], name=name, fingerprint=fingerprint, size=1)
        self.reason = reason


class FileSources(list[Source]):
    """Sources in the order of their paths."""

    def __init__(self) -> None:
        self.skipped: list[SkippedFile] = []
        """The files among them that are not read."""


def open_sources(
    paths: Sequence[str | Path] | str | Path,
    *,
    format: str = AUTO,
    fields: Mapping[str, str] | None = None,
    loader: str | None = None,
    loader_arguments: Mapping[str, object] | None = None,
) -> FileSources:
    """The sources that paths stand for: files, folders and globs, plain or gzipped.

    A file given twice is one source. Files in a folder, or of a glob, that cannot be a source are listed in
    `skipped`; hidden ones are not.

    Args:
        paths: files; folders, read to their depths; globs, with `**` for folders at any depth.
        format: one of `FORMATS` for all files. A folder's files are still chosen by their names. By default
            each file's name tells, and for XML its root element.
        fields: the columns of JSONL and CSV files, by field: `{"id": "doc", "text": "body"}`. Fields that are not
            named stand where they usually do: see `briefcontext.knowledge.sources.tables.COLUMNS`.
        loader: a document loader of LangChain that reads all files, as `module:Class`.
        loader_arguments: what it is given beside each file's path.

    Raises:
        InputError: the format, a field or the loader is not known, or a loader and a format are given.
        MissingExtraError: the loader's package is not installed.
        KnowledgeBaseError: a path matches nothing, a file named by itself cannot be a source, or nothing that
            a path stands for can.
    """
    if format != AUTO and format not in FORMATS:
        raise InputError(f"There is no format {format!r}: use one of {', '.join((AUTO, *FORMATS))}.")
    if loader is not None and (format != AUTO or fields):
        raise InputError(f"The loader {loader} reads all files its own way: leave out the format and the fields.")
    if loader_arguments and loader is None:
        raise InputError(f"Arguments of a loader ({', '.join(loader_arguments)}) are given, and no loader: name it.")
    columns = columns_of(fields)
    reads_all = None if loader is None else loader_class(loader)

    def open_one(file: FoundFile) -> FileSource:
        reads = reads_all
        if format == AUTO and reads is None and (ending := file.path.suffix.lower()) in READ_BY_LOADER:
            reads = loader_class(LOADERS[ending])
        if reads is not None:
            return open_loaded(file, reads, loader_arguments or {})
        if format == AUTO:
            return open_file(file, detect_format(file), columns)
        if file.found_by == "folder" and not has_name_of(format, file):
            raise NotASourceError(f"its name does not end on {' or '.join(ENDINGS[format])}")
        return open_file(file, format, columns)

    found, opened = FileSources(), dict[Path, FileSource]()
    for path in [paths] if isinstance(paths, str | Path) else paths:
        skipped = []
        for file in (files := find_files(path)):
            try:
                main = _main_file(file) if loader is None else file
                if (real := main.path.resolve()) not in opened:
                    opened[real] = open_one(main)
            except (NotASourceError, MissingExtraError) as problem:
                if file.found_by != "name":
                    skipped.append(SkippedFile(file.name, str(problem).rstrip(".")))
                elif isinstance(problem, MissingExtraError):
                    raise
                else:
                    raise KnowledgeBaseError(f"{file.name} cannot be indexed: {problem}. {_ADVICE}") from None
        if len(skipped) == len(files):
            raise KnowledgeBaseError(
                f"Nothing in {path} can be indexed; {len(files)} skipped, the first {skipped[0].name}: "
                f"{skipped[0].reason}. {_ADVICE}"
            )
        found.skipped += skipped
    found += opened.values()
    documents = dict[str, FileSource]()
    for source in opened.values():
        if source.document_id and (other := documents.setdefault(source.document_id, source)) is not source:
            raise KnowledgeBaseError(
                f"{other.name} and {source.name} would both be document {source.document_id!r}: give the folder above "
                "both."
            )
    if fields and TABLES.keys().isdisjoint(source.format for source in opened.values()):
        raise InputError(
            f"Fields ({', '.join(fields)}) were given, and none of the files is JSONL or CSV: leave them out."
        )
    return found


def _main_file(file: FoundFile) -> FoundFile:
    """The file itself, or for a part of MedCPT's embeddings the one with the vectors.

    Raises NotASourceError for a part without vectors.
    """
    if not has_name_of("medcpt", file):
        return file
    try:
        path = part_beside(file.path, "embeds")
    except KnowledgeBaseError as error:
        raise NotASourceError(str(error).rstrip(".")) from None
    return replace(file, path=path)


def find_files(given: str | Path) -> list[FoundFile]:
    """All files that `given` stands for: a file, those in a folder, or those that match a glob, sorted.

    Folders are read to their depths, and so is `**` in a glob. What is hidden, by a name that begins with a
    dot, counts only where it is named.

    Raises KnowledgeBaseError when there is none, or a folder cannot be read.
    """
    path = Path(given).expanduser()
    if path.is_file():
        return [_found(path, path.absolute().parent, "name")]
    if path.is_dir():
        files = [_found(file, path.absolute(), "folder") for file in _walk(path, {path.resolve()})]
        problem = f"The folder {given} holds no file"
    elif glob.has_magic(str(path)):
        root = Path(*takewhile(lambda part: not glob.has_magic(part), path.parts[:-1])).absolute()
        matches = map(Path, glob.glob(str(path), recursive=True))
        files = [_found(match, root, "glob") for match in sorted(matches) if match.is_file()]
        problem = f"No file matches {given}"
    else:
        raise KnowledgeBaseError(f"There is no file or folder {given}: check the path.")
    if not files:
        raise KnowledgeBaseError(f"{problem}: check the path.")
    return files


def _walk(folder: Path, above: set[Path]) -> Iterator[Path]:
    with file_errors(folder):
        children = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    for child in children:
        if child.is_file():
            yield child
        # A link to a folder above would be followed for ever.
        elif child.is_dir() and (real := child.resolve()) not in above:
            yield from _walk(child, above | {real})


def _found(path: Path, root: Path, found_by: Literal["name", "glob", "folder"]) -> FoundFile:
    root = Path(os.path.normpath(root))
    place = PurePath(root.name, Path(os.path.normpath(path.absolute())).relative_to(root))
    return FoundFile(path, printable(place).replace(os.sep, "/"), found_by)
