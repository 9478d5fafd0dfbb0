"""JSON Lines and CSV: a passage a row, in the columns of BEIR, MedRAG or a mapping."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedIOBase
from itertools import chain, islice
from typing import Any

from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.files import lone_surrogate
from briefcontext.knowledge.sources.publication import (
    article_url,
    is_pmid,
    normalised,
    record,
    year_in,
)
from briefcontext.knowledge.sources.source import (
    DAMAGED_GZIP,
    Entry,
    Reject,
    UnreadableError,
    rejecting,
)

SET_BY_RETRIEVAL = frozenset({"rank", "score"})
MAX_LINE_BYTES = 1 << 25
"""The rest of a file after a longer line is not read."""
SNIFFED_ROWS = 100
PLACES = ("chunk_index", "start", "end")
WORDS = ("title", "text")
NAMES = ("source_id", "kind", "year", "publication_types", "mesh", "retracted", "url", "journal")
COLUMNS: dict[str, tuple[str, ...]] = {
    "id": ("_id", "id", "pmid", "pubmed id"),
    "title": ("title",),
    "text": ("text", "content", "contents"),
    "pmid": ("pmid", "pubmed id"),
    "languages": ("languages", "language"),
    "authors": ("authors", "author"),
    **{field: (field,) for field in (*NAMES, *PLACES)},
}
"""The columns of each field, in capitals or not; the first that has a value counts."""

Columns = Mapping[str, tuple[str, ...]]
Rows = Iterable[tuple[str, dict[str, Any] | list[str] | str]]
"""Rows with their positions: values by column, the names of the columns, or a reject's reason."""


def columns_of(fields: Mapping[str, str] | None = None) -> dict[str, tuple[str, ...]]:
    """Return the columns of each field, with those of `fields`. Raises InputError for others."""
    fields = fields or {}
    for field in fields.keys() - COLUMNS:
        raise InputError(f"There is no field {field!r}: use one of {', '.join(COLUMNS)}.")
    return COLUMNS | {field: (column,) for field, column in fields.items()}


@rejecting
def read_table(
    stream: BufferedIOBase, rows: Callable[[BufferedIOBase], Rows], columns: Columns = COLUMNS
) -> Iterator[Entry]:
    """Read each row of `jsonl_rows` or `csv_rows` as a document or a reject.

    A row needs an id and a text; without a text, its title is the text and its kind `title`.
    `source_id` is its own column, else the PMID, else the id; rows of one source must follow each
    other. Other columns are metadata if they are strings, numbers or truth values.
    """
    for position, row in rows(stream):
        if not isinstance(row, list):
            try:
                yield Reject(position, row) if isinstance(row, str) else _document(row, columns)
            except UnreadableError as reason:
                yield Reject(position, str(reason))


def without_text(rows: Rows, columns: Columns) -> str | None:
    """Return the reason if the first row that can be read has no column of text."""
    try:
        known = (list(row) for _, row in islice(rows, SNIFFED_ROWS) if not isinstance(row, str))
        names = next(known, None)
    except (UnreadableError, *DAMAGED_GZIP):
        return None
    if names is None or not {*names, *map(_plain, names)}.isdisjoint(columns["text"]):
        return None
    shown = ", ".join([*map(repr, names[:6]), *["…"][: len(names) - 6 > 0]]) or "none at all"
    return f"its rows have no column {' or '.join(map(repr, columns['text']))}, but {shown}"


def jsonl_rows(stream: BufferedIOBase) -> Rows:
    """Yield the lines of JSON Lines that are not blank."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        position = f"line {number}"
        if len(line) == MAX_LINE_BYTES:
            raise UnreadableError(f"The line has {MAX_LINE_BYTES:,} bytes or more.", position)
        try:
            if text := line.decode("utf-8-sig").strip():
                # A data frame writes NaN for a missing value.
                row = json.loads(text, parse_constant=lambda _: None)
                shown = f"The line holds {text[:40]} where a JSON object is needed."
                yield position, row if isinstance(row, dict) else shown
        except UnicodeDecodeError as error:
            yield position, f"The line is not UTF-8: {error.reason} at byte {error.start}."
        except (ValueError, RecursionError) as error:
            yield position, f"The line is not JSON: {error}."


def csv_rows(stream: BufferedIOBase) -> Rows:
    """Yield the rows of CSV in UTF-8; the first line names the columns and shows the delimiter."""
    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        first = stream.readline().decode("utf-8-sig")
        lines = chain([first], (line.decode(errors="surrogateescape") for line in stream))
        rows = csv.DictReader(lines, delimiter=max(",;\t", key=first.count), strict=True)
        names = list(rows.fieldnames or ())
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableError(f"It cannot be read as CSV in UTF-8: {error}.", "line 1") from None
    if twice := {name for name in names if name and names.count(name) > 1}:
        message = f"Several columns are named {', '.join(twice)}: give each its own name."
        raise UnreadableError(message, "line 1")
    yield "line 1", names
    while True:
        position = f"line {rows.reader.line_num + 1}"
        try:
            row: dict[Any, Any] = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield position, f"Its quotes are not those of CSV: {error}."
            continue
        if any(row.pop(None, ())) or None in row.values():
            advice = "quote cells with a delimiter in them"
            yield position, f"It has not {len(names)} cells, as the first line: {advice}."
        elif lone_surrogate("".join(row.values())):
            yield position, "The line is not UTF-8."
        else:
            yield position, row


def _plain(column: str) -> str:
    return column.strip().lower()


def _digits(value: object) -> object:
    """Return the digits of a whole number, also of 12.0, as data frames write it."""
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    return f"{value:.0f}" if whole else value


def _document(row: Mapping[str, Any], columns: Columns) -> Document:
    plain = {_plain(name): value for name, value in row.items()} | dict(row)
    fields: dict[str, object] = {}
    for field, names in columns.items():
        values = (value for value in map(plain.get, names) if value is not None and value != "")
        fields[field] = next(values, None) if field in WORDS else _digits(next(values, None))
    for field in ("id", "source_id", *WORDS):
        if not isinstance(value := fields[field], str | None):
            needed = "a string" if field in WORDS else "a string or a whole number"
            raise UnreadableError(f"Its {field} is {f'{value!r:.40}'} where {needed} is needed.")
    known = normalised(fields)
    labels = {name: value for name, value in known.items() if isinstance(value, str)}
    id, title, text, kind = (labels.pop(name, "") for name in ("id", "title", "text", "kind"))
    if not id:
        raise UnreadableError(f"It has no id: {' or '.join(columns['id'])}.")
    if not text.strip():
        kind, text = "title", title
    if not text.strip():
        problem = f"It has neither a text ({' or '.join(columns['text'])}) nor a title."
        raise UnreadableError(problem)
    pmid = labels.get("pmid", "").strip()
    pmid = pmid if is_pmid(pmid) else ""
    left_out = {*chain.from_iterable(columns.values()), *COLUMNS, *SET_BY_RETRIEVAL}
    others = {
        name: value
        for name, value in row.items()
        if isinstance(value, str | int | float) and left_out.isdisjoint((name, _plain(name)))
    }
    digits = ((name, str(fields[name])) for name in PLACES)
    places = {name: int(each) for name, each in digits if each.isdecimal() and len(each) < 16}
    metadata = {**others, "end": places.get("start", 0) + len(text), **places}
    optional = {
        **labels,
        "source_id": labels.get("source_id") or pmid or id,
        "retracted": known.get("retracted"),
        "pmid": pmid,
        "url": labels.get("url") or article_url({**plain, "pmid": pmid}),
        "year": year_in(labels.get("year", "")),
    }
    kind = kind or "passage"
    return record(id, text, title=title, kind=kind, metadata=metadata, optional=optional)
