"""Progress events of the graph's `custom` stream, and the tokens of the answer."""

from briefcontext.graphs.events import (
    Answered,
    Answering,
    AnswerToken,
    AnswerTokens,
    Encoding,
    Event,
    PartitionDone,
    PartitionFailed,
    PartitionStarted,
    Reducing,
    Retrieved,
    Rewritten,
    RouteDecided,
    Verified,
    Verifying,
)

__all__ = [
    "AnswerToken",
    "AnswerTokens",
    "Answered",
    "Answering",
    "Encoding",
    "Event",
    "PartitionDone",
    "PartitionFailed",
    "PartitionStarted",
    "Reducing",
    "Retrieved",
    "Rewritten",
    "RouteDecided",
    "Verified",
    "Verifying",
]
