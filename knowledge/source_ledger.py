"""What a knowledge base has read of each source, and what it left out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from briefcontext.knowledge.manifest import Counts, IndexedSource
from briefcontext.knowledge.passages import PassageStore

_COUNTS = tuple(Counts.model_fields)
_COLUMNS = f"number, name, fingerprint, position, finished, {', '.join(_COUNTS)}"


@dataclass(frozen=True, slots=True)
class RegisteredSource:
    """How far a source has been read."""

    number: int
    name: str
    fingerprint: str
    position: int
    """How many of its entries are dealt with."""
    finished: bool
    counts: Counts

    def listed(self) -> IndexedSource:
        """As the manifest lists it."""
        return IndexedSource(name=self.name, fingerprint=self.fingerprint, finished=self.finished, counts=self.counts)


class SourceLedger:
    """The sources and rejects in a knowledge base's SQLite file."""

    def __init__(self, passages: PassageStore) -> None:
        self._passages = passages

    def sources(self) -> list[RegisteredSource]:
        """Every source that was ever given, in order."""
        rows = self._passages.rows(f"SELECT {_COLUMNS} FROM sources ORDER BY number")
        return [_registered(row) for row in rows]

    def register(self, name: str, fingerprint: str) -> RegisteredSource:
        """The entry of a source: the one of the same content, or a new one when there is none."""
        rows = self._passages.rows(
            f"SELECT {_COLUMNS} FROM sources WHERE fingerprint = ? AND fingerprint <> ''", (fingerprint,)
        ) or self._passages.rows(
            f"INSERT INTO sources (name, fingerprint) VALUES (?, ?) RETURNING {_COLUMNS}", (name, fingerprint)
        )
        return _registered(rows[0])

    def advance(self, source: int, position: int | None, counts: Counts, *, finished: bool) -> None:
        """Note the new position of a source (None: it has not moved), and what became of the records up to there."""
        sums = ", ".join(f"{name} = {name} + ?" for name in _COUNTS)
        self._passages.rows(
            f"UPDATE sources SET position = coalesce(?, position), finished = ?, {sums} WHERE number = ?",
            (position, finished, *(getattr(counts, name) for name in _COUNTS), source),
        )

    def unfinished(self) -> list[str]:
        """Names of the sources that were left off, and not read to the end under the same name since."""
        rows = self._passages.rows(
            "SELECT DISTINCT name FROM sources AS left_off WHERE finished = 0 AND NOT EXISTS (SELECT 1 FROM sources"
            " WHERE name = left_off.name AND finished = 1 AND number > left_off.number) ORDER BY number"
        )
        return [name for (name,) in rows]

    def reject(self, source: int, position: str, reason: str) -> None:
        """Note that a record of a source was left out."""
        self._passages.rows("INSERT INTO rejects VALUES (?, ?, ?)", (source, position, reason))

    def rejects(self, page: int = 1000) -> Iterator[tuple[str, str, str]]:
        """Source name, position and reason of every record that was left out, in order, read a page at a time."""
        after = 0
        while rows := self._passages.rows(
            "SELECT rejects.rowid, name, rejects.position, reason FROM rejects JOIN sources ON number = source"
            " WHERE rejects.rowid > ? ORDER BY rejects.rowid LIMIT ?",
            (after, page),
        ):
            yield from (row[1:] for row in rows)
            after = rows[-1][0]


def _registered(row: tuple[Any, ...]) -> RegisteredSource:
    number, name, fingerprint, position, finished, *counts = row
    return RegisteredSource(
        number,
        name,
        fingerprint,
        position,
        bool(finished),
        Counts(**dict(zip(_COUNTS, counts, strict=True))),
    )
