"""Model calls of one answer: their limits, and the tokens, attempts and times that they took."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiolimiter import AsyncLimiter
from langchain_core.messages.ai import UsageMetadata
from typing_extensions import TypedDict

VERIFY = "verify"
"""The stage of the verification's calls, which every route would make."""
_MINUTE = 60.0
Status = Literal["ok", "failed", "cached"]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of calls in flight and of their rate, each above 0."""

    max_concurrent_calls: int = 32
    """Concurrent model calls of this process, over all models and graphs with this limit."""
    requests_per_minute: float | None = None
    """Calls of one model started per minute, evenly spaced; 0.5 is one call in 120 seconds."""


class ModelCall(TypedDict):
    """One attempt to call a language model."""

    stage: str
    """The node that made it: `extract`, `reduce`, `vanilla`, `order_preserving` or `verify`."""
    model: str
    status: Status
    """`cached`: the reply came from the cache, without a call."""
    attempt: int
    """Number of the attempt, from 1. Another form of output or a repair is another call."""
    input_characters: int
    input_tokens: int
    cached_input_tokens: int
    """Input tokens that the provider had in its prompt cache."""
    output_tokens: int
    """Tokens as reported by the provider; 0 if it reports none, and for a cached reply."""
    started: float
    ended: float
    """Seconds since the epoch."""


@dataclass
class CallBudget:
    """The limits of one node's model calls, and all calls made, including failed ones."""

    timeout: float = 120.0
    """Seconds for one call."""
    max_retries: int = 4
    """Retries of a failed call."""
    retry_wait: float = 1.0
    """Seconds before the first retry, doubled for each further one. Retry-After has precedence."""
    limits: CallLimits = field(default_factory=CallLimits)
    max_input_tokens: int | None = None
    """The model's input window; None for the model's own."""
    calls: list[ModelCall] = field(default_factory=list)


_Loop = asyncio.AbstractEventLoop
_places: dict[tuple[_Loop, int], asyncio.Semaphore] = {}
_rates: dict[tuple[_Loop, str, float], AsyncLimiter] = {}


@asynccontextmanager
async def call_slot(model: str, limits: CallLimits) -> AsyncIterator[None]:
    """Wait for the rate of a model and for a free place, and hold the place.

    Calls with equal limits on the same event loop share them.
    """
    loop = asyncio.get_running_loop()
    most, rate = limits.max_concurrent_calls, limits.requests_per_minute
    if rate is not None:
        # A bucket for a whole minute would allow a double burst in the first minute.
        await _rates.setdefault((loop, model, rate), AsyncLimiter(1, _MINUTE / rate)).acquire()
    async with _places.setdefault((loop, most), asyncio.Semaphore(most)):
        yield


class UsageSum(TypedDict):
    """The sum of several calls."""

    calls: int
    """Calls that were sent, including those that failed."""
    failed_calls: int
    """Calls that failed."""
    retries: int
    """Calls that repeated one that had failed."""
    cache_hits: int
    """Replies from the cache; they are not calls and cost nothing."""
    input_tokens: int
    """Input tokens, as the provider counts them."""
    cached_input_tokens: int
    """Input tokens that the provider had in its prompt cache."""
    output_tokens: int
    """Output tokens, as the provider counts them."""
    seconds: float
    """Wall time from the start of the first call to the end of the last."""


class Usage(UsageSum):
    """All calls of one answer, with an estimate for one call over the same documents.

    The paper compares the tokens that the map and vanilla read and write (Zhang et al., npj Digital
    Medicine 2025, equations 4 and 5). The vanilla call, which was not made, is estimated.
    """

    stages: dict[str, UsageSum]
    """The sums by node: `extract`, `reduce`, `vanilla`, `order_preserving` or `verify`."""
    models: dict[str, UsageSum]
    """The sums by model."""
    vanilla_input_tokens: int | None
    """Estimated input tokens of one call over the same documents; null if unknown."""
    input_ratio: float | None
    """Input tokens without those of the verification, divided by `vanilla_input_tokens`."""
    vanilla_output_tokens: int | None
    """Estimated output tokens of that call: the tokens of the answer and, after a map, of a quote
    of each document with evidence; null if no answer was written.
    """
    output_ratio: float | None
    """Output tokens without those of the verification, divided by `vanilla_output_tokens`."""


def model_call(
    stage: str,
    model: str,
    status: Status,
    times: tuple[float, float],
    characters: int,
    *,
    attempt: int = 1,
    tokens: UsageMetadata | None = None,
) -> ModelCall:
    """Return the record of a call, with the tokens that the provider reported."""
    details = tokens.get("input_token_details") if tokens else None
    return ModelCall(
        stage=stage,
        model=model,
        status=status,
        attempt=attempt,
        input_characters=characters,
        input_tokens=tokens["input_tokens"] if tokens else 0,
        cached_input_tokens=(details or {}).get("cache_read") or 0,
        output_tokens=tokens["output_tokens"] if tokens else 0,
        started=times[0],
        ended=times[1],
    )


def summarise(
    calls: Sequence[ModelCall],
    *,
    seconds: float,
    vanilla_input_tokens: int | None = None,
    vanilla_output_tokens: int | None = None,
) -> Usage:
    """Add up the calls of one answer: in all, by stage and by model."""
    total = _sum(calls)
    total["seconds"] = seconds
    compared = _sum([call for call in calls if call["stage"] != VERIFY])
    return Usage(
        **total,
        stages=_by((call["stage"], call) for call in calls),
        models=_by((call["model"], call) for call in calls),
        vanilla_input_tokens=vanilla_input_tokens,
        input_ratio=_ratio(compared["input_tokens"], vanilla_input_tokens),
        vanilla_output_tokens=vanilla_output_tokens,
        output_ratio=_ratio(compared["output_tokens"], vanilla_output_tokens),
    )


def _ratio(tokens: int, vanilla: int | None) -> float | None:
    return tokens / vanilla if vanilla else None


def _by(labelled: Iterable[tuple[str, ModelCall]]) -> dict[str, UsageSum]:
    groups: dict[str, list[ModelCall]] = {}
    for label, call in labelled:
        groups.setdefault(label, []).append(call)
    return {label: _sum(calls) for label, calls in groups.items()}


def _sum(calls: Sequence[ModelCall]) -> UsageSum:
    statuses = [call["status"] for call in calls]
    ended = max((call["ended"] for call in calls), default=0.0)
    return UsageSum(
        calls=len(calls) - statuses.count("cached"),
        failed_calls=statuses.count("failed"),
        retries=sum(call["attempt"] > 1 and call["status"] != "cached" for call in calls),
        cache_hits=statuses.count("cached"),
        input_tokens=sum(call["input_tokens"] for call in calls),
        cached_input_tokens=sum(call["cached_input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        seconds=ended - min((call["started"] for call in calls), default=0.0),
    )


def estimate_tokens(characters: int, calls: Sequence[ModelCall]) -> int | None:
    """Estimate the tokens of a prompt from earlier calls; None if none reported its tokens."""
    reported = [call for call in calls if call["input_tokens"]]
    seen = sum(call["input_characters"] for call in reported)
    tokens = sum(call["input_tokens"] for call in reported)
    return round(characters * tokens / seen) if seen else None
