"""Sources of files, folders and globs; each file is read by its format."""

import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from importlib.util import find_spec
from io import BufferedIOBase
from itertools import takewhile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from briefcontext.errors import InputError, KnowledgeBaseError, MissingExtraError, installing
from briefcontext.files import lone_surrogate, sha256
from briefcontext.knowledge.sources.exports import is_medline, read_medline, read_ris
from briefcontext.knowledge.sources.jats import ROOTS, read_jats
from briefcontext.knowledge.sources.limited import LimitedFile, ReadLimits
from briefcontext.knowledge.sources.loaders import LOADERS, load, loader_class
from briefcontext.knowledge.sources.medcpt_embeddings import PARTS, MedCPTEmbeddings, part_beside
from briefcontext.knowledge.sources.office import read_office
from briefcontext.knowledge.sources.pandoc import read_document
from briefcontext.knowledge.sources.pdf import read_pdf
from briefcontext.knowledge.sources.pubmed_xml import RECORDS, SETS, read_pubmed_xml
from briefcontext.knowledge.sources.source import (
    DAMAGED_GZIP,
    WHOLE_FILE,
    Entry,
    EntrySource,
    FileSource,
    Reject,
    Source,
    UnreadableError,
    file_errors,
    open_content,
)
from briefcontext.knowledge.sources.tables import (
    Columns,
    columns_of,
    csv_rows,
    jsonl_rows,
    read_table,
    without_text,
)
from briefcontext.knowledge.sources.texts import read_text
from briefcontext.knowledge.sources.web_page import read_html, read_markdown
from briefcontext.knowledge.sources.xml_stream import root_name

if TYPE_CHECKING:
    from langchain_core.document_loaders import BaseLoader

READER_VERSION = 19
"""Goes up if files are read otherwise, so that they are read again."""

ENDINGS: dict[str, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv"),
    "pubmed": (".xml",),
    "jats": (".nxml", ".xml"),
    "medline": (".nbib", ".txt"),
    "ris": (".ris",),
    "text": (".txt", ".text"),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm"),
    "pdf": (".pdf",),
    "docx": (".docx",),
    "epub": (".epub",),
    "latex": (".tex", ".latex"),
    "odt": (".odt",),
    "pptx": (".pptx",),
    "rtf": (".rtf",),
    "medcpt": (".npy", ".json"),
}
WHOLE_FILES: dict[str, Callable[..., Iterator[Entry]]] = {
    "text": read_text,
    "markdown": read_markdown,
    "html": read_html,
    "pdf": read_pdf,
    **{format: partial(read_office, format=format) for format in ("docx", "pptx")},
    **{format: partial(read_document, format=format) for format in ("epub", "latex", "odt", "rtf")},
}
NEEDED = {"pdf": "pypdfium2", **dict.fromkeys(WHOLE_FILES.keys() - {"text", "pdf"}, "pypandoc")}
TABLES = {"jsonl": jsonl_rows, "csv": csv_rows}
COLLECTIONS: dict[str, Callable[..., Iterator[Entry]]] = {
    "pubmed": read_pubmed_xml,
    "jats": read_jats,
    "medline": read_medline,
    "ris": read_ris,
}

AUTO = "auto"
DEFAULT_LIMITS = ReadLimits()
_ADVICE = f"Known formats: {', '.join(ENDINGS)}; index --format names one."


class SkippedFile(EntrySource):
    """A file in a folder or of a glob that is not read: as a source, one reject."""

    def __init__(self, name: str, reason: str) -> None:
        fingerprint = f"sha256:{sha256(json.dumps(['skipped', name, reason]))}"
        reject = Reject(WHOLE_FILE, f"It was skipped: {reason}.")
        super().__init__([reject], name=name, fingerprint=fingerprint, size=1)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One of the files of a path."""

    path: Path
    document_id: str
    """The path from the folder that was named, with its name: `guidelines/asthma.md`."""
    found_by: Literal["name", "glob", "folder"]

    @property
    def name(self) -> str:
        return _printable(self.path)

    def is_named_as(self, format: str) -> bool:
        if format == "medcpt":
            return PARTS.fullmatch(self.path.name) is not None
        return self.path.name.lower().removesuffix(".gz").endswith(ENDINGS[format])


def open_sources(
    paths: Sequence[str | Path] | str | Path,
    *,
    format: str = AUTO,
    fields: Mapping[str, str] | None = None,
    loader: str | None = None,
    loader_arguments: Mapping[str, object] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> list[Source]:
    """Open the sources of files, folders and globs, plain or gzipped.

    A file that is named twice is one source. Files in a folder or of a glob that cannot be read
    come last, each as a `SkippedFile`, except hidden files.

    Args:
        paths: files, folders, or globs, with `**` for folders at any depth.
        format: one of `ENDINGS` for all files; by default, it follows from a file's name, and from
            the root element of XML.
        fields: the columns of JSONL and CSV files by field, `{"id": "doc", "text": "body"}`.
        loader: a document loader of LangChain that reads all files, as `module:Class`.
        loader_arguments: arguments for the loader after the path.
        limits: the time and memory for reading a file; one beyond them is a reject. Loaders and
            arrays of vectors are read without.

    Raises:
        InputError: the format, a field or the loader is unknown, or does not go with another.
        MissingExtraError: the loader's package is not installed.
        KnowledgeBaseError: a path matches nothing, or none of its files can be a source.
    """
    if format not in (AUTO, *ENDINGS):
        known = ", ".join((AUTO, *ENDINGS))
        raise InputError(f"There is no format {format!r}: use one of {known}.")
    if loader is not None and (format != AUTO or fields):
        raise InputError("A loader reads all files: leave out the format and the fields.")
    if loader_arguments and loader is None:
        raise InputError("Arguments of a loader are given, and no loader: name it.")
    columns = columns_of(fields)
    reads_all = None if loader is None else loader_class(loader)

    def open_one(file: FoundFile) -> FileSource:
        if reads_all is not None:
            return _open_loaded(file, reads_all, loader_arguments or {})
        if file.found_by == "folder" and format != AUTO and not file.is_named_as(format):
            raise UnreadableError(f"its name does not end on {' or '.join(ENDINGS[format])}")
        return _open_read(
            file, _detected_format(file) if format == AUTO else format, columns, limits
        )

    opened, left_out = dict[Path, FileSource](), list[SkippedFile]()
    for path in [paths] if isinstance(paths, str | Path) else paths:
        skipped = []
        files = _find_files(path)
        for file in files:
            try:
                if loader is None and file.is_named_as("medcpt"):
                    file = replace(file, path=part_beside(file.path, "embeds"))
                real = file.path.resolve()
                if lone_surrogate(f"{file.path}{real}"):
                    raise UnreadableError("its path is not UTF-8; rename it")
                if real not in opened:
                    opened[real] = open_one(file)
            except UnreadableError as problem:
                if file.found_by == "name":
                    message = f"{file.name} cannot be indexed: {problem}. {_ADVICE}"
                    raise KnowledgeBaseError(message) from None
                skipped.append(SkippedFile(file.name, str(problem).rstrip(".")))
        if len(skipped) == len(files):
            raise KnowledgeBaseError(
                f"Nothing in {_printable(Path(path))} can be indexed; {len(files)} skipped, the "
                f"first {skipped[0].name}: {skipped[0].reason}. {_ADVICE}"
            )
        left_out += skipped
    if fields and TABLES.keys().isdisjoint(source.reading[0] for source in opened.values()):
        raise InputError(f"No file is JSONL or CSV: leave out the fields ({', '.join(fields)}).")
    return [*opened.values(), *left_out]


def _detected_format(file: FoundFile) -> str:
    formats = [format for format in ENDINGS if file.is_named_as(format)]
    if len(formats) == 1:
        return formats[0]
    if not formats:
        loader = LOADERS.get(file.path.suffix.lower())
        hint = f"a loader reads it: briefcontext index FILE --kb DIR --loader {loader}"
        raise UnreadableError(hint if loader else "its kind is not known")
    with open_content(file.path) as (stream, _):
        if "medline" in formats:
            start = b""
            with suppress(*DAMAGED_GZIP):
                start = stream.read1(1024)
            return "medline" if is_medline(start) else "text"
        root = root_name(stream)
    if root is None:
        raise UnreadableError("it does not begin like XML")
    if root not in (*SETS, *RECORDS, *ROOTS):
        raise UnreadableError(f"its root element {root} is neither PubMed's nor JATS")
    return "jats" if root in ROOTS else "pubmed"


def _open_read(file: FoundFile, format: str, columns: Columns, limits: ReadLimits) -> FileSource:
    if format == "medcpt":
        return MedCPTEmbeddings(file.path, name=file.name)
    read: Callable[..., Iterator[Entry]]
    options: list[object] = []
    if format in TABLES:
        _check_table(file, format, columns)
        read = partial(read_table, rows=TABLES[format], columns=columns)
        options = [sorted(columns.items())]
    else:
        if (package := NEEDED.get(format)) and find_spec(package) is None:
            advice = installing("documents")
            raise MissingExtraError(f"{file.name} needs the package {package}: {advice}.")
        read = (COLLECTIONS | WHOLE_FILES)[format]
        if format == "pdf":
            read = partial(read, url=file.path.resolve().as_uri())
    if limits != DEFAULT_LIMITS:  # A file that was beyond them is read again.
        options.append(list(astuple(limits)))
    reading = [format, READER_VERSION, *options]
    id = file.document_id if format in WHOLE_FILES else None
    name = file.name
    return LimitedFile(file.path, read, name=name, reading=reading, document_id=id, limits=limits)


def _open_loaded(
    file: FoundFile, loader: "Callable[..., BaseLoader]", arguments: Mapping[str, object]
) -> FileSource:
    def read(_: BufferedIOBase, document_id: str) -> Iterator[Entry]:
        make = partial(loader, str(file.path), **arguments)
        return load(make, document_id, source_is_the_file=True)

    named = f"{loader.__module__}:{loader.__qualname__}"
    reading = ["loader", READER_VERSION, [named, sorted(arguments.items())]]
    id = file.document_id
    return FileSource(file.path, read, name=file.name, reading=reading, document_id=id)


def _check_table(file: FoundFile, format: str, columns: Columns) -> None:
    """Raise UnreadableError for a table without passages, such as a list of questions."""
    is_queries = file.path.name.lower().removesuffix(".gz") == "queries.jsonl"
    if file.found_by == "folder" and is_queries:
        raise UnreadableError("it holds questions, by its name")
    with open_content(file.path) as (stream, _):
        problem = without_text(TABLES[format](stream), columns)
    if problem:
        raise UnreadableError(f"{problem} (name the one of the text: index --field text=COLUMN)")


def _find_files(given: str | Path) -> list[FoundFile]:
    """Return the files of a path, sorted. Raises KnowledgeBaseError if there is none."""
    path = Path(given).expanduser()
    files, problem = list[FoundFile](), f"There is no file or folder {given}"
    if path.is_file():
        files = [_found(path, path.absolute().parent, "name")]
    elif path.is_dir():
        files = [_found(file, path.absolute(), "folder") for file in _walk(path, {path.resolve()})]
        problem = f"The folder {given} holds no file"
    elif glob.has_magic(str(path)):
        root = Path(*takewhile(lambda part: not glob.has_magic(part), path.parts[:-1])).absolute()
        matches = map(Path, sorted(glob.glob(str(path), recursive=True)))
        files = [_found(match, root, "glob") for match in matches if match.is_file()]
        problem = f"No file matches {given}"
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
    return FoundFile(path, _printable(place).replace(os.sep, "/"), found_by)


def _printable(path: PurePath) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
