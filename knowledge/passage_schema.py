"""The tables of a knowledge base's SQLite file, and what its readers see of them while a build goes on."""

INDEXED = "indexed"
"""The mark that keeps the highest number in the vector index: every passage up to it is in the index, none above."""

PUBLISHED = "published"
"""The mark that keeps the highest number that readers see; it is missing until a first build is complete."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sources (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, fingerprint TEXT NOT NULL,
    position INTEGER NOT NULL DEFAULT 0, finished INTEGER NOT NULL DEFAULT 0,
    read INTEGER NOT NULL DEFAULT 0, indexed INTEGER NOT NULL DEFAULT 0,
    updated INTEGER NOT NULL DEFAULT 0, unchanged INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT '', path TEXT
);
CREATE INDEX IF NOT EXISTS sources_by_fingerprint ON sources (fingerprint);
CREATE TABLE IF NOT EXISTS takeovers (
    source INTEGER NOT NULL REFERENCES sources, by INTEGER NOT NULL REFERENCES sources, replaced INTEGER NOT NULL,
    PRIMARY KEY (source, by, replaced)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rejects (
    source INTEGER NOT NULL REFERENCES sources, position TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    source_id TEXT PRIMARY KEY, source INTEGER NOT NULL REFERENCES sources,
    digest BLOB NOT NULL, revision TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS deletions (
    source_id TEXT PRIMARY KEY, source INTEGER NOT NULL REFERENCES sources, revision TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    source_id TEXT NOT NULL REFERENCES records DEFERRABLE INITIALLY DEFERRED,
    title TEXT NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL,
    retracted INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_of_record ON passages (source_id);
CREATE INDEX IF NOT EXISTS retracted_passages ON passages (number) WHERE retracted = 1;
CREATE TABLE IF NOT EXISTS retired_passages (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, source_id TEXT NOT NULL, title TEXT NOT NULL,
    text TEXT NOT NULL, metadata TEXT NOT NULL, retracted INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS retired_passages_by_id ON retired_passages (id);
CREATE INDEX IF NOT EXISTS retired_passages_of_record ON retired_passages (source_id);
CREATE TABLE IF NOT EXISTS vectors (
    number INTEGER PRIMARY KEY REFERENCES passages ON DELETE CASCADE, vector BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS stale_vectors (number INTEGER PRIMARY KEY);
"""
"""`takeovers` keeps which source (`by`) has records that another had before it, with other content (`replaced`) or with
the same. `retired_passages` keeps what a build that goes on has replaced or deleted, until it is complete."""

ADDED_TO_SOURCES = {"note": "TEXT NOT NULL DEFAULT ''", "path": "TEXT"}
"""Columns that files of an earlier version lack."""

PASSAGE_COLUMNS = "number, id, source_id, title, text, metadata, retracted"

_PUBLISHED = f"""
CREATE TEMP VIEW passages AS SELECT {PASSAGE_COLUMNS} FROM main.passages WHERE number <= (
    SELECT coalesce(
        (SELECT value FROM main.marks WHERE name = '{PUBLISHED}'),
        (SELECT value FROM main.marks WHERE name = '{INDEXED}')
    )
)"""


def published_view(*, retired: bool) -> str:
    """A statement that puts the passages of the last complete build in the place of the table, for one connection.

    `retired` says whether the file has that table: one that an earlier version made, and that was not updated since,
    has neither it nor the mark.
    """
    return f"{_PUBLISHED} UNION ALL SELECT {PASSAGE_COLUMNS} FROM main.retired_passages" if retired else _PUBLISHED
