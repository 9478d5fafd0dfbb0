"""The input and output of a method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.documents import Document

from briefcontext.chains.question import Question
from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item

__all__ = ["Outcome", "Reading", "as_asked"]

SHORT_ANSWER = "Answer in as few words as possible, without an explanation."
"""Added to a question whose answer is compared word by word, for every method alike, in prompts and nowhere else."""


@dataclass(frozen=True)
class Reading:
    """A question with the documents that an experiment puts before every method."""

    item: Item
    documents: Sequence[Document] = ()
    """The ranking, best first."""
    retrieved: bool = False
    """Whether it is the corpus's own, which the graph then retrieves as it does for a user."""
    fused: Sequence[Document] | None = None
    """The same corpus ranked by reciprocal rank fusion, for `hybrid`; None where the ranking is synthetic."""
    key_documents: Sequence[Document] = ()
    """The documents that hold the answer, for `oracle`."""
    whole: Document | None = None
    """The one long document, for `long_context` and `self_route`."""
    short: bool = False
    """Whether the answer has to be short, because it is compared with others word by word."""

    def ranking(self, kind: str) -> Sequence[Document]:
        """The documents of one kind.

        Raises:
            InputError: the experiment gives none of that kind.
        """
        given = {"documents": self.documents, "fused": self.fused, "key documents": self.key_documents}[kind]
        if not given:
            raise InputError(f"Question {self.item.id} has no {kind}, and a method was asked to read them.")
        return given


def as_asked(question: Question, *, short: bool) -> Question:
    """Return a question as a model gets it; the preflight compares rankings by the question itself."""
    return Question(text=f"{question['text']}\n{SHORT_ANSWER}", options=question["options"]) if short else question


@dataclass(frozen=True)
class Outcome:
    """A method's answer."""

    text: str
    """The answer without what belongs to its form: choice, quotes, citation marks."""
    choice: str | None = None
    """The letter of the option that it chose."""
    route: str = ""
    abstained: bool = False
    iou: float | None = None
    """The preflight's overlap."""
    partition_choices: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Option letter to the partitions that chose it."""
    partitions: int = 0
    """How many partitions were read; 0 on other routes."""
    without_choice: int = 0
    """How many of them stated no choice."""
    truncated: bool = False
    """Whether something did not fit into the model's window and was left out: a long document's middle, or the
    passages of the lowest ranks."""
    in_parts: bool = False
    """Whether documents that were to be read in one call did not fit into the window, and were read in parts."""
    failed_calls: int = 0
    """Attempts that failed before the calls succeeded."""
