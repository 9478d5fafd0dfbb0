"""Progress events in the graph's `custom` stream, and the tokens of the answer."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from briefcontext.chains.answer import Route
from briefcontext.chains.citation import number_tokens
from briefcontext.chains.model.reply import without_reasoning
from briefcontext.chains.parsing.answer_parser import before_quotes

_logger = logging.getLogger(__name__)


class Encoding(TypedDict):
    """A document is being encoded, once for all its questions."""

    event: Literal["encoding"]
    passages: int
    """Number of encoded passages."""
    total: int


class Retrieved(TypedDict):
    """Retrieval is finished."""

    event: Literal["retrieved"]
    documents: int


class Rewritten(TypedDict):
    """A follow-up was rewritten as a complete question."""

    event: Literal["rewritten"]
    question: str


class RouteDecided(TypedDict):
    """The preflight check is finished."""

    event: Literal["route_decided"]
    route: Route
    reason: str
    iou: float | None


class PartitionStarted(TypedDict):
    """The reading of a partition begins."""

    event: Literal["partition_started"]
    index: int
    """Index of the partition, from 0."""
    partitions: int
    documents: int


class PartitionDone(TypedDict):
    """A partition was read."""

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
    """The model begins to write the answer from the partitions' evidence."""

    event: Literal["reducing"]
    evidence: int
    """Number of partitions with evidence."""


class Answering(TypedDict):
    """The model begins to write the answer from all documents."""

    event: Literal["answering"]
    documents: int


class AnswerToken(TypedDict):
    """A piece of the unchecked answer, made by `AnswerTokens` from the `messages` stream."""

    event: Literal["answer_token"]
    text: str
    attempt: int
    """From 1. A higher number means that the answer begins again after a failure."""


class Verifying(TypedDict):
    """The verification of the cited sentences begins."""

    event: Literal["verifying"]
    sentences: int


class Verified(TypedDict):
    """The verification is finished. Sentences without a verdict count only in `sentences`."""

    event: Literal["verified"]
    sentences: int
    supported: int
    partly: int
    contradicted: int
    not_stated: int


class Answered(TypedDict):
    """The answer is finished."""

    event: Literal["answered"]
    abstained: bool
    citations: int
    calls: int


Event = (
    Encoding
    | Rewritten
    | Retrieved
    | RouteDecided
    | PartitionStarted
    | PartitionDone
    | PartitionFailed
    | Reducing
    | Answering
    | Verifying
    | Verified
    | Answered
)
"""Events in the `custom` stream."""


class AnswerTokens:
    """Makes tokens of a run's `messages` stream: numbered citations, no reasoning, no quotes."""

    def __init__(self) -> None:
        self._call: object = None
        self._reply = self._shown = ""
        self._attempt = 1

    def read(self, part: tuple[BaseMessage, Mapping[str, Any]]) -> Iterator[AnswerToken]:
        """Yield the token of a part of the stream, unless it is reasoning or another message."""
        message, metadata = part
        if "stage" not in metadata:
            return
        call = metadata["stage"], metadata.get("attempt"), metadata.get("again")
        if self._call != call:
            self._call, self._reply = call, ""
            self._begin_anew()
        self._reply += message.text
        unfinished = isinstance(message, AIMessageChunk) and message.chunk_position != "last"
        words = without_reasoning(self._reply, unfinished=unfinished)
        words = before_quotes(words, unfinished=unfinished)
        words = number_tokens(words, metadata.get("articles") or {}, unfinished=unfinished)
        if not words.startswith(self._shown):  # It turns out to have been a thought.
            self._begin_anew()
        new = words[len(self._shown) :]
        if words.strip() and new:
            self._shown = words
            yield AnswerToken(event="answer_token", text=new, attempt=self._attempt)

    def _begin_anew(self) -> None:
        self._attempt += bool(self._shown)
        self._shown = ""


def emit(event: Event) -> None:
    """Write an event to the log, and to the `custom` stream of the current graph run, if any."""
    # The log has no words of questions, documents or models, except in errors.
    private = ("event", "reason", "error", "question")
    values = " ".join(f"{name}={value}" for name, value in event.items() if name not in private)
    _logger.info("%s %s", event["event"], values)
    # A compressor also runs outside of graphs.
    with suppress(RuntimeError, KeyError):
        get_stream_writer()(event)


def emit_encoding(passages: int, total: int) -> None:
    """Emit the progress of encoding a document."""
    emit(Encoding(event="encoding", passages=passages, total=total))
