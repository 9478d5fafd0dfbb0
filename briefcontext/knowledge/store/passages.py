"""Passages as rows of a table: searched, read and verified."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.knowledge.encoders.encoder import title_and_text, title_of, titled_text
from briefcontext.knowledge.sources.publication import normalised, year_in
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.filters import LABELLED, Filters, labels_of
from briefcontext.knowledge.store.manifest import PASSAGES, RECORDS, TERMS, Manifest
from briefcontext.knowledge.store.table import Table, check, indexed, nearest, terms_query
from briefcontext.knowledge.store.terms import TermStatistics, tokenize

with needing("offline", "A knowledge base needs the packages pylance and pyarrow"):
    import pyarrow as pa

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

DOCUMENT_COLUMNS = ("id", "source_id", "title", "text", "metadata")
_SCORED_COLUMNS = (*DOCUMENT_COLUMNS, "vector")
MORE = 16
"""Candidates beyond the best `k`, whose order may change with exact scores."""

SAMPLE = 32
"""Passages whose vectors are verified."""
LEAST_LIKENESS = 0.99
"""Cosine similarity of a stored vector and a new one; half precision and other devices lower it."""
REMEDY = "run the index command again"

_Candidates = Callable[[int], tuple[pa.Table, NDArray[np.float64], bool]]


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to be added."""

    place: int
    """In the record, from 0."""
    source_id: str
    document: Document
    vector: NDArray[np.float32] | None
    """(d,); None if it must be encoded."""


def passage_schema(dimension: int) -> pa.Schema:
    """Return the columns of the table."""
    texts, numbers = pa.string(), pa.int32()
    return pa.schema(
        {
            "id": texts,
            "place": numbers,
            "source_id": texts,
            "title": texts,
            "text": texts,
            "metadata": texts,
            "terms": texts,
            "length": numbers,
            "vector": pa.list_(pa.float16(), dimension),
            "kind": texts,
            "retracted": pa.bool_(),
            "year": numbers,
            **dict.fromkeys(LABELLED, pa.list_(texts)),
        }
    )


def passage_rows(passages: Sequence[NewPassage], vectors: NDArray[np.float32]) -> pa.Table:
    """Return passages with their vectors (n, d) as rows of the table."""
    schema = passage_schema(vectors.shape[1])
    place = schema.get_field_index("vector")
    halves = pa.array(vectors.astype(np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(halves, vectors.shape[1])
    rows = pa.Table.from_pylist([_row(passage) for passage in passages], schema.remove(place))
    return rows.add_column(place, schema.field(place), column)


def documents(rows: pa.Table) -> list[Document]:
    """Return the documents of rows with the `DOCUMENT_COLUMNS`."""
    columns = (rows[name].to_pylist() for name in DOCUMENT_COLUMNS)
    return [
        Document(
            id=id,
            page_content=text,
            metadata={"source_id": source_id, "title": title, **json.loads(metadata)},
        )
        for id, source_id, title, text, metadata in zip(*columns, strict=True)
    ]


def stored_vectors(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    """Return a column of vectors as (n, d) float32."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values: NDArray[np.float16] = whole.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(whole), whole.type.list_size).astype(np.float32)


def terms_of(document: Document) -> list[str]:
    """Return the BM25 terms of a passage and its title."""
    return tokenize(titled_text(*title_and_text(document)))


def _row(passage: NewPassage) -> dict[str, Any]:
    document = passage.document
    known = normalised(document.metadata)
    metadata = {name: value for name, value in known.items() if name not in ("source_id", "title")}
    terms = terms_of(document)
    return {
        "id": document.id,
        "place": passage.place,
        "source_id": passage.source_id,
        "title": title_of(document),
        "text": document.page_content,
        "metadata": json.dumps(metadata, ensure_ascii=False, separators=(",", ":")),
        "terms": " ".join(terms),
        "length": len(terms),
        "kind": str(metadata.get("kind", "")),
        "retracted": bool(metadata.get("retracted", False)),
        "year": year_in(str(known.get("year", ""))),
        **labels_of(document, known),
    }


class Snapshot:
    """The passages of one state. Safe to share between threads."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.table = manifest.table(PASSAGES)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        return {
            str(document.id): document
            for document in documents(self.table.find(DOCUMENT_COLUMNS, "id", ids))
        }

    def sources(self, source_ids: Sequence[str]) -> dict[str, list[Document]]:
        rows = self.table.find([*DOCUMENT_COLUMNS, "place"], "source_id", source_ids)
        passages: dict[str, list[Document]] = {}
        for document in documents(rows.sort_by("place")):
            passages.setdefault(document.metadata["source_id"], []).append(document)
        return passages

    def search(self, vector: NDArray[np.float32], k: int, filters: Filters) -> list[Document]:
        where = filters.where()
        filtered = None if where is None else self.table.count(where)
        most = len(self.table) if filtered is None else filtered

        def candidates(asked: int) -> tuple[pa.Table, NDArray[np.float64], bool]:
            wanted = min(asked, most)
            result = self._nearest(vector, wanted, where, filtered)
            if len(result) < wanted:
                # The others are in partitions that were not searched.
                result = self._nearest(vector, wanted, where, 0)
            everything = wanted == most
            return result, self._similarities(result, vector), everything

        return _best(candidates, k) if most else []

    def _nearest(
        self, vector: NDArray[np.float32], k: int, where: str | None, filtered: int | None
    ) -> pa.Table:
        options = nearest(vector, k, self.manifest.encoder.metric, len(self.table), filtered)
        return self.table.read(
            [*_SCORED_COLUMNS, "_distance"], where, prefilter=True, nearest=options
        )

    def _similarities(self, rows: pa.Table, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        held, query = stored_vectors(rows["vector"]).astype(np.float64), vector.astype(np.float64)
        scores: NDArray[np.float64] = held @ query
        if self.manifest.encoder.metric == "cosine":
            # Half precision makes vectors a little longer or shorter.
            lengths = np.linalg.norm(held, axis=1) * np.linalg.norm(query)
            scores = scores / np.where(lengths > 0, lengths, 1)
        return scores.astype(np.float32).astype(np.float64)

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        terms = tokenize(query)
        where = filters.where()

        def candidates(asked: int) -> tuple[pa.Table, NDArray[np.float64], bool]:
            result = self.table.read(
                [*DOCUMENT_COLUMNS, "_score"],
                where,
                prefilter=True,
                full_text_query=terms_query(terms),
                limit=asked,
            )
            return result, result["_score"].to_numpy().astype(np.float64), len(result) < asked

        return _best(candidates, k) if terms else []

    @cached_property
    def term_statistics(self) -> TermStatistics:
        counts = self.manifest.table(TERMS)

        def document_frequency(term: str) -> int:
            return sum(counts.find(["passages"], "term", [term])["passages"].to_pylist())

        return TermStatistics(self.manifest.texts, self.manifest.terms, document_frequency)


def _best(candidates: _Candidates, k: int) -> list[Document]:
    """Return the best `k` candidates; equal scores are in the order of ids.

    More candidates are read while one that was not found might be among the best.
    """
    asked = k + MORE
    while True:
        result, scores, everything = candidates(asked)
        ids = result["id"].to_pylist()
        order = sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place]))
        if everything or (len(order) > k and scores[order[-1]] < scores[order[k - 1]]):
            break
        asked *= 2
    best = documents(result.take(pa.array(order[:k], pa.int64())))
    for rank, (document, place) in enumerate(zip(best, order, strict=False), start=1):
        document.metadata.update(rank=rank, score=float(scores[place]))
    return best


def verify(manifest: Manifest, encoder: "Encoder") -> list[str]:
    """Return the problems of a published state, a sentence each.

    Reads all passages, compares the counts of tables, indexes and manifest, and encodes a few
    passages again.
    """
    if Manifest.draft(manifest.place) is not None:
        return [
            f"An update of {manifest.place} is not complete: wait until it has ended, or {REMEDY}."
        ]
    problems = [
        f"The source {name!r} was read in part only: index it again."
        for name, finished in {each.name: each.finished for each in manifest.sources}.items()
        if not finished
    ]
    try:
        passages, records = manifest.table(PASSAGES), manifest.table(RECORDS)
        problems += _count_problems(manifest, passages, records)
        problems += [
            f"The index of {column} has {held:,} of {len(passages):,} passages: {REMEDY}."
            for column, held in indexed(passages).items()
            if held < len(passages)
        ]
        check(passages, manifest.encoder.metric)
        if len(passages):
            problems += _sample_problems(passages, encoder)
    except KnowledgeBaseError as error:
        problems.append(str(error))
    return problems


def _count_problems(manifest: Manifest, passages: Table, records: Table) -> Iterator[str]:
    readable = sum(len(page) for page in passages.pages(passages.data.schema.names))
    for name, listed, held in (
        ("records", manifest.records, records.count("NOT deleted")),
        ("passages", manifest.passages, readable),
        ("passages of retracted records", manifest.retracted, passages.count("retracted")),
    ):
        if listed != held:
            yield f"There are {held:,} {name}, and there should be {listed:,}: {REMEDY}."
    counts = Counts.total(source.counts for source in manifest.sources)
    outcomes = counts.indexed + counts.updated + counts.unchanged + counts.deleted + counts.rejected
    if counts.read != outcomes:
        yield f"The counts of {counts.read:,} records do not add up ({counts}): {REMEDY}."


def _sample_problems(passages: Table, encoder: "Encoder") -> Iterator[str]:
    size = len(passages)
    rows = passages.take(sorted({size * step // SAMPLE for step in range(SAMPLE)}), _SCORED_COLUMNS)
    encoded = encoder.encode_passages([title_and_text(document) for document in documents(rows)])
    for id, held, now in zip(
        rows["id"].to_pylist(), stored_vectors(rows["vector"]), encoded, strict=True
    ):
        likeness = float(now @ held / np.linalg.norm(now) / np.linalg.norm(held))
        # Also where it is not a number.
        if not likeness >= LEAST_LIKENESS:
            yield (
                f"The vector of passage {id!r} is not that of its text (cosine {likeness:.3f}): "
                "build again with this encoder."
            )
