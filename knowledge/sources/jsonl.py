"""JSON Lines: one passage a line, in the columns of BEIR, of MedRAG, of our own, or of a mapping."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.knowledge.sources.file_source import DAMAGED_GZIP
from briefcontext.knowledge.sources.publication import RETRACTED_TYPE, article_url, is_pmid, year_in
from briefcontext.knowledge.sources.records import Entry, Reject

COLUMNS: dict[str, tuple[str, ...]] = {
    "id": ("_id", "id", "pmid", "PMID"),
    "title": ("title",),
    "text": ("text", "content", "contents"),
    "source_id": ("source_id",),
    "pmid": ("pmid", "PMID"),
    "kind": ("kind",),
    "year": ("year",),
    "publication_types": ("publication_types",),
    "mesh": ("mesh",),
    "languages": ("languages", "language"),
    "authors": ("authors", "author"),
    "retracted": ("retracted",),
    "url": ("url",),
    "journal": ("journal",),
    "chunk_index": ("chunk_index",),
    "start": ("start",),
    "end": ("end",),
}
"""Where each field is looked for: the first of the columns that has a value."""

TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

SET_BY_RETRIEVAL = frozenset({"rank", "score"})

MAX_LINE_BYTES = 1 << 25
"""A longer line is no passage, and would not fit into bounded memory."""

SNIFFED_BYTES = 1 << 20


class UnusableRow(ValueError):
    """A row is rejected."""


def columns_of(fields: Mapping[str, str] | None = None) -> dict[str, tuple[str, ...]]:
    """The columns of each field, where `fields` maps a field to the one column that holds it.

    Raises InputError for a field that is not known.
    """
    fields = fields or {}
    for field, column in fields.items():
        if field not in COLUMNS:
            raise InputError(f"There is no field {field!r} (mapped to {column!r}): use one of {', '.join(COLUMNS)}.")
    return COLUMNS | {field: (column,) for field, column in fields.items()}


def read_jsonl(stream: BinaryIO, columns: Mapping[str, tuple[str, ...]] = COLUMNS) -> Iterator[Entry]:
    """One document for each line of an uncompressed JSONL stream, and the rejects, in its order.

    A row needs an id (a string or a whole number), and a text or a title; a row with a title only has it as
    its text, and the kind `title`. The text stays as it is, character for character. `source_id` is its own
    column, else the PMID, else the id; rows of one source must follow each other. `url` is its own column,
    else the page in PubMed of a row that names a PMID. `publication_types`, `mesh`, `languages` and `authors` are
    lists, or strings with semicolons; `retracted` is a truth value, else whether the types say so, and missing
    without either.

    Other columns are kept as metadata where they are strings, numbers or truth values; lists, objects, nulls
    and NaN are not, nor `rank` and `score`, which retrieval sets. Blank lines do not count as records.
    """
    number = 0
    try:
        for line in _lines(stream):
            number += 1
            position = f"line {number}"
            if isinstance(line, Reject):
                yield Reject(position, line.reason)
            elif line.strip():
                try:
                    yield row_document(_row(line), columns)
                except UnusableRow as reason:
                    yield Reject(position, str(reason))
    except DAMAGED_GZIP as error:
        yield Reject(f"after line {number}", f"The compressed data is damaged: {error}")


def missing_text(stream: BinaryIO, columns: Mapping[str, tuple[str, ...]] = COLUMNS) -> str | None:
    """Return why the rows of a stream hold no passages, judged by the first of them; None when they may.

    A table without a column of text is something else, a list of files or of questions.
    """
    read = 0
    try:
        for line in _lines(stream):
            if isinstance(line, bytes) and line.strip():
                read += len(line)
                try:
                    row = _row(line)
                except UnusableRow:
                    if read > SNIFFED_BYTES:
                        return None
                    continue
                return without_text(list(row), columns)
    except DAMAGED_GZIP:
        return None
    return None


def without_text(names: list[str], columns: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return why rows with these columns hold no passages; None when they may."""
    if any(column in names for column in columns["text"]):
        return None
    return f"its rows have no column {' or '.join(map(repr, columns['text']))}, but {_some(names)}"


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:6]))
    return f"{shown}, …" if len(names) > 6 else shown or "none at all"


def _lines(stream: BinaryIO) -> Iterator[bytes | Reject]:
    first = True
    while line := stream.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (line := stream.readline(SNIFFED_BYTES)) and not line.endswith(b"\n"):
                pass
            yield Reject("", f"The line is longer than {MAX_LINE_BYTES:,} bytes.")
        else:
            yield line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False


def _row(line: bytes) -> dict[str, Any]:
    try:
        # A data frame writes NaN where a value is missing.
        row = json.loads(line.decode(), parse_constant=lambda _: None)
    except UnicodeDecodeError as error:
        raise UnusableRow(f"The line is not UTF-8: {error.reason} at byte {error.start}.") from None
    except (ValueError, RecursionError) as error:
        raise UnusableRow(f"The line is not JSON: {error}.") from None
    if not isinstance(row, dict):
        raise UnusableRow(f"The line holds a JSON {_json_type(row)} where an object is needed.")
    return row


def row_document(row: dict[str, Any], columns: Mapping[str, tuple[str, ...]]) -> Document:
    """The document of a row, as `read_jsonl` says.

    Raises UnusableRow when it has no id or no words, or a value of another kind than its column needs.
    """
    id = _id(row, columns["id"])
    title = _string(row, columns["title"])
    text = _string(row, columns["text"])
    kind = _label(row, columns["kind"]) or "passage"
    if not text.strip():
        text, kind = title, "title"
    if not text.strip():
        raise UnusableRow(f"It has neither a text ({' or '.join(columns['text'])}) nor a title.")
    pmid = _pmid(row, columns["pmid"])
    start = _place(row, columns["start"], 0)
    used = {column for field in columns.values() for column in field}
    left_out = used | COLUMNS.keys() | SET_BY_RETRIEVAL
    metadata: dict[str, str | int | float | bool] = {
        **{name: value for name, value in row.items() if name not in left_out and isinstance(value, str | int | float)},
        "source_id": _string(row, columns["source_id"], number=True) or pmid or id,
        "title": title,
        "kind": kind,
        "chunk_index": _place(row, columns["chunk_index"], 0),
        "start": start,
        "end": _place(row, columns["end"], start + len(text)),
    }
    if pmid:
        metadata["pmid"] = pmid
    if url := _label(row, columns["url"]) or (article_url({**row, "pmid": pmid})):
        metadata["url"] = url
    if journal := _label(row, columns["journal"]):
        metadata["journal"] = journal
    if year := year_in(_label(row, columns["year"])):
        metadata["year"] = year
    types = _types(row, columns["publication_types"])
    if types is not None:
        metadata["publication_types"] = "; ".join(types)
    for field in ("mesh", "languages", "authors"):
        if listed := _list(row, columns[field]):
            metadata[field] = listed
    retracted = _truth(row, columns["retracted"])
    if retracted is None and types is not None:
        retracted = RETRACTED_TYPE in types
    if retracted is not None:
        metadata["retracted"] = retracted
    return Document(id=id, page_content=text, metadata=metadata)


def _value(row: dict[str, Any], columns: tuple[str, ...]) -> tuple[str, Any]:
    """The first column with a value, and the value; None when no column has one."""
    for column in columns:
        if (value := row.get(column)) is not None and value != "":
            return column, value
    return columns[0], None


def _id(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    id = _string(row, columns, number=True)
    if not id:
        raise UnusableRow(f"It has no id: {' or '.join(columns)}.")
    return id


def _string(row: dict[str, Any], columns: tuple[str, ...], *, number: bool = False) -> str:
    """A string, "" when there is none; of a whole number its digits where `number` allows them."""
    column, value = _value(row, columns)
    if value is None:
        return ""
    if number and _is_whole(value):
        return str(int(value))
    if not isinstance(value, str):
        wanted = "a string or a whole number" if number else "a string"
        raise UnusableRow(f"Its {column} is a JSON {_json_type(value)} where {wanted} is needed.")
    return value


def _label(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """A string that may be missing: a value of another kind is none."""
    _, value = _value(row, columns)
    return str(int(value)) if _is_whole(value) else value if isinstance(value, str) else ""


def _pmid(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """The PMID, "" when there is none: ids of another form stand in such a column, too."""
    pmid = _label(row, columns).strip()
    return pmid if is_pmid(pmid) else ""


def _types(row: dict[str, Any], columns: tuple[str, ...]) -> list[str] | None:
    column, value = _value(row, columns)
    if value is None:
        return None
    types = value.split(";") if isinstance(value, str) else value
    if not isinstance(types, list) or not all(isinstance(one, str) for one in types):
        raise UnusableRow(f"Its {column} is a JSON {_json_type(value)} where a string or a list of strings is needed.")
    return [one.strip() for one in types if one.strip()]


def _list(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """A list of strings as one, with semicolons; values of another kind are none."""
    _, value = _value(row, columns)
    parts = value.split(";") if isinstance(value, str) else value if isinstance(value, list) else []
    return "; ".join(part.strip() for part in parts if isinstance(part, str) and part.strip())


def _truth(row: dict[str, Any], columns: tuple[str, ...]) -> bool | None:
    column, value = _value(row, columns)
    if value is None:
        return None
    word = str(int(value)) if _is_whole(value) else str(value).strip().lower()
    if word not in TRUTHS:
        raise UnusableRow(f"Its {column} is {value!r} where true or false is needed.")
    return TRUTHS[word]


def _place(row: dict[str, Any], columns: tuple[str, ...], default: int) -> int:
    _, value = _value(row, columns)
    return int(value) if _is_whole(value) and value >= 0 else default


def _is_whole(value: object) -> bool:
    """Return whether it is a whole number, also written as 12.0: data frames turn a column with gaps into floats."""
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
