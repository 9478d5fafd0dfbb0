"""The interface of readers, and their results: extractions and drafts."""

from collections.abc import Iterable, Sequence
from typing import Literal, NotRequired, Protocol, runtime_checkable

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.notes import Note
from briefcontext.chains.question import Question

NOTHING_USED = "Nothing of this reading is used."
"""Last words of the error of an extraction whose evidence was all dropped."""

CUT_AT = "cut_at"
"""Metadata key of a document's piece: its offset in the whole text."""

Match = Literal["exact", "normalised", "fuzzy", "title"]


class Quote(TypedDict):
    """A quote, located in its document."""

    text: str
    """The words as they are in the document."""
    document_id: str
    """The id of the passage."""
    start: int | None
    """Where the words begin in the passage, in characters; null for words of its title."""
    end: int | None
    """Where the words end in the passage."""
    match: Match
    """How the words were located; `title` means in the document's title."""
    score: NotRequired[float]
    """How likely the words bear on the question, 0 to 1; only without a model."""


def distinct(quotes: Iterable[Quote]) -> list[Quote]:
    """Return quotes in order, those of the same words in the same place once."""
    once = {
        (quote["document_id"], quote["start"], quote["end"], quote["text"]): quote
        for quote in quotes
    }
    return list(once.values())


class Extraction(TypedDict):
    """The result of the map step for one partition."""

    index: int
    """The partition's place in the ranking, from 0."""
    document_ids: list[str]
    """Ids of the passages in the partition."""
    status: Literal["evidence", "none", "failed"]
    """`none`: nothing in the documents bears on the question. `failed`: they were not read."""
    finding: str
    """The evidence in the model's words, with citation numbers."""
    quotes: list[Quote]
    """The quotes that support the finding."""
    choice: str | None
    """The letter that the partition supports, for multiple choice."""
    confidence: float | None
    """The model's own estimate, 0 to 1."""
    error: str | None
    """The error, or the part of the model's reply that was not used."""


def extraction_of(
    index: int,
    documents: Sequence[Document],
    status: Literal["evidence", "none", "failed"],
    *,
    finding: str = "",
    quotes: Iterable[Quote] = (),
    choice: str | None = None,
    confidence: float | None = None,
    error: str | None = None,
) -> Extraction:
    """Return the extraction of a partition; by default nothing was found or read."""
    return Extraction(
        index=index,
        document_ids=[str(document.id) for document in documents],
        status=status,
        finding=finding,
        quotes=list(quotes),
        choice=choice,
        confidence=confidence,
        error=error,
    )


class Draft(TypedDict):
    """A reader's answer, with citation keys in its text."""

    text: str
    choice: str | None
    conflict: str | None
    """The reader's statement on evidence that contradicts itself."""
    quotes: list[Quote]
    """Quotes that were located in the cited documents."""
    abstained: bool
    """Whether the reader cannot answer; `text` is then the reason."""
    notes: list[Note]
    """Remarks on the answer."""


@runtime_checkable
class Reader(Protocol):
    """Answers from documents, in one call or by extracting from partitions and reducing.

    All documents carry citation keys (`briefcontext.chains.citation.assign_keys`). The budget
    limits a method's model calls and records them. Each method raises a `ModelError` when a call
    fails for good.

    A reader may also have a method `parts`, as `LLMReader` does, which splits documents to fit the
    model's input window. Wrappers must delegate it.
    """

    @property
    def name(self) -> str:
        """The reader's name in the ledger and the answer."""

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Extract the evidence of one partition."""

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Answer from the evidence of the partitions."""

    async def aanswer(
        self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget
    ) -> Draft:
        """Answer from all documents, in the given order; `stage` names the call in the ledger."""

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> int | None:
        """Return the length of the prompt with all documents; None without a model."""
