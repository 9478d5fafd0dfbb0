"""Progress events: what the graph tells in the `custom` stream while it works."""

import logging
from typing import Literal

from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from briefcontext.chains.answer import Route

__all__ = [
    "AnswerToken",
    "Answered",
    "Answering",
    "Encoding",
    "Event",
    "PartitionDone",
    "PartitionFailed",
    "PartitionStarted",
    "Reducing",
    "Retrieved",
    "RouteDecided",
    "emit",
    "tell_encoding",
]


_logger = logging.getLogger(__name__)


class Encoding(TypedDict):
    """A document is being encoded, which is kept for the questions to come."""

    event: Literal["encoding"]
    passages: int
    """How many are encoded."""
    total: int


class Retrieved(TypedDict):
    """The documents are there."""

    event: Literal["retrieved"]
    documents: int


class RouteDecided(TypedDict):
    """The preflight check is done."""

    event: Literal["route_decided"]
    route: Route
    reason: str
    iou: float | None


class PartitionStarted(TypedDict):
    """A partition is being read."""

    event: Literal["partition_started"]
    index: int
    """From 0, as in the extraction."""
    partitions: int
    documents: int


class PartitionDone(TypedDict):
    """A partition has been read."""

    event: Literal["partition_done"]
    index: int
    partitions: int
    status: Literal["evidence", "none"]
    quotes: int


class PartitionFailed(TypedDict):
    """A partition could not be read."""

    event: Literal["partition_failed"]
    index: int
    partitions: int
    error: str


class Reducing(TypedDict):
    """The answer is being written from the partitions' evidence."""

    event: Literal["reducing"]
    evidence: int
    """How many partitions have evidence."""


class Answering(TypedDict):
    """The answer is being written in one call over all documents."""

    event: Literal["answering"]
    documents: int


class AnswerToken(TypedDict):
    """A piece of the answer, as the model writes it.

    The pieces of the last attempt, one after another, are the model's whole reply, which is not yet checked: it has
    citation keys in the place of numbers, and in one call over all documents the list of quotes under it. A reply
    that is not streamed, such as one from a cache, comes in one piece. Extractions are not told piece by piece:
    their structured output is of use only as a whole.
    """

    event: Literal["answer_token"]
    text: str
    attempt: int
    """From 1; a further one, after a failure in the midst, begins the answer anew."""


class Answered(TypedDict):
    """The answer is there."""

    event: Literal["answered"]
    abstained: bool
    citations: int
    calls: int


Event = (
    Encoding
    | Retrieved
    | RouteDecided
    | PartitionStarted
    | PartitionDone
    | PartitionFailed
    | Reducing
    | Answering
    | AnswerToken
    | Answered
)


def emit(event: Event) -> None:
    """Write an event to the `custom` stream of the run that this is called in, and to the log."""
    # No words of a question, a document or a model are logged; an error may quote any of them.
    told = " ".join(f"{name}={value}" for name, value in event.items() if name not in ("event", "reason", "error"))
    _logger.info("%s %s", event["event"], told)
    get_stream_writer()(event)


def tell_encoding(passages: int, total: int) -> None:
    """Tell how far a document is encoded."""
    emit(Encoding(event="encoding", passages=passages, total=total))
