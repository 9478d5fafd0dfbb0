"""Limits of model calls: the number in flight, and the number started per minute."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiolimiter import AsyncLimiter

from briefcontext.chains.model.usage import ModelCall

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of calls in flight and of their rate, each above 0."""

    max_concurrent_calls: int = 32
    """Concurrent model calls of this process, over all models and graphs with this limit."""
    requests_per_minute: float | None = None
    """Calls of one model started per minute, evenly spaced; 0.5 is one call in 120 seconds."""


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
    """The calls made so far."""


_Loop = asyncio.AbstractEventLoop
_places: dict[tuple[_Loop, int], asyncio.Semaphore] = {}
_rates: dict[tuple[_Loop, str, float], AsyncLimiter] = {}


@asynccontextmanager
async def call_slot(model: str, limits: CallLimits) -> AsyncIterator[None]:
    """Wait for the rate of a model and for a free place, and hold the place.

    Args:
        model: The model's name and base URL.
        limits: Calls with equal limits on the same event loop share them.
    """
    loop = asyncio.get_running_loop()
    most, rate = limits.max_concurrent_calls, limits.requests_per_minute
    if rate is not None:
        # A bucket for a whole minute would allow a double burst in the first minute.
        await _rates.setdefault((loop, model, rate), AsyncLimiter(1, _MINUTE / rate)).acquire()
    async with _places.setdefault((loop, most), asyncio.Semaphore(most)):
        yield
