"""What one reading of one question asked of the models, and what they said."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation

from briefcontext.chains.reply_cache import ReplyCache

__all__ = [
    "Trace",
    "TracedCall",
    "TracedReplies",
    "current_trace",
    "enter_stage",
    "reading_stage",
    "trace_call",
    "tracing",
]


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A request and its reply, whether the reply was fetched now or kept from before."""

    stage: str
    index: int
    """The partition's, from 0; 0 where there are no partitions."""
    request: str
    """SHA-256 of model, parameters and prompt: equal requests are asked once in a run."""
    prompt: str
    """SHA-256 of the prompt's messages."""
    output: str
    input_tokens: int
    output_tokens: int
    """Tokens as the provider reported them when the call was made."""
    kept: bool
    """Whether the reply was there already, so that nothing was asked or paid now."""


@dataclass
class Trace:
    """The calls of one reading."""

    calls: list[TracedCall] = field(default_factory=list)
    wanted: bool = False
    """Whether a reply is wanted that is not there yet: set while requests are collected for a batch."""

    def ordered(self) -> list[TracedCall]:
        """The calls by stage in order of appearance, and by partition within it."""
        stages = list(dict.fromkeys(call.stage for call in self.calls))
        return sorted(self.calls, key=lambda call: (stages.index(call.stage), call.index))

    def last_output(self, stages: frozenset[str]) -> str:
        """What the model said last in one of these stages; empty when it was not asked there."""
        return next((call.output for call in reversed(self.calls) if call.stage in stages), "")


_TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
_STAGE: ContextVar[tuple[str, int]] = ContextVar("stage", default=("", 0))
_MISSED: ContextVar[tuple[str, str]] = ContextVar("missed", default=("", ""))
"""Prompt and parameters of the call that is being made here, for which there was no reply."""
_FOUND_SINCE: ContextVar[bool] = ContextVar("found_since", default=False)
"""Whether another call has fetched that reply meanwhile."""


@contextmanager
def tracing() -> Iterator[Trace]:
    """Note all calls that are made inside, also those of tasks and threads that start there."""
    trace = Trace()
    token = _TRACE.set(trace)
    try:
        yield trace
    finally:
        _TRACE.reset(token)


@contextmanager
def reading_stage(stage: str, index: int = 0) -> Iterator[None]:
    """Say what the calls that are made inside are for."""
    token = _STAGE.set((stage, index))
    try:
        yield
    finally:
        _STAGE.reset(token)


def current_trace() -> Trace | None:
    """The trace that is being kept here."""
    return _TRACE.get()


def enter_stage(stage: str) -> None:
    """Say what the calls that are made from here on are for, within the same partition."""
    _STAGE.set((stage, _STAGE.get()[1]))


def trace_call(
    *, request: str, output: str, input_tokens: int, output_tokens: int, prompt: str = "", kept: bool = False
) -> None:
    """Note a call in the trace that is being kept here; do nothing where there is none."""
    trace = _TRACE.get()
    if trace is not None:
        stage, index = _STAGE.get()
        trace.calls.append(TracedCall(stage, index, request, prompt, output, input_tokens, output_tokens, kept))


class TracedReplies(BaseCache):
    """The replies of one model in a run, kept on disk; notes every one that is used in the current trace.

    A key is made of the model's name, the parameters of the call and the messages. The model's address is left
    out, so that a run goes on when its server has moved.
    """

    def __init__(self, kept: ReplyCache, model: str) -> None:
        self._kept = kept
        self._model = model

    def lookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Return the reply that was kept, or None."""
        parameters = self._parameters(llm_string)
        found = self._kept.lookup(prompt, parameters)
        if found:
            self._note(prompt, parameters, found, kept=True)
        else:
            _MISSED.set((prompt, parameters))
            _FOUND_SINCE.set(False)
        return found

    @property
    def missed(self) -> str:
        """Which reply was last looked up here in vain."""
        return "\0".join(_MISSED.get())

    def found_since(self) -> ChatResult | None:
        """Return that reply, where another call has fetched it since."""
        found = self._kept.lookup(*_MISSED.get())
        if not found:
            return None
        _FOUND_SINCE.set(True)
        return ChatResult(generations=[reply for reply in found if isinstance(reply, ChatGeneration)])

    def keep(self, result: ChatResult) -> None:
        """Keep that reply at once, for calls that wait for it; LangChain does so once it has completed it."""
        self._kept.update(*_MISSED.get(), result.generations)

    async def alookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Do as `lookup` does: a read of a local file needs no thread."""
        return self.lookup(prompt, llm_string)

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        """Keep a reply."""
        parameters = self._parameters(llm_string)
        self._kept.update(prompt, parameters, return_val)
        self._note(prompt, parameters, return_val, kept=_FOUND_SINCE.get())

    async def aupdate(self, prompt: str, llm_string: str, return_val: Any) -> None:
        """Do as `update` does: the reply is on disk before anything is made of it."""
        self.update(prompt, llm_string, return_val)

    def clear(self, **kwargs: Any) -> None:
        """Forget all replies."""
        self._kept.clear()

    def _parameters(self, llm_string: str) -> str:
        # LangChain writes: the model's serialised form, a line, and the parameters of the call.
        return f"{self._model}\0{llm_string.rpartition('---')[2]}"

    @staticmethod
    def _note(prompt: str, parameters: str, replies: list[Generation], *, kept: bool) -> None:
        for reply in replies:
            message = reply.message if isinstance(reply, ChatGeneration) else AIMessage(reply.text)
            usage: dict[str, Any] = dict(getattr(message, "usage_metadata", None) or {})
            trace_call(
                request=_digest(f"{parameters}\0{prompt}"),
                prompt=_digest(prompt),
                output=_words(message),
                input_tokens=int(usage.get("input_tokens") or 0),
                output_tokens=int(usage.get("output_tokens") or 0),
                kept=kept,
            )


def _words(message: Any) -> str:
    text: str = message.text
    calls = getattr(message, "tool_calls", None)
    return text or (json.dumps([call["args"] for call in calls], ensure_ascii=False) if calls else "")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
