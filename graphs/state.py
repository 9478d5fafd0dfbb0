"""The state of the graph."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.documents import Document
from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict

from briefcontext.chains.answer import Answer, Preflight, Route, Searched
from briefcontext.chains.model.usage import ModelCall
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Extraction


class Input(TypedDict):
    """The caller's input. It holds for one run: on a thread, the next run starts without it."""

    question: Annotated[str, EphemeralValue]
    """A medical question in natural language."""
    options: NotRequired[Annotated[dict[str, str] | None, EphemeralValue]]
    """Letter to text, for multiple choice."""
    documents: NotRequired[Annotated[Sequence[Document | dict[str, Any]] | None, EphemeralValue]]
    """Documents to answer from, best first, in place of those that would be retrieved; a mapping of `page_content`,
    `metadata` and `id` is one, too. None retrieves; an empty list is nothing to answer from."""
    earlier: NotRequired[Annotated[list[str] | None, EphemeralValue]]
    """Questions asked before, the last one last: `question` is a follow-up to them, and is rewritten by the model."""
    follow_up: NotRequired[Annotated[bool | None, EphemeralValue]]
    """`question` is a follow-up to the one before on the thread, in place of those in `earlier`."""


class Output(TypedDict):
    """The graph's output."""

    answer: Answer


class State(Input, Output):
    """The state that the nodes share."""

    asked: Question
    """The question, checked."""
    follow_up_to: list[str]
    """The earlier questions, if `asked` was rewritten."""
    started: float
    """When the run began, in seconds since the epoch."""
    given: bool
    """Whether the caller gave the documents, and nothing was searched."""
    searched: Searched
    ranking: list[Document]
    """The documents to read, best first, each with its citation key."""
    retracted: list[str]
    """Source ids of retracted articles that were found and left out."""
    preflight: Preflight
    route: Route
    """Decided by `preflight`; the edge after it only reads it."""
    too_long_for: Route | None
    """The route in one call that `route` would be, did the documents fit into the model's input window."""
    partitions: list[list[Document]]
    """The documents in groups, in order: disjoint and complete."""
    extractions: Annotated[list[Extraction], operator.add]
    calls: Annotated[list[ModelCall], operator.add]


class Partition(TypedDict):
    """The input of one branch of the map."""

    index: int
    partitions: int
    """How many there are."""
    asked: Question
    documents: list[Document]
