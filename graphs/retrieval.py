"""What becomes of the documents that a retriever found: which are used, and how the graph carries them."""

import re
from collections.abc import Sequence

from langchain_core.documents import Document

from briefcontext.graphs.settings import Settings

__all__ = ["encodable", "encodable_document", "more_to_ask", "without_retracted"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def without_retracted(found: Sequence[Document], settings: Settings) -> tuple[list[Document], list[str]]:
    """Return the first k documents that may be used, and the source ids of the retracted ones among them."""
    if settings.keep_retracted:
        return list(found[: settings.top_k]), []
    kept: list[Document] = []
    retracted: dict[str, None] = {}
    for document in found:
        if len(kept) == settings.top_k:
            break
        if document.metadata.get("retracted"):
            retracted[str(document.metadata.get("source_id", document.id))] = None
        else:
            kept.append(document)
    return kept, list(retracted)


def more_to_ask(found: Sequence[Document], wanted: int, settings: Settings) -> int:
    """Return how many documents to ask for next, when retracted ones leave fewer than k; 0 when it is enough."""
    kept, left_out = without_retracted(found, settings)
    return 2 * wanted if left_out and len(kept) < settings.top_k and len(found) >= wanted else 0


def encodable(text: str) -> str:
    """Replace lone surrogates, one for one: a text with one could not be sent, stored or printed."""
    return _SURROGATE.sub("\ufffd", text)


def encodable_document(document: Document) -> Document:
    """Do so in a document's text and metadata."""
    metadata = {
        name: encodable(value) if isinstance(value, str) else value for name, value in document.metadata.items()
    }
    return document.model_copy(update={"page_content": encodable(document.page_content), "metadata": metadata})
