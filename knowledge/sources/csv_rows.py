"""CSV: one passage a row, in the columns of JSON lines or of a mapping."""

import csv
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import BinaryIO

from briefcontext.knowledge.sources.file_source import DAMAGED_GZIP
from briefcontext.knowledge.sources.jsonl import COLUMNS, UnusableRow, row_document, without_text
from briefcontext.knowledge.sources.records import Entry, Reject

DELIMITERS = ",;\t"


def read_csv(stream: BinaryIO, columns: Mapping[str, tuple[str, ...]] = COLUMNS) -> Iterator[Entry]:
    """One document for each row below the first, which names the columns, and the rejects, in its order.

    Rows are read as `read_jsonl` reads its own. The delimiter is the comma, semicolon or tab that the first row has
    most of. The text is UTF-8.
    """
    rows: csv.DictReader[str] | None = None
    try:
        rows = _open(stream)
        for row in rows:
            try:
                yield row_document({name: value for name, value in row.items() if isinstance(value, str)}, columns)
            except UnusableRow as reason:
                yield Reject(f"line {rows.line_num}", str(reason))
    except (UnicodeDecodeError, csv.Error, *DAMAGED_GZIP) as error:
        yield Reject(f"after line {rows.line_num if rows else 0}", f"The rest cannot be read as CSV in UTF-8: {error}.")


def missing_column(stream: BinaryIO, columns: Mapping[str, tuple[str, ...]] = COLUMNS) -> str | None:
    """Return why the rows of a table hold no passages, by the names of its columns; None when they may."""
    try:
        return without_text(list(_open(stream).fieldnames or ()), columns)
    except (UnicodeDecodeError, csv.Error, *DAMAGED_GZIP):
        return None


def _open(stream: BinaryIO) -> "csv.DictReader[str]":
    first = stream.readline().decode("utf-8-sig")
    rest = (line.decode() for line in stream)
    return csv.DictReader(chain([first], rest), delimiter=max(DELIMITERS, key=first.count))
