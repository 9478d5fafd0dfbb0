"""JSON Lines and CSV: one passage a row, in the columns of BEIR, of MedRAG, of our own, or of a mapping."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedIOBase
from itertools import chain, islice
from typing import Any

from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.knowledge.sources.publication import article_url, is_pmid, normalised, record, year_in
from briefcontext.knowledge.sources.source import DAMAGED_GZIP, Entry, Reject, UnreadableError, rejecting

SET_BY_RETRIEVAL = frozenset({"rank", "score"})

MAX_LINE_BYTES = 1 << 25
"""A longer line is no passage, and would not fit into bounded memory."""
SNIFFED_ROWS = 100
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
"""What stands for bytes that could not be decoded."""

Columns = Mapping[str, tuple[str, ...]]
Rows = Iterable[tuple[str, dict[str, Any] | list[str] | str]]
"""Rows of a table, each with its position: by columns, the names of the columns, or why it cannot be read."""


def _digits(value: object) -> object:
    """The digits of a whole number, also of one written as 12.0: data frames turn a column with gaps into floats."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if whole and not isinstance(value, bool) else value  # type: ignore[call-overload]


_PLACES = ("chunk_index", "start", "end")
_FIELDS = (
    *("id", "title", "text", "source_id", "pmid", "kind", "year", "publication_types", "mesh", "languages", "authors"),
    *("retracted", "url", "journal", *_PLACES),
)
_PLACE = re.compile("[0-9]{1,15}")

COLUMNS: dict[str, tuple[str, ...]] = {
    **{field: (field,) for field in _FIELDS},
    "id": ("_id", "id", "pmid", "pubmed id"),
    "pmid": ("pmid", "pubmed id"),
    "text": ("text", "content", "contents"),
    "languages": ("languages", "language"),
    "authors": ("authors", "author"),
}
"""Where each field is looked for: the first of the columns that has a value, in capitals or not."""


def columns_of(fields: Mapping[str, str] | None = None) -> dict[str, tuple[str, ...]]:
    """The columns of each field; `fields` maps some to the one column that holds them. Raises InputError for others."""
    fields = fields or {}
    for field, column in fields.items():
        if field not in COLUMNS:
            raise InputError(f"There is no field {field!r} (mapped to {column!r}): use one of {', '.join(COLUMNS)}.")
    return COLUMNS | {field: (column,) for field, column in fields.items()}


@rejecting
def read_table(
    stream: BufferedIOBase, rows: Callable[[BufferedIOBase], Rows], columns: Columns = COLUMNS
) -> Iterator[Entry]:
    """One document for each row of an uncompressed table, and the rejects, in its order.

    A row needs an id (a string or a whole number), and a text, which stays as it is, or a title, which is the text of
    a row without one; its kind is `title` then. `source_id` is its own column, else the PMID, else the id; rows of one
    source must follow each other. `url` is its own column, else the page of the PMID. Lists of names, and whether the
    article is retracted, are read as `normalised` says; other fields of another type are as good as missing.

    Other columns are kept as metadata where they are strings, numbers or truth values, but not `rank` and `score`,
    which retrieval sets.

    `rows` takes the table apart: `jsonl_rows`, `csv_rows`. `columns` says where each field is looked for.
    """
    for position, row in rows(stream):
        if isinstance(row, list):
            continue
        try:
            yield Reject(position, row) if isinstance(row, str) else _document(row, columns)
        except UnreadableError as reason:
            yield Reject(position, str(reason))


def without_text(rows: Rows, columns: Columns) -> str | None:
    """Return why rows hold no passages, judged by the first that can be read: without a text; None when they may."""
    try:
        names = next((list(row) for _, row in islice(rows, SNIFFED_ROWS) if not isinstance(row, str)), None)
    except (UnreadableError, *DAMAGED_GZIP):
        return None
    if names is None or not {*names, *map(_plain, names)}.isdisjoint(columns["text"]):
        return None
    shown = ", ".join([*map(repr, names[:6]), *(["…"] if len(names) > 6 else [])])
    return f"its rows have no column {' or '.join(map(repr, columns['text']))}, but {shown or 'none at all'}"


def jsonl_rows(stream: BufferedIOBase) -> Rows:
    """The lines of JSON Lines; blank ones do not count."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        row: dict[str, Any] | str
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (line := stream.readline(MAX_LINE_BYTES)) and not line.endswith(b"\n"):
                pass
            row = f"The line is longer than {MAX_LINE_BYTES:,} bytes."
        else:
            try:
                if not (text := line.decode("utf-8-sig")).strip():
                    continue
                # A data frame writes NaN where a value is missing.
                row = json.loads(text, parse_constant=lambda _: None)
                if not isinstance(row, dict):
                    row = f"The line holds {text.strip()[:40]} where a JSON object is needed."
            except UnicodeDecodeError as error:
                row = f"The line is not UTF-8: {error.reason} at byte {error.start}."
            except (ValueError, RecursionError) as error:
                row = f"The line is not JSON: {error}."
        yield f"line {number}", row


def csv_rows(stream: BufferedIOBase) -> Rows:
    """The rows of CSV in UTF-8 below the first, which names the columns; it has most of the delimiter: , ; or tab."""
    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        first = stream.readline().decode("utf-8-sig")
        lines = chain([first], (line.decode(errors="surrogateescape") for line in stream))
        rows = csv.DictReader(lines, delimiter=max(",;\t", key=first.count), strict=True)
        names = list(rows.fieldnames or ())
        if twice := [name for name, count in Counter(filter(None, names)).items() if count > 1]:
            raise UnreadableError(f"Several columns are named {', '.join(twice)}: give each its own name.", "line 1")
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableError(f"It cannot be read as CSV in UTF-8: {error}.", "line 1") from None
    yield "line 1", names
    while True:
        position = f"line {rows.reader.line_num + 1}"
        try:
            row: dict[Any, Any] = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield position, f"Its quotes are not those of CSV, up to line {rows.reader.line_num}: {error}."
            continue
        told = ""
        if any(row.pop(None, ())):
            told = f"It has more cells than the first line, {len(names)}: quote those with a delimiter in them."
        elif None in row.values():
            told = f"It has fewer cells than the first line, {len(names)}: it may be cut off."
        elif _NOT_UTF_8.search("".join(filter(None, row.values()))):
            told = "The line is not UTF-8."
        yield f"line {rows.line_num}", told or row


def _plain(column: str) -> str:
    return column.strip().lower()


def _document(row: dict[str, Any], columns: Columns) -> Document:
    given, row = row, {_plain(name): value for name, value in row.items()} | row
    held = {name for name, value in row.items() if value is not None and value != ""}
    found = {field: column for field, names in columns.items() for column in reversed(names) if column in held}
    words = ("title", "text")
    fields = {field: row[column] if field in words else _digits(row[column]) for field, column in found.items()}
    for field in ("id", "source_id", *words):
        if not isinstance(value := fields.get(field, ""), str):
            shown, needed = repr(value)[:40], "a string" if field in words else "a string or a whole number"
            raise UnreadableError(f"Its {found[field]} is {shown} where {needed} is needed.")
    known = normalised(fields)
    labels = {name: value for name, value in known.items() if isinstance(value, str)}
    id, title, text, kind = (labels.pop(name, "") for name in ("id", "title", "text", "kind"))
    if not id:
        raise UnreadableError(f"It has no id: {' or '.join(columns['id'])}.")
    if not text.strip():
        kind, text = "title", title
    if not text.strip():
        raise UnreadableError(f"It has neither a text ({' or '.join(columns['text'])}) nor a title.")
    pmid = labels.get("pmid", "").strip()
    pmid = pmid if is_pmid(pmid) else ""
    left_out = {*chain.from_iterable(columns.values()), *COLUMNS, *SET_BY_RETRIEVAL}
    others = {name: value for name, value in given.items() if left_out.isdisjoint((name, _plain(name)))}
    places = {name: int(value) for name in _PLACES if _PLACE.fullmatch(value := str(fields.get(name)))}
    metadata = {
        **{name: value for name, value in others.items() if isinstance(value, str | int | float)},
        "end": places.get("start", 0) + len(text),
        **places,
    }
    optional = {
        **labels,
        "source_id": labels.get("source_id") or pmid or id,
        "retracted": known.get("retracted"),
        "pmid": pmid,
        "url": labels.get("url") or article_url({**row, "pmid": pmid}),
        "year": year_in(labels.get("year", "")),
    }
    return record(id, text, title=title, kind=kind or "passage", metadata=metadata, optional=optional)
