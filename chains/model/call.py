"""One call of a chat model, with retries, limits, structured output and a record of its usage."""

import asyncio
import json
import random
import time
from asyncio import sleep
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.chat_model import (
    counting_streamed_tokens,
    model_key,
    model_name,
    open_chat_model,
    without_streaming,
)
from briefcontext.chains.model.event_loop import on_loop
from briefcontext.chains.model.finish_reason import Cut, cut_message, cut_off, cut_warning
from briefcontext.chains.model.limits import limiter_for
from briefcontext.chains.model.model_errors import one_line, retry_after, what_failed
from briefcontext.chains.model.reasoning import has_unopened_reasoning, without_reasoning
from briefcontext.chains.model.token_stream import Teller
from briefcontext.chains.model.usage import ModelCall
from briefcontext.errors import ModelCallError, ModelSetupError
from briefcontext.prompts import BUNDLED, Prompts

__all__ = ["CHARACTERS_PER_TOKEN", "Model", "Reply", "Request"]

CHARACTERS_PER_TOKEN = 3.0
"""Fewer than any usual tokenizer's on English medical text (about 4), so that estimates err on the safe side."""
MAX_WAIT = 60.0
"""Seconds; the longest pause before a retry that the provider does not ask for."""
MAX_ASKED_WAIT = 300.0
"""Seconds; a provider that asks for a longer pause is not waited for."""

_STRUCTURED = ("json_schema", "function_calling", "json_mode")
_STREAMED = "streamed"
_TEXT = "text"
_learned: dict[str, str] = {}
"""By model: the way to structured output that it accepted first, so that the others are not tried on every call."""
_lessons: dict[str, asyncio.Event] = {}
"""By model: ends when the call that is finding out its way to structured output does."""
_tried: dict[str, str] = {}
"""By model: the way that this call is trying now; those before it were refused."""
LESSON_SECONDS = 3.0
"""How long other calls wait for it. A refusal comes sooner; a way that is not refused by then is taken to be accepted,
so that a reply that takes its time holds up nobody."""
_not_streamed: set[str] = set()
"""Models that took a call only when its reply was not to be streamed."""
_begin_within_a_thought: set[str] = set()
"""Models whose replies end a thought that they do not begin, as their chat template has begun it."""


@dataclass(frozen=True)
class Request:
    """A model call to be made."""

    stage: str
    messages: Sequence[BaseMessage]
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply, with a title; None for text."""
    tags: tuple[str, ...] = ()
    partition: int | None = None
    """Its index, where the call reads a partition."""
    told: bool = False
    """Whether the reply is the answer, whose tokens are told to the budget as they come."""

    @property
    def characters(self) -> int:
        """The length of all messages."""
        return sum(len(message.text) for message in self.messages)


@dataclass(frozen=True)
class Reply:
    """A model's reply."""

    text: str
    """Its words, or the arguments of the functions that it calls, as JSON; without reasoning in tags."""
    cut: Cut | None = None
    """What cut the reply off; None for a whole one. To a request with a schema, the text may then be empty."""


class _RefusedError(Exception):
    """The provider does not accept the request as it is."""


class Model:
    """A chat model, with its prompts and the way to call it."""

    def __init__(self, model: str | BaseChatModel, *, cache: str | None = None, prompts: Prompts = BUNDLED) -> None:
        self.chat = counting_streamed_tokens(open_chat_model(model, cache=cache) if isinstance(model, str) else model)
        self.name = model if isinstance(model, str) else model_name(model)
        self.prompts = prompts
        self._key = model_key(self.chat)
        # Where a run's messages are streamed, every call would be, and OpenAI's client then counts no tokens of a
        # structured reply. So nothing is streamed but the answer.
        self._whole = without_streaming(self.chat)
        # A model told not to count the tokens of what it streams would keep them from the ledger.
        self._streams = self._whole is not self.chat and getattr(self.chat, "stream_usage", None) is not False

    @property
    def max_input_tokens(self) -> int | None:
        """The input window that LangChain's profile of the model states, in tokens; None where it is unknown."""
        window = (self.chat.profile or {}).get("max_input_tokens")
        return int(window) if window else None

    async def ask(self, request: Request, budget: CallBudget) -> Reply:
        """Make a call, on the loop of all model calls, and make it again while that may help.

        Raises:
            ModelSetupError: the provider refuses the key, or does not know the model or the address.
            ModelCallError: it failed for good.
        """
        return await on_loop(self._ask_or_learn(request, budget))

    async def _ask_or_learn(self, request: Request, budget: CallBudget) -> Reply:
        if request.schema is None or self._key in _learned:
            return await self._ask(request, budget)
        lesson = asyncio.Event()
        learning = _lessons.setdefault(self._key, lesson)
        if learning is not lesson:
            # Waited for at most once, and not for long: a call that learned nothing holds the others up no further.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LESSON_SECONDS, budget.time_left())):
                    await learning.wait()
            return await self._ask(request, budget, first=_tried.get(self._key))
        try:
            return await self._ask(request, budget, learns=True)
        finally:
            _tried.pop(self._key, None)
            _lessons.pop(self._key, None)
            lesson.set()

    async def _ask(
        self, request: Request, budget: CallBudget, *, first: str | None = None, learns: bool = False
    ) -> Reply:
        """Make a call in the ways that there are, from the `first` on."""
        refusal: Exception | None = None
        for way, runnable in self._ways(request, first):
            if learns:
                _tried[self._key] = way
            try:
                reply = await self._call(request, way, runnable, budget)
            except _RefusedError as error:
                refusal = error
                continue
            if request.told and way == _TEXT and refusal is not None:
                _not_streamed.add(self._key)
            if request.schema is not None:
                # A later refusal of the way that is known to work is about that one request, so it teaches nothing.
                _learned.setdefault(self._key, way)
            return reply
        raise ModelCallError(f"{self.name} does not accept the request: {one_line(refusal or ValueError())}")

    def _ways(self, request: Request, first: str | None) -> Iterator[tuple[str, Runnable[Any, Any]]]:
        """Yield the ways to make a request, the one that is known to work first."""
        if request.schema is not None:
            known = _learned.get(self._key)
            structured = _STRUCTURED[_STRUCTURED.index(first) :] if first in _STRUCTURED else _STRUCTURED
            if known is not None or first == _TEXT:
                structured = (known,) if known in _STRUCTURED else ()
            for way in structured:
                try:
                    yield way, self._whole.with_structured_output(dict(request.schema), method=way, include_raw=True)
                except (NotImplementedError, TypeError, ValueError):
                    continue
        elif request.told and self._streams and self._key not in _not_streamed:
            yield _STREAMED, self.chat
        yield _TEXT, self._whole

    async def _call(self, request: Request, way: str, runnable: Runnable[Any, Any], budget: CallBudget) -> Reply:
        # A run of the node's own name would pass for the node, and its messages for the node's output.
        config: RunnableConfig = {
            "tags": list(request.tags),
            "run_name": f"{request.stage} call",
            "metadata": {"stage": request.stage, "partition": request.partition},
        }
        tokens = int(request.characters / CHARACTERS_PER_TOKEN)
        limiter = limiter_for(self._key)
        told = 0
        for attempt in range(budget.max_retries + 1):
            teller = None
            if request.told and budget.tell:
                teller = Teller(budget.tell, told + 1, within=self._key in _begin_within_a_thought)
            if teller and way == _STREAMED:
                runnable = teller.listening_to(self.chat)
            message: AIMessage | None = None
            started: float | None = None
            wait: float | None = None
            try:
                try:
                    async with limiter.slot(budget.limits, tokens=tokens, timeout=budget.time_to_deadline()):
                        # A provider's own timeout bounds the gaps between bytes at best, so the whole call is timed.
                        async with asyncio.timeout(budget.time_left()):
                            started = time.time()
                            result = await runnable.ainvoke(list(request.messages), config)
                    message = result["raw"] if isinstance(result, dict) else result
                except Exception as error:
                    message = cut_message(error)
                    if message is None:
                        raise
                if reply := self._reply(message, request):
                    return reply
                failure = "the reply was empty."
            except Exception as error:  # noqa: BLE001 - what a provider's client raises is not known
                failure, wait = self._judge(error, budget), retry_after(error)
            finally:
                if teller:
                    teller.end(_words(message) if message else None)
                    told = teller.attempt
                if started is not None:
                    budget.calls.append(self._record(request, message, attempt, started))
            if attempt < budget.max_retries:
                longest = min(MAX_WAIT, budget.retry_wait * 2**attempt)
                pause = random.uniform(longest / 2, longest) if wait is None else wait
                try:
                    budget.time_left(after=pause)
                except ModelCallError as error:
                    raise ModelCallError(f"{error} The last call of {self.name} failed: {failure}") from None
                if pause > MAX_ASKED_WAIT:
                    raise ModelCallError(
                        f"{self.name} asks to wait {pause:,.0f} s before the next call. Try again later."
                    )
                await sleep(pause)
        times = "once" if budget.max_retries == 0 else f"{budget.max_retries + 1} times"
        raise ModelCallError(f"{self.name} was called {times} and failed. The last time: {failure}")

    def _reply(self, message: AIMessage, request: Request) -> Reply | None:
        """Return what a message says; None when that is nothing.

        Raises:
            ModelCallError: it was cut off before it said anything, as it would be again.
        """
        if has_unopened_reasoning(message.text):
            _begin_within_a_thought.add(self._key)
        words, cut = _words(message), cut_off(message)
        if words or (cut and request.schema is not None):
            return Reply(words, cut)
        if cut:
            raise ModelCallError(cut_warning(cut, f"The reply of {self.name}"))
        return None

    def _judge(self, error: Exception, budget: CallBudget) -> str:
        """Say in words what failed, if trying again may help; raise what it means otherwise."""
        if isinstance(error, ModelCallError | ModelSetupError):
            raise error
        kind = what_failed(error)
        if kind == "setup":
            raise ModelSetupError(
                f"The provider of {self.name} refuses the call: {one_line(error)} "
                "Check the model's name, its key and its base URL."
            ) from error
        if kind == "quota":
            raise ModelSetupError(
                f"The account at the provider of {self.name} has no credit left: {one_line(error)} "
                "Check its plan and billing, or use another key."
            ) from error
        if kind == "refused":
            raise _RefusedError(one_line(error)) from error
        if kind == "final":
            raise ModelCallError(f"{self.name} does not accept the request: {one_line(error)}") from error
        if isinstance(error, TimeoutError) and not str(error):
            return f"no reply in time; a call may take {budget.timeout:g} s."
        return f"{type(error).__name__}: {one_line(error)}"

    def _record(self, request: Request, message: AIMessage | None, attempt: int, started: float) -> ModelCall:
        usage: dict[str, Any] = dict((message.usage_metadata if message else None) or {})
        # LangChain marks a reply from its cache with a total cost of zero.
        cached = usage.get("total_cost") == 0
        empty = message is None or not _words(message)
        if cached:
            usage = {}
        return ModelCall(
            stage=request.stage,
            model=self.name,
            status="cached" if cached else "failed" if empty else "ok",
            attempt=attempt + 1,
            input_characters=request.characters,
            input_tokens=int(usage.get("input_tokens", 0)),
            cached_input_tokens=int((usage.get("input_token_details") or {}).get("cache_read") or 0),
            output_tokens=int(usage.get("output_tokens", 0)),
            started=started,
            ended=time.time(),
        )


def _words(message: AIMessage) -> str:
    """Return the arguments of the functions that a reply calls, else its text without reasoning; empty if blank."""
    calls = [json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls]
    calls += [call["args"] or "" for call in message.invalid_tool_calls]
    said = "\n".join(calls)
    if not said.strip():
        said = without_reasoning(message.text)
    return said if said.strip() else ""
