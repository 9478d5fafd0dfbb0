"""Completion of foreign documents to passages, with ids and metadata."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from langchain_core.documents import Document

from briefcontext.knowledge.sources.publication import article_url

__all__ = ["as_passages"]


def as_passages(documents: Iterable[Document]) -> list[Document]:
    """Return copies that all have a unique `id` and the metadata of a passage, in the same order.

    What a document has is kept, and the rest is filled in: `source_id` from the loader's `source`, else the
    id; `url` from its PMID or DOI; `page`, which LangChain's loaders count from 0, as it is printed; `start` from the
    text splitter's `start_index`; the id from a digest of source and text. A repeated document (same id, same text) is
    left out, and another text under an id already taken gets one of its own.
    """
    passages: dict[str, Document] = {}
    for document in documents:
        passage = _as_passage(document)
        id = str(passage.id)
        if id in passages and passages[id].page_content != passage.page_content:
            id = f"{id}#{_digest(passage)}"
        passages.setdefault(id, passage.model_copy(update={"id": id}))
    return list(passages.values())


def _as_passage(document: Document) -> Document:
    metadata = {name: value for name, value in document.metadata.items() if value is not None}
    source = metadata.get("source_id") or metadata.get("source") or document.id or _digest(document)
    start = _offset(metadata.get("start"), _offset(metadata.get("start_index"), 0))
    completed = {
        "kind": "document",
        **metadata,
        **_printed_page(metadata),
        **({"url": url} if (url := article_url(metadata)) else {}),
        "source_id": str(source),
        "title": str(metadata.get("title", "")),
        "chunk_index": _offset(metadata.get("chunk_index"), 0),
        "start": start,
        "end": max(start, _offset(metadata.get("end"), start + len(document.page_content))),
    }
    return document.model_copy(update={"id": document.id or f"{source}#{_digest(document)}", "metadata": completed})


def _printed_page(metadata: Mapping[str, Any]) -> dict[str, Any]:
    page = _offset(metadata.get("page"), -1)
    if "kind" in metadata or page < 0:
        return {}
    label = str(metadata.get("page_label") or "")
    return {"kind": "pdf", "page": int(label) if label.isdecimal() else page + 1}


def _offset(value: object, default: int) -> int:
    # Other loaders give these names to other things: seconds, strings, -1 for "not found".
    return value if isinstance(value, int) and value >= 0 else default


def _digest(document: Document) -> str:
    return sha256(document.page_content.encode()).hexdigest()[:12]
