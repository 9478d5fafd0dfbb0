"""The formats of files: how each is told, and how it is read."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from pathlib import Path, PurePath
from typing import Literal

from langchain_core.document_loaders import BaseLoader

from briefcontext.knowledge.sources.file_source import FileSource, open_content
from briefcontext.knowledge.sources.jats import ROOTS, read_jats
from briefcontext.knowledge.sources.loaders import LOADERS, load
from briefcontext.knowledge.sources.medcpt_embeddings import PARTS, MedCPTEmbeddings
from briefcontext.knowledge.sources.pdf import read_pdf, require_pdf
from briefcontext.knowledge.sources.pubmed_xml import RECORDS, SETS, read_pubmed_xml
from briefcontext.knowledge.sources.source import Entry
from briefcontext.knowledge.sources.tables import Columns, csv_rows, jsonl_rows, read_table, without_text
from briefcontext.knowledge.sources.texts import read_html, read_markdown, read_text
from briefcontext.knowledge.sources.xml_stream import root_name

ENDINGS: dict[str, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv"),
    "pubmed": (".xml",),
    "jats": (".nxml", ".xml"),
    "text": (".txt", ".text"),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm"),
    "pdf": (".pdf",),
    "medcpt": (".npy", ".json"),
}
"""The formats, and how the names of their files end, before a `.gz`."""

READER_VERSION = 5
"""Goes up when a reader makes other entries of the same file, so that files are read again."""

WHOLE_FILES: dict[str, Callable[..., Iterator[Entry]]] = {
    "text": read_text,
    "markdown": read_markdown,
    "html": read_html,
    "pdf": read_pdf,
}
"""Formats whose files are one document each, named by its path."""
TABLES = {"jsonl": jsonl_rows, "csv": csv_rows}
"""Formats whose rows are passages, in columns that may be named."""
COLLECTIONS = {"pubmed": read_pubmed_xml, "jats": read_jats}
"""Formats of articles with ids of their own."""

BEIR_CORPUS = "corpus.jsonl"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of those that a path stands for."""

    path: Path
    document_id: str
    """`guidelines/asthma.md`: its place from the folder that was given, that folder's name included.

    For a file named by itself it is the place from the folder that holds it.
    """
    found_by: Literal["name", "glob", "folder"]

    @property
    def name(self) -> str:
        """The path as it was given, and for what lies in a folder, the way from there."""
        return printable(self.path)

    @property
    def plain_name(self) -> str:
        """How it is called, in small letters and without a `.gz`."""
        return self.path.name.lower().removesuffix(".gz")


def printable(path: PurePath) -> str:
    """The path with what is no UTF-8 in it replaced, so that it can be stored."""
    return os.fsencode(path).decode("utf-8", "replace")


class NotASourceError(Exception):
    """A file is not read; the message is a clause without the file's name."""


def has_name_of(format: str, file: FoundFile) -> bool:
    """Return whether the file is named as files of that format are."""
    if format == "medcpt":
        return PARTS.fullmatch(file.path.name) is not None
    return file.plain_name.endswith(ENDINGS[format])


def detect_format(file: FoundFile) -> str:
    """The format of a file, by its name, and for XML by its root element.

    Raises NotASourceError when it has none of those known.
    """
    formats = [format for format in ENDINGS if has_name_of(format, file)]
    if len(formats) == 1:
        return formats[0]
    if not formats:
        if loader := LOADERS.get(file.path.suffix.lower()):
            raise NotASourceError(f"a loader reads it: briefcontext index FILE --kb DIR --loader {loader}")
        raise NotASourceError("its kind is not known")
    with open_content(file.path) as (stream, _):
        root = root_name(stream)
    if root is None:
        raise NotASourceError("it does not begin like XML")
    if root in (*SETS, *RECORDS):
        return "pubmed"
    if root in ROOTS:
        return "jats"
    raise NotASourceError(f"its root element {root} is neither PubMed's nor that of a JATS article")


def open_file(file: FoundFile, format: str, columns: Columns) -> FileSource:
    """The file as a source of that format.

    Raises:
        NotASourceError: it holds nothing to index.
        MissingExtraError: the package that reads it is not installed.
        KnowledgeBaseError: it cannot be read, or what belongs to it is missing.
    """
    if format == "medcpt":
        return MedCPTEmbeddings(file.path, name=file.name)
    # The document's id comes from the path: the same text elsewhere is another document.
    document_id = file.document_id if format in WHOLE_FILES else None
    options = []
    if format in TABLES:
        _check_table(file, format, columns)
        read: Callable[..., Iterator[Entry]] = partial(read_table, rows=TABLES[format], columns=columns)
        options = [sorted(columns.items())]
    elif format == "pdf":
        require_pdf()
        read = partial(read_pdf, url=file.path.resolve().as_uri())
    else:
        read = (COLLECTIONS | WHOLE_FILES)[format]
    return FileSource(
        file.path, read, name=file.name, format=format, reading=[READER_VERSION, *options], document_id=document_id
    )


def open_loaded(file: FoundFile, loader: Callable[..., BaseLoader], arguments: Mapping[str, object]) -> FileSource:
    """The file as a source that a document loader of LangChain reads, which is given these arguments, too."""

    def read(_: BufferedIOBase, document_id: str) -> Iterator[Entry]:
        return load(lambda: loader(str(file.path), **arguments), document_id, source_is_the_file=True)

    reading = [READER_VERSION, [f"{loader.__module__}:{loader.__qualname__}", sorted(arguments.items())]]
    return FileSource(file.path, read, name=file.name, format="loader", reading=reading, document_id=file.document_id)


def _check_table(file: FoundFile, format: str, columns: Columns) -> None:
    """Raise NotASourceError where a table holds something else than passages: a list of files, or of questions."""
    corpus = [file.path.with_name(name) for name in (BEIR_CORPUS, f"{BEIR_CORPUS}.gz")]
    if file.found_by == "folder" and file.plain_name == "queries.jsonl" and any(path.is_file() for path in corpus):
        raise NotASourceError(f"it holds the questions on the {BEIR_CORPUS} beside it")
    with open_content(file.path) as (stream, _):
        problem = without_text(TABLES[format](stream), columns)
    if problem:
        raise NotASourceError(f"{problem} (name the one that holds the text: --field text=COLUMN)")
