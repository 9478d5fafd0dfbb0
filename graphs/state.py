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
    """The caller's input, for one run only. The next run on a thread starts without it."""

    question: Annotated[str, EphemeralValue]
    """A medical question in natural language."""
    options: NotRequired[Annotated[dict[str, str] | None, EphemeralValue]]
    """Letter to text, for multiple choice."""
    documents: NotRequired[Annotated[Sequence[Document | dict[str, Any]] | None, EphemeralValue]]
    """Documents to answer from, best first, instead of retrieval, also as mappings of
    `page_content`, `metadata` and `id`. None retrieves; an empty list abstains.
    """
    earlier: NotRequired[Annotated[list[str] | None, EphemeralValue]]
    """Earlier questions, last one last. `question` is a follow-up to them, which the model
    rewrites.
    """
    follow_up: NotRequired[Annotated[bool | None, EphemeralValue]]
    """Whether `question` is a follow-up to the last one on the thread."""


class Output(TypedDict):
    """The graph's output."""

    answer: Answer


class State(Input, Output):
    """The state that the nodes share."""

    asked: Question
    """The checked question."""
    follow_up_to: list[str]
    """The earlier questions, if `asked` was rewritten."""
    started: float
    """When the run began, in seconds since the epoch."""
    given: bool
    """Whether the caller passed the documents, so that nothing was searched."""
    searched: Searched
    ranking: list[Document]
    """The documents to read, best first, each with its citation key."""
    retracted: list[str]
    """Source ids of retracted articles that were left out."""
    preflight: Preflight
    route: Route
    """The route that `preflight` decided. The edge after it only reads it."""
    too_long_for: Route | None
    """The single-call route whose documents exceed the model's input window, if any."""
    partitions: list[list[Document]]
    """The documents in groups, in order."""
    extractions: Annotated[list[Extraction], operator.add]
    calls: Annotated[list[ModelCall], operator.add]


class Partition(TypedDict):
    """The input of one branch of the map."""

    index: int
    partitions: int
    """Number of partitions."""
    asked: Question
    documents: list[Document]
