"""The formats of files: how each is told, and how it is read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.sources.csv_rows import missing_column, read_csv
from briefcontext.knowledge.sources.file_source import FileSource, Read, file_errors, open_content
from briefcontext.knowledge.sources.html import read_html
from briefcontext.knowledge.sources.jsonl import missing_text, read_jsonl
from briefcontext.knowledge.sources.loaders import LOADERS, READ_BY_LOADER, load, loader_class
from briefcontext.knowledge.sources.medcpt_embeddings import PARTS, MedCPTEmbeddings, part_beside
from briefcontext.knowledge.sources.paths import FoundFile
from briefcontext.knowledge.sources.pdf import read_pdf, require_pdf
from briefcontext.knowledge.sources.plain_text import read_markdown, read_text
from briefcontext.knowledge.sources.records import Entry

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
MEDCPT_READER_VERSION = 2

BEIR_CORPUS = "corpus.jsonl"
BEIR_QUERIES = "queries.jsonl"

Columns = Mapping[str, tuple[str, ...]]

WHOLE_FILES: dict[str, Callable[[BinaryIO, str], Iterator[Entry]]] = {
    "text": read_text,
    "markdown": read_markdown,
    "html": read_html,
    "pdf": read_pdf,
}
"""Formats whose files are one document each, named by its path."""

TABLES: dict[str, tuple[Callable[..., Iterator[Entry]], Callable[..., str | None]]] = {
    "jsonl": (read_jsonl, missing_text),
    "csv": (read_csv, missing_column),
}
"""Formats whose rows are passages, in columns that may be named: how they are read, and why they hold none."""


_COMMUNITY = "langchain_community.document_loaders"


class NotASourceError(Exception):
    """A file is not read; the message is a clause without the file's name."""


def has_name_of(format: str, file: FoundFile) -> bool:
    """Return whether the file is named as files of that format are."""
    if format == "medcpt":
        return PARTS.fullmatch(file.path.name) is not None
    return _plain_name(file).endswith(ENDINGS[format])


def detect_format(file: FoundFile) -> str:
    """The format of a file, by its name, and for XML by its root element.

    Raises NotASourceError when it has none of those known.
    """
    formats = [format for format in ENDINGS if has_name_of(format, file)]
    if not formats:
        if loader := LOADERS.get(file.path.suffix.lower()):
            raise NotASourceError(f"a loader reads it: briefcontext index FILE --kb DIR --loader {_COMMUNITY}:{loader}")
        raise NotASourceError("its kind is not known")
    return formats[0] if len(formats) == 1 else _xml_format(file)


def main_file(file: FoundFile) -> FoundFile:
    """The file itself, or for a part of MedCPT's embeddings the one with the vectors.

    Raises NotASourceError for a part without vectors.
    """
    if not has_name_of("medcpt", file):
        return file
    try:
        path = part_beside(file.path, "embeds")
    except KnowledgeBaseError as error:
        raise NotASourceError(str(error).rstrip(".")) from None
    return replace(file, path=path, name=file.name.removesuffix(file.path.name) + path.name)


def open_file(file: FoundFile, format: str, columns: Columns) -> FileSource | MedCPTEmbeddings:
    """The file as a source of that format.

    Raises:
        NotASourceError: it holds nothing to index.
        MissingExtraError: the package that reads it is not installed.
        KnowledgeBaseError: it cannot be read, or what belongs to it is missing.
    """
    if format in TABLES:
        return _table(file, format, columns)
    if format == "medcpt":
        return MedCPTEmbeddings(file.path, name=file.name, version=MEDCPT_READER_VERSION)
    if format == "pdf":
        require_pdf()
    if format in WHOLE_FILES:
        return _whole_file(file, format)
    return _source(file, _xml_reader(format), format)


def _source(file: FoundFile, read: Read, format: str, *options: object, document_id: str | None = None) -> FileSource:
    return FileSource(
        file.path,
        read,
        name=file.name,
        format=format,
        reading=[READER_VERSION, *options],
        document_id=document_id,
    )


def _whole_file(file: FoundFile, format: str) -> FileSource:
    reader = WHOLE_FILES[format]

    def read(stream: BinaryIO) -> Iterator[Entry]:
        for entry in reader(stream, file.document_id):
            if format == "pdf" and isinstance(entry, Document):
                entry.metadata["url"] = file.path.resolve().as_uri()
            yield entry

    # The document's id comes from the path: the same text elsewhere is another document.
    return _source(file, read, format, file.document_id, document_id=file.document_id)


def loader_of(file: FoundFile) -> Callable[..., BaseLoader] | None:
    """The loader that reads files of this ending without being named.

    Raises:
        MissingExtraError: its package is not installed.
    """
    ending = file.path.suffix.lower()
    return loader_class(f"{_COMMUNITY}:{LOADERS[ending]}") if ending in READ_BY_LOADER else None


def open_loaded(
    file: FoundFile, loader: Callable[..., BaseLoader], arguments: Mapping[str, object] | None = None
) -> FileSource:
    """The file as a source that a document loader of LangChain reads, which is given these arguments, too."""
    more = dict(arguments or {})

    def read(_: BinaryIO) -> Iterator[Entry]:
        return load(lambda: loader(str(file.path), **more), file.document_id, source_is_the_file=True)

    named = [f"{loader.__module__}:{loader.__qualname__}", sorted(more.items())]
    return _source(file, read, "loader", named, document_id=file.document_id)


def _table(file: FoundFile, format: str, columns: Columns) -> FileSource:
    read, missing = TABLES[format]
    name = _plain_name(file)
    if file.found_by == "folder" and name == BEIR_QUERIES and _has_corpus_beside(file):
        raise NotASourceError(f"it holds the questions on the {BEIR_CORPUS} beside it")
    with file_errors(file.path), open_content(file.path) as stream:
        problem = missing(stream, columns)
    if problem:
        raise NotASourceError(f"{problem} (name the one that holds the text: --field text=COLUMN)")
    return _source(file, partial(read, columns=columns), format, sorted(columns.items()))


def _has_corpus_beside(file: FoundFile) -> bool:
    return any(file.path.with_name(name).is_file() for name in (BEIR_CORPUS, f"{BEIR_CORPUS}.gz"))


def _plain_name(file: FoundFile) -> str:
    return file.path.name.lower().removesuffix(".gz")


def _xml_reader(format: str) -> Read:
    # lxml is imported only when there is XML to read.
    if format == "pubmed":
        from briefcontext.knowledge.sources.pubmed_xml import read_pubmed_xml

        return read_pubmed_xml
    from briefcontext.knowledge.sources.jats import read_jats

    return read_jats


def _xml_format(file: FoundFile) -> str:
    from briefcontext.knowledge.sources.jats import ROOTS
    from briefcontext.knowledge.sources.pubmed_xml import RECORDS, SETS
    from briefcontext.knowledge.sources.xml_stream import root_name

    with file_errors(file.path), open_content(file.path) as stream:
        root = root_name(stream)
    if root is None:
        raise NotASourceError("it does not begin like XML")
    if root in (*SETS, *RECORDS):
        return "pubmed"
    if root in ROOTS:
        return "jats"
    raise NotASourceError(f"its root element {root} is neither PubMed's nor that of a JATS article")
