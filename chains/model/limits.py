"""Limits on model calls: how many at once in this process, and how many a minute.

Calls of one model start in the order in which they asked. The first of them waits for the model's
rates, then for a
place in flight, and spends the rates as it takes the place: so no call holds a place while it waits
for a rate, or spends a rate while it waits for a place, and a model that has to wait for its rates
holds up no other.

Places are given in the order in which they were asked for, also to calls with a smaller
`max_concurrent_calls` than
those behind them: nothing starts meanwhile, so that as soon as enough of the calls in flight end,
their wait does. Give model calls a timeout for that reason, and never ask for a second place from
within one.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from briefcontext.chains.model.usage import ModelCall

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits on the calls in flight and on their rates; each is above 0, as the settings see to."""

    max_concurrent_calls: int = 32
    """Model calls in flight at once in this process, over all models, questions, threads and event loops.

    A call that is given up is cancelled, and its connection closed. That of a model that has only a
    synchronous side counts no more, though its thread cannot be stopped and ends only with the
    client's own timeout: if it kept its place, a client without one could keep all places for good.
    """
    requests_per_minute: float | None = None
    """Calls of one model that start within any 60 seconds; below 1, for example 0.5, one call in 120 seconds."""


@dataclass
class CallBudget:
    """The limits of one node's model calls, and the calls made.

    The record is complete also when the reading ends in an error.
    """

    timeout: float = 120.0
    """Seconds for one call."""
    max_retries: int = 4
    """How often a call that failed is tried again."""
    retry_wait: float = 1.0
    """Seconds before the first retry, doubled for each further one; a reply's Retry-After counts more."""
    limits: CallLimits = field(default_factory=CallLimits)
    max_input_tokens: int | None = None
    """The model's input window; None for what the model itself says."""
    calls: list[ModelCall] = field(default_factory=list)
    """The calls made so far."""


class _Window:
    """The calls of the last minute."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque()

    def opens(self, per_minute: float | None, now: float) -> float:
        """Return `now` if a call may start, else when to ask again."""
        while self._ends and self._ends[0] <= now:
            self._ends.popleft()
        if per_minute is None or not self._ends or len(self._ends) + 1 <= per_minute:
            return now
        return self._ends[0]

    def spend(self, per_minute: float | None, now: float) -> None:
        """Count a call for a minute, or longer if less than one call a minute may start."""
        self._ends.append(now + _MINUTE * max(1.0, 1 / per_minute if per_minute else 1.0))


class Places:
    """The places for calls in flight, shared by all models on one event loop."""

    def __init__(self) -> None:
        self.taken = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, most: int) -> None:
        """Wait until fewer than `most` are taken, and take one."""
        async with self._turn:
            while self.taken >= most:
                self._freed.clear()
                await self._freed.wait()
            self.taken += 1

    def give_back(self) -> None:
        """Let another call have the place."""
        self.taken -= 1
        self._freed.set()


class Limiter:
    """Admits the calls of one model; their places are shared with all models."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._turn = asyncio.Lock()
        self._requests = _Window()

    @asynccontextmanager
    async def slot(self, limits: CallLimits) -> AsyncIterator[None]:
        """Wait for a place in flight, and hold it."""
        now = asyncio.get_running_loop().time
        rate = limits.requests_per_minute
        async with self._turn:
            while (wait := self._requests.opens(rate, now()) - now()) > 0:
                await asyncio.sleep(wait)
            await self._places.take(limits.max_concurrent_calls)
            self._requests.spend(rate, now())
        try:
            yield
        finally:
            self._places.give_back()


_places = Places()
_limiters: dict[str, Limiter] = {}


def limiter_for(name: str) -> Limiter:
    """Return the one limiter of this process for a model, named by its name and base URL; for its event loop only."""
    return _limiters.setdefault(name, Limiter(_places))


def _forget() -> None:
    """Begin anew in a forked process, in which none of these calls is in flight."""
    global _places
    _places = Places()
    _limiters.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
