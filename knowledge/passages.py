"""The passages of a knowledge base, with their vectors, in SQLite: the truth that its indexes are made from."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.passage_schema import ADDED_TO_SOURCES, PASSAGE_COLUMNS, PUBLISHED, SCHEMA, published_view

PASSAGES_FILE = "passages.sqlite"

# SQLite takes 32,766 parameters a statement, and took 999 before version 3.32.
_PARAMETERS = 900


@dataclass(frozen=True, slots=True)
class EncodablePassage:
    """What is encoded of a passage, and its vector."""

    number: int
    title: str
    text: str
    vector: NDArray[np.float32] | None
    """(d,); None: it is to be encoded."""


class PassageStore:
    """The SQLite file of a knowledge base.

    One connection behind a lock: safe to share between threads. Passages are numbered in the order in which they
    were added, and no number is used again: a passage that replaces another has a number of its own.

    Who opens it to read sees the passages of the last build that is complete, also while the next one goes on or when
    it was stopped: passages come in, and those replaced or deleted go, when it is `publish`ed.
    """

    def __init__(self, folder: Path, *, writable: bool = False) -> None:
        """Open the file in the folder; where it is `writable`, make it if need be."""
        self.path = folder / PASSAGES_FILE
        self._lock = threading.RLock()
        with self._checked():
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={'rwc' if writable else 'ro'}",
                uri=True,
                timeout=60,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            if writable:
                self._prepare()
            else:
                self._show_published()
            self.rows("SELECT number FROM passages LIMIT 1")
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        # A vector of 768 numbers takes 3 kB: pages of 16 kB hold five where those of 4 kB hold one.
        self.rows("PRAGMA page_size = 16384")
        self.rows("PRAGMA journal_mode = WAL")
        self.rows("PRAGMA foreign_keys = ON")
        with self.transaction():
            for statement in SCHEMA.split(";"):
                self.rows(statement)
            held = {name for _, name, *_ in self.rows("PRAGMA table_info(sources)")}
            for name, type in ADDED_TO_SOURCES.items():
                if name not in held:
                    self.rows(f"ALTER TABLE sources ADD COLUMN {name} {type}")

    def _show_published(self) -> None:
        self.rows("PRAGMA temp_store = MEMORY")
        retired = self.rows("SELECT 1 FROM sqlite_master WHERE name = 'retired_passages'")
        self.rows(published_view(retired=bool(retired)))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise KnowledgeBaseError(
                f"{self.path} cannot be used ({error}): free space or permissions if that is what it says, else "
                "restore the file, or build the knowledge base in another folder."
            ) from error

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """All that is read inside is read from one state of the file."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self.rows("BEGIN")
            try:
                yield
            finally:
                self._connection.rollback()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is written, or nothing of it."""
        with self._lock:
            self.rows("BEGIN IMMEDIATE")
            try:
                yield
                self.rows("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; all rows of its result.

        Raises KnowledgeBaseError when the file cannot be read or written, sqlite3.IntegrityError where a constraint
        is hurt.
        """
        with self._lock, self._checked():
            return self._connection.execute(statement, parameters).fetchall()

    def value(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None when there is no row."""
        rows = self.rows(statement, parameters)
        return rows[0][0] if rows else None

    def mark(self, name: str) -> int:
        """The number kept under a name; 0 when there is none."""
        return self.marks(name)[0]

    def marks(self, *names: str) -> tuple[int, ...]:
        """The numbers kept under several names, from one state of the file."""
        kept = dict(self.rows("SELECT name, value FROM marks"))
        return tuple(int(kept.get(name, 0)) for name in names)

    def set_mark(self, name: str, value: int) -> None:
        self.rows("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))

    def is_published(self) -> bool:
        """Whether a build was ever completed."""
        return bool(self.rows("SELECT 1 FROM marks WHERE name = ?", (PUBLISHED,)))

    def publish(self) -> None:
        """Show the passages as they are now to who reads them, inside the caller's transaction."""
        self.rows("DELETE FROM retired_passages")
        self.set_mark(PUBLISHED, self.last_number())

    def fetch(self, ids: Sequence[str]) -> dict[str, Document]:
        """The passages held under these ids."""
        return {str(document.id): document for document in self._fetch("id", ids).values()}

    def fetch_numbers(self, numbers: Sequence[int]) -> dict[int, Document]:
        """The passages held under these numbers."""
        return self._fetch("number", numbers)

    def of_source(self, source_id: str) -> list[Document]:
        """The passages of a record, in the order added."""
        rows = self.rows(f"{_SELECT} WHERE source_id = ? ORDER BY number", (source_id,))
        return [_document(*row[1:]) for row in rows]

    def _fetch(self, column: str, keys: Sequence[Any]) -> dict[int, Document]:
        found: dict[int, Document] = {}
        with self._snapshot():
            for start in range(0, len(keys), _PARAMETERS):
                some = keys[start : start + _PARAMETERS]
                rows = self.rows(f"{_SELECT} WHERE {column} IN ({', '.join('?' * len(some))})", some)
                found.update((row[0], _document(*row[1:])) for row in rows)
        return found

    def all(self, page: int = 2000) -> Iterator[Document]:
        """Every passage in the order added, read a page at a time."""
        after = 0
        while rows := self.rows(f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?", (after, page)):
            yield from (_document(*row[1:]) for row in rows)
            after = rows[-1][0]

    def last_number(self) -> int:
        """The number of the passage added last, also when it is gone."""
        return int(self.value("SELECT seq FROM sqlite_sequence WHERE name = 'passages'") or 0)

    def add(self, source_id: str, document: Document, vector: NDArray[np.float32] | None) -> None:
        """Add a passage with its vector, or to be encoded.

        Raises sqlite3.IntegrityError when another passage has its id.
        """
        metadata = {
            name: value
            for name, value in document.metadata.items()
            if name not in ("source_id", "title") and value is not None
        }
        number = self.value(
            "INSERT INTO passages (id, source_id, title, text, metadata, retracted) VALUES (?, ?, ?, ?, ?, ?)"
            " RETURNING number",
            (
                document.id,
                source_id,
                document.metadata.get("title") or "",
                document.page_content,
                json.dumps(metadata, ensure_ascii=False, separators=(",", ":")),
                bool(metadata.get("retracted", False)),
            ),
        )
        if vector is not None:
            self.rows("INSERT INTO vectors VALUES (?, ?)", (number, vector.tobytes()))

    def remove(self, source_id: str) -> None:
        """Take out all passages of a record; their vectors are then to be taken out of the index."""
        # Also of those that the index lacks: their vectors may be on the way to it at this moment.
        self.rows("INSERT INTO stale_vectors SELECT number FROM passages WHERE source_id = ?", (source_id,))
        self.rows(
            f"INSERT INTO retired_passages SELECT {PASSAGE_COLUMNS} FROM passages WHERE source_id = ?"
            " AND number <= (SELECT value FROM marks WHERE name = ?)",
            (source_id, PUBLISHED),
        )
        self.rows("DELETE FROM passages WHERE source_id = ?", (source_id,))

    def following(self, after: int, limit: int) -> list[EncodablePassage]:
        """The first passages numbered above `after`, in order, those included that are not published."""
        rows = self.rows(
            "SELECT all_passages.number, title, text, vector FROM main.passages AS all_passages"
            " LEFT JOIN vectors USING (number) WHERE all_passages.number > ? ORDER BY all_passages.number LIMIT ?",
            (after, limit),
        )
        return [
            EncodablePassage(number, title, text, None if blob is None else np.frombuffer(blob, np.float32))
            for number, title, text, blob in rows
        ]

    def sample(self, size: int) -> list[EncodablePassage]:
        """Up to `size` passages, spread evenly."""
        last = self.last_number()
        steps = (last * step // size for step in range(size))
        found = (passage for step in steps for passage in self.following(step, 1))
        return list({passage.number: passage for passage in found}.values())

    def store_vectors(self, numbers: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors (n, d) of passages; those of passages gone meanwhile are dropped."""
        with self.transaction():
            for number, vector in zip(numbers, vectors, strict=True):
                self.rows(
                    "INSERT INTO vectors SELECT number, ? FROM passages WHERE number = ?", (vector.tobytes(), number)
                )

    def stale(self) -> list[int]:
        """Numbers of passages that are gone and whose vectors the index may still have."""
        return [number for (number,) in self.rows("SELECT number FROM stale_vectors ORDER BY number")]


_SELECT = "SELECT number, id, source_id, title, text, metadata FROM passages"


def _document(id: str, source_id: str, title: str, text: str, metadata: str) -> Document:
    return Document(id=id, page_content=text, metadata={"source_id": source_id, "title": title, **json.loads(metadata)})
