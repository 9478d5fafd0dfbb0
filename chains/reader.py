"""The interface of readers, which the graph calls."""

from collections.abc import Sequence
from typing import NotRequired, Protocol

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.extraction import Extraction, Quote
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.question import Question

__all__ = ["Draft", "Reader"]


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
    warnings: list[str]
    cautions: NotRequired[list[str]]
    """Warnings that bear on safety."""


class Reader(Protocol):
    """Answers from documents: in one call, or by extracting from partitions and reducing.

    All documents carry citation keys (`briefcontext.chains.citation.assign_keys`). The budget bounds a method's
    model calls and records them. Each method raises a `ModelError` when a call fails for good.
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

    async def aanswer(self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget) -> Draft:
        """Answer from all documents at once, in the order given; `stage` names the call in the ledger."""

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> int | None:
        """Return the length of the prompt that would read all documents at once; None without a model."""
