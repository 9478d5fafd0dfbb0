"""Index policy: which indexes a table has, when they are built, and how they are kept up to date."""

import math
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from lance.query import MatchQuery
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.store.filters import LABELLED
from briefcontext.knowledge.store.table import Table

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
_SCALAR = dict.fromkeys(("id", "source_id", "year"), "BTREE") | dict.fromkeys(LABELLED, "LABEL_LIST")


def nearest(
    vector: NDArray[np.float32], k: int, metric: Literal["cosine", "ip"], rows: int, filtered: int | None = None
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
        raise InputError(f"{EFFORT_VARIABLE} is {given!r}: set it to a number from 1 (the default) to 100.")
    return effort


def _partitions(rows: int) -> int:
    # As many must be looked into for a recall, however many there are (benchmarks/README.md): more, smaller ones leave
    # less to read, and training compares with more of them.
    return round(math.pow(rows, 0.6) / 11)


def bring_up_to_date(table: Table, metric: Literal["cosine", "ip"] | None, trained: int) -> int:
    """Index all rows of a table of passages; on how many the vector index was trained.

    New rows become a segment of each index; only when many have come and gone are the segments merged, and what is
    left of deleted rows is removed. `metric`: None where vectors are searched elsewhere.
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
        if metric is not None and ("vector" not in held or rows > RETRAINED_AT * trained):
            index_vectors(data, metric, rows)
            return rows
        return trained


def index_vectors(data: Any, metric: Literal["cosine", "ip"], rows: int) -> None:
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
        return {index.field_names[0]: index.num_rows_indexed or 0 for index in table.data.describe_indices()}


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
    segments = [segment for index in indexes if index.name == "terms_idx" for segment in index.segments]
    largest = max(
        (sum(fragments[id].num_rows for id in segment.fragment_ids if id in fragments) for segment in segments),
        default=0,
    )
    merged = len(segments) >= MOST_SEGMENTS or deleted + rows - largest > MOST_CHANGED * rows
    if merged:
        data.optimize.compact_files(target_rows_per_fragment=FRAGMENT_ROWS)
    data.optimize.optimize_indices(num_indices_to_merge=_ALL if merged else 0)


def check(table: Table, metric: Literal["cosine", "ip"] | None) -> None:
    """Raise KnowledgeBaseError unless each index of a table of passages can be searched."""
    if not len(table):
        return
    if "terms" not in indexed(table):
        raise KnowledgeBaseError(f"{table.uri} has no index of terms: run the index command again.")
    table.read(["_score"], full_text_query=terms_query(["patient"]), limit=1)
    for column in ("id", "source_id"):
        table.find([column], column, [""])
    if metric is not None:
        dimension = table.data.schema.field("vector").type.list_size
        table.read(["_distance"], nearest=nearest(np.ones(dimension, np.float32), 1, metric, len(table)))


def terms_query(terms: list[str]) -> MatchQuery:
    """What Lance's scanner is to be asked to find the passages that have some of the terms."""
    return MatchQuery(" ".join(terms), "terms")
