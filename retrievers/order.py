"""Order-preserving arrangement of retrieved documents."""

from collections.abc import Sequence

from langchain_core.documents import Document

__all__ = ["order_preserving"]


def order_preserving(documents: Sequence[Document]) -> list[Document]:
    """Put retrieved documents back in the order of their source (OP-RAG, Yu et al. 2024).

    Documents are grouped by `source_id`; the groups stand in the order of their best rank, which is the
    order in which they are given, and the chunks of a group by their position in the source. For one long
    source this is equation 2 of the paper. The result is a permutation, and arranging it again changes nothing.
    """
    group: dict[str, int] = {}
    for document in documents:
        group.setdefault(_source(document), len(group))
    return sorted(documents, key=lambda document: (group[_source(document)], _position(document)))


def _source(document: Document) -> str:
    return str(document.metadata.get("source_id", document.id))


def _position(document: Document) -> tuple[int, int]:
    return int(document.metadata.get("start", 0)), int(document.metadata.get("chunk_index", 0))
