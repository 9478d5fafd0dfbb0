"""Progress events: what the graph tells in the `custom` stream while it works."""

from typing import Literal

from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from briefcontext.chains.answer import Route

__all__ = [
    "Answered",
    "Event",
    "PartitionDone",
    "PartitionFailed",
    "PartitionStarted",
    "Reducing",
    "Retrieved",
    "RouteDecided",
    "emit",
]


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
    """The answer is being written; its tokens come in the `messages` stream."""

    event: Literal["reducing"]
    evidence: int
    """How many partitions have evidence."""


class Answered(TypedDict):
    """The answer is there."""

    event: Literal["answered"]
    abstained: bool
    citations: int
    calls: int


Event = Retrieved | RouteDecided | PartitionStarted | PartitionDone | PartitionFailed | Reducing | Answered


def emit(event: Event) -> None:
    """Write an event to the `custom` stream of the run that this is called in."""
    get_stream_writer()(event)
