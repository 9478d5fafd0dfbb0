"""One table in Lance's format: read at one of its versions or written to, and the indexes of a table of passages."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError, needing
from briefcontext.knowledge.store.filters import LABELLED, one_of

with needing("offline", "A knowledge base needs the packages pylance and pyarrow"):
    import lance
    import pyarrow as pa
    from lance.query import MatchQuery

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

Metric = Literal["cosine", "ip"]

INDEX_CACHE_BYTES = 3 << 29
METADATA_CACHE_BYTES = 1 << 28
"""What a table keeps in memory of its indexes, and of what it knows of its files, at most."""

_VALUES = 4096
"""How many values one condition lists."""

EXACT_BELOW = 20_000
"""Passages below which a vector is compared with all of them: at 768 dimensions that takes some 16 ms."""
CODE_BITS = 3
"""Bits that the vector index keeps of each dimension."""
TRAINING_ROUNDS = 10
TRAINING_SAMPLE = 64
"""Vectors for each partition that it is trained on."""
REFINE_FACTOR = 2
"""How many times as many candidates as are wanted are compared by their whole vectors."""
EFFORT_VARIABLE = "BRIEFCONTEXT_SEARCH_EFFORT"
"""The environment variable that says how many times as much of the vector index is looked into, 1 to 100."""
EXACT_FILTERED = 5_000
"""Passages that a filter leaves, up to which a vector is compared with all of them."""
RETRAINED_AT = 4
"""How many times as many passages as when it was trained last there are when the vector index is trained anew."""

MOST_CHANGED = 0.1
"""The share of passages that came and went since indexes were merged, above which they are merged again."""
MOST_SEGMENTS = 16
"""Each update adds a segment to each index, and every search looks into all: above this many they are merged."""
FRAGMENT_ROWS = 16_384
"""Fragments of the table with fewer rows are put together when indexes are merged."""

_ALL = 10_000
_METRICS = {"cosine": "cosine", "ip": "dot"}
_TERMS: dict[str, Any] = {
    # Terms come as `tokenize` writes them, with blanks between.
    "base_tokenizer": "whitespace",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
    "with_position": False,
}
_SCALAR = dict.fromkeys(("id", "source_id", "year"), "BTREE") | dict.fromkeys(
    LABELLED, "LABEL_LIST"
)


_used_by: int | None = None
"""The process that first used Lance, of this one and those that it was forked from."""


def _refuse_after_fork() -> None:
    global _used_by
    _used_by = _used_by or os.getpid()
    if _used_by != os.getpid():
        raise KnowledgeBaseError(
            "This process was forked from one that had used a knowledge base, and would hang: "
            "start processes by the "
            'method "spawn" or "forkserver", or use no knowledge base before the fork.'
        )


class Table:
    """A table. Safe to share between threads as long as none of them writes."""

    def __init__(self, uri: str, version: int | None = None) -> None:
        """Open a table, at its latest version or at another. Raises KnowledgeBaseError where that cannot be read."""
        self.uri = uri
        with self.errors():
            self.data: Any = lance.dataset(
                uri,
                version=version,
                index_cache_size_bytes=INDEX_CACHE_BYTES,
                metadata_cache_size_bytes=METADATA_CACHE_BYTES,
            )

    @classmethod
    def create(cls, uri: str, schema: pa.Schema) -> Self:
        """Make an empty table, in the place of whatever is there."""
        _refuse_after_fork()
        lance.write_dataset(
            schema.empty_table(), uri, mode="overwrite", data_storage_version="stable"
        )
        return cls(uri)

    @classmethod
    def restore(cls, uri: str, version: int) -> Self:
        """Open a table to write to it, as it was at a version: what was written since is gone."""
        table = cls(uri, version)
        with table.errors():
            if table.data.latest_version != version:
                table.data.restore()
        return table

    @property
    def version(self) -> int:
        """The version that it is read at, which is the latest one after writing."""
        return int(self.data.version)

    def __len__(self) -> int:
        return self.count()

    def count(self, where: str | None = None) -> int:
        with self.errors():
            return int(self.data.count_rows(filter=where))

    def read(self, columns: Sequence[str], where: str | None = None, **options: Any) -> pa.Table:
        """Some columns of the rows that fulfil a condition in SQL; `options` are those of Lance's scanner."""
        with self.errors():
            return self.data.scanner(columns=list(columns), filter=where, **options).to_table()

    def pages(self, columns: Sequence[str], **options: Any) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, in order, little by little."""
        with self.errors():
            yield from self.data.scanner(
                columns=list(columns), scan_in_order=True, **options
            ).to_batches()

    def find(
        self, columns: Sequence[str], by: str, values: Iterable[object], also: str | None = None
    ) -> pa.Table:
        """Some columns of the rows that have one of the values in the column `by`."""
        found = [
            self.read(columns, f"{part} AND ({also})" if also else part)
            for part in _parts(by, values)
        ]
        return (
            pa.concat_tables(found)
            if found
            else self.data.schema.empty_table().select(list(columns))
        )

    def take(self, places: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows at some places, counted from 0."""
        with self.errors():
            return self.data.take(list(places), columns=list(columns))

    def append(self, rows: "pa.Table | list[FragmentMetadata]") -> None:
        """Add rows, or what `lance.fragment.write_fragments` has put beside the table."""
        with self._alone():
            if isinstance(rows, list):
                operation = lance.LanceOperation.Append(rows)
                self.data = lance.LanceDataset.commit(
                    self.data, operation, read_version=self.version
                )
            else:
                self.data.insert(rows)

    def upsert(self, by: str, rows: pa.Table) -> None:
        """Add rows, each in the place of the one with the same value in the column `by`."""
        with self._alone():
            merge = self.data.merge_insert(by).when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def overwrite(self, rows: pa.Table) -> None:
        """Replace all rows."""
        with self._alone():
            self.data = lance.write_dataset(rows, self.data, mode="overwrite")

    def delete(self, by: str, values: Iterable[object]) -> None:
        """Take out the rows that have one of the values in the column `by`."""
        for condition in _parts(by, values):
            with self._alone():
                self.data.delete(condition)

    def clean(self) -> None:
        """Remove from the disk what only earlier versions need, and what writers that were killed left."""
        with self.errors():
            self.data.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change, and nobody else's meanwhile: Lance would put both into the table."""
        before = self.version
        with self.errors():
            yield
        if self.version > before + 1:
            raise KnowledgeBaseError(
                f"{self.uri} is written to by another process, too: wait until it has ended."
            )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Whatever Lance raises as a KnowledgeBaseError; none of it is called where it would hang."""
        _refuse_after_fork()
        try:
            yield
        except BaseException as error:
            # Damaged files can make Lance's Rust code panic, which is no Exception in Python.
            panics = type(error).__module__ == "pyo3_runtime"
            if not (panics or isinstance(error, OSError | RuntimeError | ValueError)):
                raise
            what = str(error).split(", /", 1)[0].strip()
            raise KnowledgeBaseError(
                f"{self.uri} cannot be used ({what}): free space or permissions if that is what it "
                f"says; else run the "
                "index command again, or build the knowledge base in another folder."
            ) from error


def _parts(by: str, values: Iterable[object]) -> Iterator[str]:
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), _VALUES):
        yield one_of(by, distinct[start : start + _VALUES])


def nearest(
    vector: NDArray[np.float32], k: int, metric: Metric, rows: int, filtered: int | None = None
) -> dict[str, Any]:
    """What Lance's scanner is to be asked to find the `k` nearest of `rows` vectors: 98 of 100 of them, or more.

    `filtered`: how many of the rows a filter leaves; None: there is none.
    """
    asked: dict[str, Any] = {"column": "vector", "q": vector, "k": k, "metric": _METRICS[metric]}
    if rows < EXACT_BELOW or (filtered is not None and filtered <= EXACT_FILTERED):
        return asked | {"use_index": False}
    effort = _effort()
    probes = math.ceil(6 * math.cbrt(_partitions(rows)) * (1 if filtered is None else 2) * effort)
    refine = math.ceil(REFINE_FACTOR * effort)
    # Without a maximum Lance looks into all partitions.
    return asked | {"minimum_nprobes": probes, "maximum_nprobes": probes, "refine_factor": refine}


def _effort() -> float:
    given = os.environ.get(EFFORT_VARIABLE, "1")
    try:
        effort = float(given)
    except ValueError:
        effort = 0
    if not 1 <= effort <= 100:
        raise InputError(
            f"{EFFORT_VARIABLE} is {given!r}: set it to a number from 1 (the default) to 100."
        )
    return effort


def _partitions(rows: int) -> int:
    # As many must be looked into for a recall, however many there are (docs/benchmarks.md): more,
    # smaller ones leave less to read, and training compares with more of them.
    return round(math.pow(rows, 0.6) / 11)


def bring_up_to_date(table: Table, metric: Metric, trained: int) -> int:
    """Index all rows of a table of passages; on how many the vector index was trained.

    New rows become a segment of each index; only when many have come and gone are the segments
    merged, and what is left of deleted rows is removed.
    """
    with table.errors():
        rows, data = len(table), table.data
        try:
            check(table, metric)
        except KnowledgeBaseError:
            for index in data.describe_indices():
                data.drop_index(index.name)
        _merge_if_many_changed(table, rows)
        held = indexed(table)
        if "terms" not in held:
            data.create_scalar_index("terms", "INVERTED", **_TERMS)
        if rows < EXACT_BELOW:
            return trained
        for column, kind in _SCALAR.items():
            if column not in held:
                data.create_scalar_index(column, kind)
        if "vector" not in held or rows > RETRAINED_AT * trained:
            index_vectors(data, metric, rows)
            return rows
        return trained


def index_vectors(data: Any, metric: Metric, rows: int) -> None:
    """Train the index of so many vectors anew, and fill it."""
    data.create_index(
        "vector",
        "IVF_RQ",
        metric=_METRICS[metric],
        num_partitions=_partitions(rows),
        num_bits=CODE_BITS,
        max_iters=TRAINING_ROUNDS,
        sample_rate=TRAINING_SAMPLE,
        replace=True,
    )


def indexed(table: Table) -> dict[str, int]:
    """How many rows each index has, by its column."""
    with table.errors():
        return {
            index.field_names[0]: index.num_rows_indexed or 0
            for index in table.data.describe_indices()
        }


def index_columns(table: Table, columns: Sequence[str]) -> None:
    """Make lookups of single values in some columns quick."""
    with table.errors():
        for column in columns:
            table.data.create_scalar_index(column, "BTREE", replace=True)


def _merge_if_many_changed(table: Table, rows: int) -> None:
    data = table.data
    indexes = data.describe_indices()
    if not indexes:
        return
    fragments = {fragment.fragment_id: fragment.metadata for fragment in data.get_fragments()}
    deleted = sum(fragment.num_deletions for fragment in fragments.values())
    segments = [
        segment for index in indexes if index.name == "terms_idx" for segment in index.segments
    ]
    largest = max(
        (
            sum(fragments[id].num_rows for id in segment.fragment_ids if id in fragments)
            for segment in segments
        ),
        default=0,
    )
    merged = len(segments) >= MOST_SEGMENTS or deleted + rows - largest > MOST_CHANGED * rows
    if merged:
        data.optimize.compact_files(target_rows_per_fragment=FRAGMENT_ROWS)
    data.optimize.optimize_indices(num_indices_to_merge=_ALL if merged else 0)


def check(table: Table, metric: Metric) -> None:
    """Raise KnowledgeBaseError unless each index of a table of passages can be searched."""
    if not len(table):
        return
    if "terms" not in indexed(table):
        raise KnowledgeBaseError(f"{table.uri} has no index of terms: run the index command again.")
    table.read(["_score"], full_text_query=terms_query(["patient"]), limit=1)
    for column in ("id", "source_id"):
        table.find([column], column, [""])
    dimension = table.data.schema.field("vector").type.list_size
    table.read(
        ["_distance"], nearest=nearest(np.ones(dimension, np.float32), 1, metric, len(table))
    )


def terms_query(terms: list[str]) -> MatchQuery:
    """What Lance's scanner is to be asked to find the passages that have some of the terms."""
    return MatchQuery(" ".join(terms), "terms")
