"""Passages as rows of a table: what is kept of each, and how it becomes a document again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.sources.publication import normalised, year_in
from briefcontext.knowledge.store.filters import LABELLED, labels
from briefcontext.knowledge.store.terms import lexical_text, tokenize

DOCUMENT_COLUMNS = ("id", "source_id", "title", "text", "metadata")


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to be added."""

    number: int
    """Numbers rise in the order of adding, and none is used again: a passage that replaces another has its own."""
    source_id: str
    document: Document
    vector: NDArray[np.float32] | None
    """(d,); None: it is to be encoded."""

    @property
    def title(self) -> str:
        return str(self.document.metadata.get("title") or "")


def passage_schema(dimension: int) -> pa.Schema:
    """The columns of the table. What filters and indexes need stands in columns of its own, besides the metadata."""
    texts, numbers = pa.string(), pa.int32()
    return pa.schema(
        {
            "number": pa.int64(),
            "id": texts,
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
    """Passages with their vectors (n, d) as rows of the table."""
    schema = passage_schema(vectors.shape[1])
    place = schema.get_field_index("vector")
    halves = pa.array(vectors.astype(np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(halves, vectors.shape[1])
    rows = pa.Table.from_pylist([_row(passage) for passage in passages], schema.remove(place))
    return rows.add_column(place, schema.field(place), column)


def documents(rows: pa.Table) -> list[Document]:
    """The documents of rows with the `DOCUMENT_COLUMNS`."""
    columns = (rows[name].to_pylist() for name in DOCUMENT_COLUMNS)
    return [
        Document(id=id, page_content=text, metadata={"source_id": source_id, "title": title, **json.loads(metadata)})
        for id, source_id, title, text, metadata in zip(*columns, strict=True)
    ]


def stored_vectors(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    """The vectors (n, d) of the column of that name."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values: NDArray[np.float16] = whole.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(whole), whole.type.list_size).astype(np.float32)


def _row(passage: NewPassage) -> dict[str, Any]:
    document, title = passage.document, passage.title
    known = normalised(document.metadata)
    metadata = {name: value for name, value in known.items() if name not in ("source_id", "title")}
    terms = tokenize(lexical_text(title, document.page_content))
    labelled = {**metadata, "journals": [metadata.get("journal"), metadata.get("journal_abbreviation")]}
    return {
        "number": passage.number,
        "id": document.id,
        "source_id": passage.source_id,
        "title": title,
        "text": document.page_content,
        "metadata": json.dumps(metadata, ensure_ascii=False, separators=(",", ":")),
        "terms": " ".join(terms),
        "length": len(terms),
        "kind": str(metadata.get("kind", "")),
        "retracted": bool(metadata.get("retracted", False)),
        "year": year_in(str(metadata.get("year", ""))),
        **{name: labels(name, labelled.get(name)) for name in LABELLED},
    }
