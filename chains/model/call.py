"""Calls of a chat model, with retries, limits, structured output and a record of usage."""

import asyncio
import itertools
import time
from asyncio import sleep
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel
from tenacity import AsyncRetrying
from tenacity.wait import wait_random_exponential

from briefcontext.chains.model.chat_model import (
    RefusedError,
    address,
    counting_streamed_tokens,
    failure,
    keys_of,
    model_key,
    model_name,
    open_chat_model,
    redacted,
    without_streaming,
)
from briefcontext.chains.model.event_loop import on_loop
from briefcontext.chains.model.reply import Cut, cut_message, cut_off, cut_warning, reply_words
from briefcontext.chains.model.reply_cache import from_cache
from briefcontext.chains.model.usage import CallBudget, ModelCall, Status, call_slot, model_call
from briefcontext.errors import ModelCallError, ModelError, ModelSetupError
from briefcontext.prompts import BUNDLED, Prompts
from briefcontext.retries import PassingError, retry_policy

CHARACTERS_PER_TOKEN = 3.0
"""A low ratio (English medical text has about 4), so that token estimates are high."""
MAX_WAIT = 60.0
"""Longest wait before a retry in seconds, unless the provider asks for another."""
MAX_ASKED_WAIT = 300.0
"""Longest wait in seconds that a provider may ask for; a longer one fails the call."""

StructuredOutput = Literal["auto", "json_schema", "tools", "prompt"]
"""How to request a record: by the provider's schema, a function's arguments, or words only. `auto`
decides by LangChain's profile of the model.
"""


@dataclass(frozen=True)
class Request:
    """A model call to make."""

    stage: str
    messages: Sequence[BaseMessage]
    record: type[BaseModel] | None = None
    """Schema of a JSON reply; None for text."""
    partition: int | None = None
    """Index of the partition that the call reads."""
    streamed: bool = False
    """Whether the reply is the answer, whose tokens appear in the stream of messages."""
    again: bool = False
    """Whether this is the second request, whose tokens replace the first one's."""
    articles: Mapping[str, int] = field(default_factory=dict)
    """Citation key to article number, for numbering streamed tokens."""

    @property
    def characters(self) -> int:
        """The length of all messages."""
        return sum(len(message.text) for message in self.messages)


@dataclass(frozen=True)
class Reply:
    """A model's reply."""

    text: str
    """The words, or the arguments of function calls as JSON, without reasoning."""
    cut: Cut | None = None
    """What cut the reply off; None if it is whole. The text of a cut record may be empty."""


class Model:
    """A chat model with its prompts.

    Raises ModelSetupError if the model lacks the requested kind of structured output.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        arguments: Mapping[str, Any] | None = None,
        prompts: Prompts = BUNDLED,
        structured_output: StructuredOutput = "auto",
    ) -> None:
        chat = model if isinstance(model, Runnable) else open_chat_model(model, **(arguments or {}))
        self.chat = counting_streamed_tokens(chat)
        self._keys = keys_of(self.chat)
        self.name = model if isinstance(model, str) else model_name(model)
        self.prompts = prompts
        self._limiter_key = model_key(self.chat)
        self._decided = structured_output != "auto"
        self._structured_output = structured_output if self._decided else _by_profile(self.chat)
        self._record_models: dict[type[BaseModel], Runnable[Any, Any]] = {}
        # When a run's messages are streamed, LangChain streams every call, and OpenAI's client then
        # counts no tokens of structured replies. So only the answer is streamed.
        self._whole = without_streaming(self.chat)
        counts = getattr(self.chat, "stream_usage", None) is not False
        self._streams = counts and self._whole is not self.chat

    @property
    def max_input_tokens(self) -> int | None:
        """The input window in tokens by LangChain's profile of the model; None if unknown."""
        window = (self.chat.profile or {}).get("max_input_tokens")
        return int(window) if window else None

    async def ask(self, request: Request, budget: CallBudget) -> Reply:
        """Make a call on the loop of all model calls, with retries.

        Raises ModelSetupError if the provider refuses the key or does not know the model or the
        address, and ModelCallError if the call failed for good.
        """
        try:
            return await on_loop(self._ask(request, budget))
        except ModelError as error:
            kind = ModelCallError if isinstance(error, RefusedError) else type(error)
            # The cause may quote the key.
            raise kind(redacted(str(error), self._keys)) from None

    async def _ask(self, request: Request, budget: CallBudget) -> Reply:
        """Make a call, and repeat it as plain text if the provider refuses its form."""
        model = self._model_for(request)
        try:
            return await self._call(request, model, budget)
        except RefusedError:
            if model is self._whole or (request.record and self._decided):
                raise
        reply = await self._call(request, self._whole, budget)
        if request.record:
            self._structured_output = "prompt"
        else:
            self._streams = False
        return reply

    def _model_for(self, request: Request) -> Runnable[Any, Any]:
        if request.record is None:
            return self.chat if request.streamed and self._streams else self._whole
        if self._structured_output == "prompt":
            return self._whole
        if request.record not in self._record_models:
            self._record_models[request.record] = self._bound(request.record)
        return self._record_models[request.record]

    def _bound(self, record: type[BaseModel]) -> Runnable[Any, Any]:
        """Return the model bound to the schema."""
        method = "function_calling" if self._structured_output == "tools" else "json_schema"
        # Some servers do not resolve references, so the schema has none.
        schema = dereference_refs(record.model_json_schema())
        schema.pop("$defs", None)
        try:
            return self._whole.with_structured_output(schema, method=method, include_raw=True)
        except (NotImplementedError, TypeError, ValueError):
            if not self._decided:
                return self._whole
        raise ModelSetupError(
            f"{self.name} has no structured output by {self._structured_output}. "
            "Set structured_output to auto or prompt."
        )

    async def _call(self, request: Request, model: Runnable[Any, Any], budget: CallBudget) -> Reply:
        tries = budget.max_retries + 1
        backoff = wait_random_exponential(multiplier=budget.retry_wait, max=MAX_WAIT)
        attempts = itertools.count(1)

        async def attempt() -> Reply:
            return await self._attempt(request, model, budget, next(attempts))

        try:
            return await AsyncRetrying(sleep=sleep, **retry_policy(tries, backoff))(attempt)
        except PassingError as error:
            times = "once" if tries == 1 else f"{tries} times"
            raise ModelCallError(
                f"{self.name} was called {times} and failed. The last time: {error}"
            ) from error

    async def _attempt(
        self, request: Request, model: Runnable[Any, Any], budget: CallBudget, attempt: int
    ) -> Reply:
        """Make and record a single call."""
        message: AIMessage | None = None
        started: float | None = None
        try:
            async with call_slot(self._limiter_key, budget.limits):
                # A provider's timeout limits only the gaps between bytes.
                async with asyncio.timeout(budget.timeout):
                    started = time.time()
                    reply = await model.ainvoke(list(request.messages), _config(request, attempt))
                    message = reply["raw"] if isinstance(reply, dict) else reply
        except Exception as error:
            message = cut_message(error)
            if message is None:
                raise self._failure(error, budget) from error
        finally:
            if started is not None:
                budget.calls.append(self._record(request, message, attempt, started))
        return self._reply(message, request)

    def _reply(self, message: AIMessage, request: Request) -> Reply:
        words, cut = reply_words(message), cut_off(message)
        if words or (cut and request.record is not None):
            return Reply(words, cut)
        if cut:
            raise ModelCallError(cut_warning(cut, f"The reply of {self.name}"))
        raise PassingError("the reply was empty.")

    def _failure(self, error: Exception, budget: CallBudget) -> Exception:
        if isinstance(error, TimeoutError) and not str(error):
            return PassingError(f"no reply in time; a call may take {budget.timeout:g} s.")
        meaning = failure(error, self.name)
        if not isinstance(meaning, PassingError):
            return meaning
        if meaning.wait is not None and meaning.wait > MAX_ASKED_WAIT:
            wait = f"{meaning.wait:,.0f} s"
            return ModelCallError(f"{self.name} asks to wait {wait}. Try again later.")
        if getattr(error, "status_code", None) is None and (url := address(self.chat)):
            return PassingError(f"{meaning} Check that a chat model's server answers at {url}.")
        return meaning

    def _record(
        self, request: Request, message: AIMessage | None, attempt: int, started: float
    ) -> ModelCall:
        cached = message is not None and from_cache(message)
        status: Status = "cached" if cached else "ok"
        if message is None or not reply_words(message):
            status = "failed"
        return model_call(
            request.stage,
            self.name,
            status,
            (started, time.time()),
            request.characters,
            attempt=attempt,
            tokens=None if message is None or cached else message.usage_metadata,
        )


def _by_profile(chat: BaseChatModel) -> StructuredOutput:
    profile = chat.profile or {}
    if profile.get("structured_output", True):
        return "json_schema"
    return "tools" if profile.get("tool_calling") else "prompt"


def _config(request: Request, attempt: int) -> RunnableConfig:
    metadata: dict[str, Any] = {
        "stage": request.stage,
        "partition": request.partition,
        "attempt": attempt,
        "again": request.again,
    }
    if request.articles:
        metadata["articles"] = dict(request.articles)
    # Only the answer appears in the stream of messages.
    tags = [] if request.streamed else ["nostream"]
    # LangGraph takes a run with a node's name for that node's output.
    return {"tags": tags, "run_name": f"{request.stage} call", "metadata": metadata}
