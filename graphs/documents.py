"""The documents to answer from, without retracted ones."""

from collections.abc import Mapping, Sequence

from langchain_core.documents import Document

from briefcontext.chains.articles import article_id, join_articles, without_superseded
from briefcontext.errors import InputError
from briefcontext.files import encodable
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.ranking_retriever import as_ranking


def given_ranking(documents: object, settings: Settings) -> list[Document]:
    """Return the documents of the input, best first, with id, source, rank and score.

    Raises InputError if they are not a list of documents or mappings, too many, or combined with
    filters.
    """
    if settings.filters:
        raise InputError(
            f"Filters ({settings.filters}) are for what is retrieved, and documents were given "
            "with the question. Leave out the one or the other."
        )
    most = settings.most_documents
    if not isinstance(documents, list | tuple):
        kind = type(documents).__name__
        raise InputError(f"documents must be a list of documents, best first, not {kind}.")
    if len(documents) > most:
        count = len(documents)
        raise InputError(f"{count:,} documents are given, and at most {most:,} are taken.")
    return as_ranking([_document(document, place) for place, document in enumerate(documents, 1)])


def _document(given: object, place: int) -> Document:
    if isinstance(given, Mapping):
        text, metadata, id = given.get("page_content"), given.get("metadata") or {}, given.get("id")
        if isinstance(text, str) and isinstance(metadata, Mapping):
            id = None if id is None else str(id)
            given = Document(page_content=text, metadata=dict(metadata), id=id)
    if not isinstance(given, Document) or not given.page_content.strip():
        raise InputError(
            f"Document {place} cannot be used: it needs a text that is not blank, as page_content. "
            "Give LangChain documents, or mappings of page_content, metadata and id, as their "
            "model_dump() gives them (not to_json())."
        )
    return given


def without_retracted(
    found: Sequence[Document], settings: Settings
) -> tuple[list[Document], list[str]]:
    """Return the first k usable documents, and the ids of retracted articles that were left out.

    An older version of an article is also left out.
    """
    found = without_superseded(join_articles(found))
    if settings.include_retracted:
        return found[: settings.top_k], []
    kept: list[Document] = []
    retracted: dict[str, None] = {}
    for document in found:
        if len(kept) == settings.top_k:
            break
        if document.metadata.get("retracted"):
            retracted[article_id(document)] = None
        else:
            kept.append(document)
    return kept, list(retracted)


def more_to_ask(found: Sequence[Document], wanted: int, settings: Settings) -> int:
    """Return the next number of documents to ask for if fewer than k are usable; else 0."""
    kept, _ = without_retracted(found, settings)
    return 2 * wanted if len(kept) < settings.top_k and len(found) >= wanted else 0


def encodable_document(document: Document) -> Document:
    """Replace lone surrogates in a document's text and metadata."""
    metadata = {
        name: encodable(value) if isinstance(value, str) else value
        for name, value in document.metadata.items()
    }
    return document.model_copy(
        update={"page_content": encodable(document.page_content), "metadata": metadata}
    )
