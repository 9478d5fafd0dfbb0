"""A table in Lance's format, and the indexes of a table of passages."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

_VALUES = 4096
"""Values in one condition."""

EXACT_BELOW = 20_000
"""Passages below which a vector is compared with all: 16 ms at 768 dimensions."""
CODE_BITS = 3
"""Bits of a dimension in the vector index."""
TRAINING_ROUNDS = 10
TRAINING_SAMPLE = 64
"""Vectors for each partition."""
REFINE_FACTOR = 2
"""Candidates that are compared by their whole vectors, for each that is wanted."""
EFFORT_VARIABLE = "BRIEFCONTEXT_SEARCH_EFFORT"
"""The environment variable that multiplies the searched part of the vector index, 1 to 100."""
EXACT_FILTERED = 5_000
"""Passages that fulfil a filter, up to which a vector is compared with all of them."""
RETRAINED_AT = 4
"""Growth of a base at which the vector index is trained again."""

MOST_CHANGED = 0.1
"""Share of passages that changed since the indexes were merged, above which they are merged."""
MOST_SEGMENTS = 16
"""Segments, of which each update adds one to each index, at which they are merged."""
FRAGMENT_ROWS = 16_384
"""Rows of the fragments of a merged table."""

_ALL = 10_000
_METRICS = {"cosine": "cosine", "ip": "dot"}
_TERMS: dict[str, Any] = {
    # `tokenize` wrote the terms.
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
"""The process that first used Lance."""


def _refuse_after_fork() -> None:
    global _used_by
    _used_by = _used_by or os.getpid()
    if _used_by != os.getpid():
        raise KnowledgeBaseError(
            "This process was forked after a knowledge base was used, and would hang: start "
            'processes by the method "spawn" or "forkserver".'
        )


class Table:
    """A table. Threads may share it for reading."""

    def __init__(self, uri: str, version: int | None = None) -> None:
        """Open a table at a version, by default the latest."""
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
        """Write an empty table, which replaces another."""
        _refuse_after_fork()
        lance.write_dataset(
            schema.empty_table(), uri, mode="overwrite", data_storage_version="stable"
        )
        return cls(uri)

    @classmethod
    def restore(cls, uri: str, version: int) -> Self:
        """Open a table for writing as it was at a version: later changes are undone."""
        table = cls(uri, version)
        with table.errors():
            if table.data.latest_version != version:
                table.data.restore()
        return table

    @property
    def version(self) -> int:
        return int(self.data.version)

    def __len__(self) -> int:
        return self.count()

    def count(self, where: str | None = None) -> int:
        with self.errors():
            return int(self.data.count_rows(filter=where))

    def read(self, columns: Sequence[str], where: str | None = None, **options: Any) -> pa.Table:
        """Return columns of the rows that fulfil a condition in SQL; `options` are Lance's."""
        with self.errors():
            return self.data.scanner(columns=list(columns), filter=where, **options).to_table()

    def pages(self, columns: Sequence[str], **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield columns of all rows, in order."""
        with self.errors():
            yield from self.data.scanner(
                columns=list(columns), scan_in_order=True, **options
            ).to_batches()

    def find(
        self, columns: Sequence[str], by: str, values: Iterable[object], also: str | None = None
    ) -> pa.Table:
        """Return columns of the rows with one of the values in the column `by`."""
        results = [
            self.read(columns, f"{part} AND ({also})" if also else part)
            for part in _parts(by, values)
        ]
        return (
            pa.concat_tables(results)
            if results
            else self.data.schema.empty_table().select(list(columns))
        )

    def take(self, places: Sequence[int], columns: Sequence[str]) -> pa.Table:
        with self.errors():
            return self.data.take(list(places), columns=list(columns))

    def append(self, rows: "pa.Table | list[FragmentMetadata]") -> None:
        """Add rows, or the result of `lance.fragment.write_fragments`."""
        with self._alone():
            if isinstance(rows, list):
                operation = lance.LanceOperation.Append(rows)
                self.data = lance.LanceDataset.commit(
                    self.data, operation, read_version=self.version
                )
            else:
                self.data.insert(rows)

    def upsert(self, by: str, rows: pa.Table) -> None:
        """Add rows; each replaces the row with the same value in the column `by`."""
        with self._alone():
            merge = self.data.merge_insert(by).when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def overwrite(self, rows: pa.Table) -> None:
        with self._alone():
            self.data = lance.write_dataset(rows, self.data, mode="overwrite")

    def delete(self, by: str, values: Iterable[object]) -> None:
        """Delete the rows with one of the values in the column `by`."""
        for condition in _parts(by, values):
            with self._alone():
                self.data.delete(condition)

    def clean(self) -> None:
        """Delete earlier versions, and the files of writers that were killed."""
        with self.errors():
            self.data.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a change by another process meanwhile, which Lance would accept."""
        before = self.version
        with self.errors():
            yield
        if self.version > before + 1:
            raise KnowledgeBaseError(
                f"Another process writes to {self.uri}: wait until it has ended."
            )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise Lance's errors as KnowledgeBaseError."""
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
                f"{self.uri} cannot be used ({what}): check space and permissions, run the index "
                "command again, or build the knowledge base in another folder."
            ) from error


def _parts(by: str, values: Iterable[object]) -> Iterator[str]:
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), _VALUES):
        yield one_of(by, distinct[start : start + _VALUES])


def nearest(
    vector: NDArray[np.float32], k: int, metric: Metric, rows: int, filtered: int | None = None
) -> dict[str, Any]:
    """Return Lance's options for the `k` nearest of `rows` vectors, with a recall of 98% or more.

    `filtered` is the number of rows that fulfil a filter.
    """
    asked: dict[str, Any] = {"column": "vector", "q": vector, "k": k, "metric": _METRICS[metric]}
    if rows < EXACT_BELOW or (filtered is not None and filtered <= EXACT_FILTERED):
        return asked | {"use_index": False}
    effort = _effort()
    probes = math.ceil(6 * math.cbrt(_partitions(rows)) * (1 if filtered is None else 2) * effort)
    refine = math.ceil(REFINE_FACTOR * effort)
    # Without a maximum Lance searches all partitions.
    return asked | {"minimum_nprobes": probes, "maximum_nprobes": probes, "refine_factor": refine}


def _effort() -> float:
    value = os.environ.get(EFFORT_VARIABLE, "1")
    with suppress(ValueError):
        if 1 <= (effort := float(value)) <= 100:
            return effort
    raise InputError(f"{EFFORT_VARIABLE} is {value!r}: set it to a number from 1 to 100.")


def _partitions(rows: int) -> int:
    # Measured in docs/benchmarks.md: more partitions leave less to read, but take longer to train.
    return round(math.pow(rows, 0.6) / 11)


def bring_up_to_date(table: Table, metric: Metric, trained: int) -> int:
    """Index all passages; return the rows that the vector index was trained on.

    New rows become a segment of each index. Segments are merged when many rows have changed.
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
    """Train and fill the index of vectors."""
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
    """Return the rows of each index, by its column."""
    with table.errors():
        return {
            index.field_names[0]: index.num_rows_indexed or 0
            for index in table.data.describe_indices()
        }


def index_columns(table: Table, columns: Sequence[str]) -> None:
    """Index columns for lookups of single values."""
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
    """Return Lance's query for the passages with some of the terms."""
    return MatchQuery(" ".join(terms), "terms")
