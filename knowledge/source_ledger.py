"""What a knowledge base has read of each source, and what it left out."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from briefcontext.knowledge.document_files import path_of
from briefcontext.knowledge.manifest import Counts, IndexedSource
from briefcontext.knowledge.passages import PassageStore
from briefcontext.knowledge.sources.source import Source

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


class SourceLedger:
    """The sources and rejects in a knowledge base's SQLite file."""

    def __init__(self, passages: PassageStore) -> None:
        self._passages = passages

    def sources(self) -> list[RegisteredSource]:
        """Every source that was ever given, in order."""
        rows = self._passages.rows(f"SELECT {_COLUMNS} FROM sources ORDER BY number")
        return [_registered(row) for row in rows]

    def register(self, source: Source) -> RegisteredSource:
        """The entry of a source: the latest one of the same content, or a new one when there is none."""
        row = self._latest(source.fingerprint)
        if row is None:
            return self.add(source)
        if (path := path_of(source)) is not None and not self._is_there(row):
            self._passages.rows("UPDATE sources SET path = ? WHERE number = ?", (path, row.number))
        return row

    def _is_there(self, row: RegisteredSource) -> bool:
        path = self._passages.value("SELECT path FROM sources WHERE number = ?", (row.number,))
        return path is not None and Path(path).is_file()

    def add(self, source: Source) -> RegisteredSource:
        """A new entry for a source, which is to be read from its beginning."""
        note = getattr(source, "note", "")
        (row,) = self._passages.rows(
            f"INSERT INTO sources (name, fingerprint, note, path) VALUES (?, ?, ?, ?) RETURNING {_COLUMNS}",
            (source.name, source.fingerprint, note, path_of(source)),
        )
        return _registered(row)

    def current(self, row: RegisteredSource) -> RegisteredSource:
        """What became of an entry by now, or the latest one of the same content."""
        if (latest := self._latest(row.fingerprint)) is not None:
            return latest
        (found,) = self._passages.rows(f"SELECT {_COLUMNS} FROM sources WHERE number = ?", (row.number,))
        return _registered(found)

    def counts(self, row: RegisteredSource) -> Counts:
        """What became of the records of an entry by now."""
        names = ", ".join(_COUNTS)
        (found,) = self._passages.rows(f"SELECT {names} FROM sources WHERE number = ?", (row.number,))
        return Counts(**dict(zip(_COUNTS, found, strict=True)))

    def _latest(self, fingerprint: str) -> RegisteredSource | None:
        rows = self._passages.rows(
            f"SELECT {_COLUMNS} FROM sources WHERE fingerprint = ? AND fingerprint <> '' ORDER BY number DESC LIMIT 1",
            (fingerprint,),
        )
        return _registered(rows[0]) if rows else None

    def listed(self) -> list[IndexedSource]:
        """Every source as the manifest lists it, in order; with its note where the base still has records from it."""
        notes = dict(
            self._passages.rows(
                "SELECT number, note FROM sources WHERE note <> ''"
                " AND number IN (SELECT source FROM records GROUP BY source)"
            )
            if self._passages.rows("SELECT 1 FROM sources WHERE note <> '' LIMIT 1")
            else []
        )
        return [
            IndexedSource(
                name=row.name,
                fingerprint=row.fingerprint,
                finished=row.finished,
                counts=row.counts,
                note=notes.get(row.number, ""),
            )
            for row in self.sources()
        ]

    def take_over(self, source: int, by: int, *, replaced: bool) -> None:
        """Note that a source has a record now that another had before it.

        `replaced` says that the other's would come back if that were read again.
        """
        if source != by:
            self._passages.rows("INSERT OR IGNORE INTO takeovers VALUES (?, ?, ?)", (source, by, replaced))

    def displaced_by(self, row: RegisteredSource) -> set[str]:
        """Fingerprints of the sources that replaced or deleted records of a source, or of those it shares records with.

        What a source shares with others, and who of them had which record, is not kept: more may be listed, and none
        is left out.
        """
        rows = self._passages.rows(
            "WITH RECURSIVE sharing (number) AS (VALUES (?) UNION"
            " SELECT by FROM takeovers JOIN sharing ON source = sharing.number WHERE replaced = 0)"
            " SELECT DISTINCT fingerprint FROM takeovers JOIN sharing ON source = sharing.number"
            " JOIN sources ON sources.number = by WHERE replaced = 1",
            (row.number,),
        )
        return {fingerprint for (fingerprint,) in rows}

    def is_read_again(self, source: int) -> bool:
        """Whether a source of the same content was read to its end before."""
        rows = self._passages.rows(
            "SELECT 1 FROM sources JOIN sources AS earlier USING (fingerprint) WHERE sources.number = ?"
            " AND fingerprint <> '' AND earlier.number < sources.number AND earlier.finished = 1 LIMIT 1",
            (source,),
        )
        return bool(rows)

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
