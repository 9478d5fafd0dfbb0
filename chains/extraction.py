"""The result of the map step for one partition."""

from collections.abc import Sequence
from typing import Literal, NotRequired

from langchain_core.documents import Document
from typing_extensions import TypedDict

__all__ = ["NOTHING_USED", "Extraction", "Match", "Quote", "extraction_without_evidence"]

NOTHING_USED = "Nothing of this reading is used."
"""Ends the error of an extraction whose evidence was all dropped."""

Match = Literal["exact", "normalised", "fuzzy", "title"]


class Quote(TypedDict):
    """A quote, found in its document."""

    text: str
    """The words as the document has them."""
    document_id: str
    start: int | None
    end: int | None
    """Character offsets of the words in the document's text; None for words of its title."""
    match: Match
    """How the reader's words were found in the document; `title`: in its title, by any of the three ways."""
    score: NotRequired[float]
    """How likely the reader thinks it that the words bear on the question, 0 to 1, where it ranks what it quotes."""


class Extraction(TypedDict):
    """The result of one partition."""

    index: int
    """The partition's place in the ranking, from 0."""
    document_ids: list[str]
    status: Literal["evidence", "none", "failed"]
    """`none`: the documents were read and do not bear on the question; `failed`: they were not read."""
    unread_ids: NotRequired[list[str]]
    """Ids of the documents of which a part was not read, where they were read in several and some of these failed."""
    finding: str
    quotes: list[Quote]
    choice: str | None
    other_choices: NotRequired[list[str]]
    """What other parts chose, where the documents were read in several and these do not agree."""
    confidence: float | None
    """The reader's own estimate, 0 to 1."""
    error: str | None
    """What went wrong, or which part of the reader's reply was not used."""


def extraction_without_evidence(
    index: int,
    documents: Sequence[Document],
    status: Literal["none", "failed"],
    *,
    confidence: float | None = None,
    error: str | None = None,
) -> Extraction:
    """Record that the documents of a partition have nothing on the question, or that they were not read."""
    return Extraction(
        index=index,
        document_ids=[str(document.id) for document in documents],
        status=status,
        finding="",
        quotes=[],
        choice=None,
        confidence=confidence,
        error=error,
    )
