"""The interface of readers, which the graph calls, and what they return: extractions and drafts."""

from collections.abc import Iterable, Sequence
from typing import Literal, NotRequired, Protocol, runtime_checkable

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.notes import Note
from briefcontext.chains.question import Question

NOTHING_USED = "Nothing of this reading is used."
"""Ends the error of an extraction whose evidence was all dropped."""

CUT_AT = "cut_at"
"""In the metadata of a document's piece: where it begins in the text of the whole, in characters."""

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
    """Return quotes in their order, those of the same words in the same place once."""
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
    """What went wrong, or which part of the model's reply was not used."""


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
    """Return the extraction of a partition: by default, that its documents hold nothing or were not read."""
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
    """What the reader says of evidence that contradicts itself."""
    quotes: list[Quote]
    """The quotes that the cited documents were found to contain."""
    abstained: bool
    """Whether the reader says that it cannot answer; `text` is then the reason."""
    notes: list[Note]
    """Remarks on the answer."""


@runtime_checkable
class Reader(Protocol):
    """Answers from documents: in one call, or by extracting from partitions and reducing.

    All documents carry citation keys (`briefcontext.chains.citation.assign_keys`). The budget
    bounds a method's model calls and records them. Each method raises a `ModelError` when a call
    fails for good.

    A reader may have a method `parts` besides: `LLMReader.parts` divides documents so that each
    part fits into the model's input window. One that passes the other methods on to a reader within
    passes `parts` on, too.
    """

    @property
    def name(self) -> str:
        """What the ledger and the answer call this reader."""

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Find in one partition what bears on the question."""

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
        """Answer from all documents at once, in the order given; `stage` names the call in the ledger."""

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> int | None:
        """Return the length of the prompt that would read all documents at once; None without a model."""
