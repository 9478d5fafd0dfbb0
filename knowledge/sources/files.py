"""From paths to sources: files, folders and globs, each file read by its format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from briefcontext.errors import InputError, KnowledgeBaseError, MissingExtraError
from briefcontext.knowledge.sources.file_source import fingerprint
from briefcontext.knowledge.sources.formats import (
    ENDINGS,
    TABLES,
    WHOLE_FILES,
    Columns,
    NotASourceError,
    detect_format,
    has_name_of,
    loader_of,
    main_file,
    open_file,
    open_loaded,
)
from briefcontext.knowledge.sources.jsonl import columns_of
from briefcontext.knowledge.sources.loaders import loader_class
from briefcontext.knowledge.sources.paths import FoundFile, find_files
from briefcontext.knowledge.sources.plain_text import WHOLE_FILE
from briefcontext.knowledge.sources.records import Reject
from briefcontext.knowledge.sources.source import Source, SourceEntry

AUTO = "auto"
FORMATS = tuple(ENDINGS)


@dataclass(slots=True)
class SkippedFile:
    """A file that lies in a folder or matches a glob, and is not read; as a source, it is one reject."""

    name: str
    reason: str
    """A clause: `its kind is not known`."""
    size: int = 1
    consumed: int = 0

    @property
    def fingerprint(self) -> str:
        """Of the file's name and the reason."""
        return fingerprint([], ["skipped", self.name, self.reason])

    def entries(self) -> Iterator[SourceEntry]:
        """Why it is not read."""
        self.consumed = 1
        yield Reject(WHOLE_FILE, f"It was skipped: {self.reason}.")


class FileSources(list[Source]):
    """Sources in the order of their paths."""

    skipped: list[SkippedFile]
    """The files among them that are not read."""

    def __init__(self) -> None:
        self.skipped = []


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
            named stand where they usually do: see `briefcontext.knowledge.sources.jsonl.COLUMNS`.
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
    opening = _Opening(format, columns_of(fields), loader, loader_arguments)
    for path in [paths] if isinstance(paths, str | Path) else paths:
        opening.add(path)
    if fields and TABLES.keys().isdisjoint(opening.formats):
        raise InputError(
            f"Fields ({', '.join(fields)}) were given, and none of the files is JSONL or CSV: leave them out."
        )
    return opening.sources


class _Opening:
    def __init__(
        self, format: str, columns: Columns, loader: str | None, arguments: Mapping[str, object] | None
    ) -> None:
        self.sources = FileSources()
        self.formats: set[str] = set()
        self._format = format
        self._columns = columns
        self._arguments = arguments
        self._loader = None if loader is None else loader_class(loader)
        self._seen: set[Path] = set()
        self._documents: dict[str, str] = {}

    def add(self, path: str | Path) -> None:
        files = find_files(path)
        skipped: list[SkippedFile] = []
        for file in files:
            try:
                self._add_file(main_file(file) if self._loader is None else file)
            except (NotASourceError, MissingExtraError) as problem:
                if file.found_by != "name":
                    skipped.append(SkippedFile(file.name, str(problem).rstrip(".")))
                elif isinstance(problem, MissingExtraError):
                    raise
                else:
                    raise KnowledgeBaseError(f"{file.name} cannot be indexed: {problem}. {_advice()}") from None
        if len(skipped) == len(files):
            raise KnowledgeBaseError(
                f"Nothing in {path} can be indexed; {len(files)} skipped, the first {skipped[0].name}: "
                f"{skipped[0].reason}. {_advice()}"
            )
        self.sources.skipped.extend(skipped)

    def _add_file(self, file: FoundFile) -> None:
        real = file.path.resolve()
        if real in self._seen:
            return
        format = self._format
        if loader := self._loader or (loader_of(file) if format == AUTO else None):
            self._seen.add(real)
            self.sources.append(open_loaded(file, loader, self._arguments))
            return
        if format == AUTO:
            format = detect_format(file)
        elif file.found_by == "folder" and not has_name_of(format, file):
            raise NotASourceError(f"its name does not end on {' or '.join(ENDINGS[format])}")
        source = open_file(file, format, self._columns)
        if format in WHOLE_FILES:
            other = self._documents.setdefault(file.document_id, file.name)
            if other != file.name:
                raise KnowledgeBaseError(
                    f"{other} and {file.name} would both be document {file.document_id!r}: give the folder above both."
                )
        self._seen.add(real)
        self.formats.add(format)
        self.sources.append(source)


def _advice() -> str:
    return f"Known formats: {', '.join(FORMATS)}; --format names one."
