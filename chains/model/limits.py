"""Limits on model calls: how many at once in this process, and how many a minute.

Calls of one model start in the order in which they asked. The first of them waits for the model's rates, then for a
place in flight, and spends the rates as it takes the place: so no call holds a place while it waits for a rate, or
spends a rate while it waits for a place, and a model that has to wait for its rates holds up no other.

Places are given in the order in which they were asked for, also to calls with a smaller `max_concurrent_calls` than
those behind them: nothing starts meanwhile, so that as soon as enough of the calls in flight end, their wait does. Give
model calls a timeout for that reason, and never ask for a second place from within one.
"""

import asyncio
import heapq
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from briefcontext.chains.model.usage import ModelCall
from briefcontext.errors import ModelCallError

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits on the calls in flight and on their rates; each is above 0, as the settings see to."""

    max_concurrent_calls: int = 32
    """Model calls in flight at once in this process, over all models, questions, threads and event loops.

    A call that is given up is cancelled, and its connection closed. That of a model that has only a synchronous side
    counts no more, though its thread cannot be stopped and ends only with the client's own timeout: if it kept its
    place, a client without one could keep all places for good.
    """
    requests_per_minute: float | None = None
    """Calls of one model that start within any 60 seconds; below 1, for example 0.5, one call in 120 seconds."""
    tokens_per_minute: float | None = None
    """Tokens of the calls of one model that start within any 60 seconds.

    A call larger than that starts once no other is counted, and is counted for as many minutes as it takes.
    """


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
    deadline: float | None = None
    """When the whole question has to be answered, in seconds since the epoch."""
    limits: CallLimits = field(default_factory=CallLimits)
    max_input_tokens: int | None = None
    """The model's input window; None for what the model itself says."""
    min_quote_similarity: float = 90.0
    """Least similarity, 0 to 100, at which differing words count as a quote."""
    force_choice: bool = False
    """Whether a multiple-choice question must be answered with a letter, evidence or not."""
    calls: list[ModelCall] = field(default_factory=list)
    """The calls made so far."""

    def time_left(self, *, after: float = 0.0) -> float:
        """Return the seconds that a call may take that starts `after` seconds from now.

        Raises:
            ModelCallError: the deadline has passed by then.
        """
        left = self.time_to_deadline()
        if left is None:
            return self.timeout
        if left <= after:
            raise ModelCallError(
                "The deadline for the question leaves no time for a model call. "
                "Raise total_timeout, or ask for fewer documents."
            )
        return min(self.timeout, left - after)

    def time_to_deadline(self) -> float | None:
        """Return the seconds that the whole question still has; None without a deadline."""
        return None if self.deadline is None else self.deadline - time.time()


class _Window:
    """A sliding window over the calls of the last minute."""

    def __init__(self) -> None:
        self._spent: list[tuple[float, int]] = []  # a heap of (when it no longer counts, amount)
        self._total = 0

    def opens(self, amount: int, per_minute: float | None, now: float) -> float:
        """Return `now` if the amount may be spent, else when to ask again."""
        while self._spent and self._spent[0][0] <= now:
            self._total -= heapq.heappop(self._spent)[1]
        if per_minute is None or self._total <= 0 or self._total + amount <= per_minute:
            return now
        return self._spent[0][0]

    def spend(self, amount: int, per_minute: float | None, now: float) -> None:
        """Count the amount, for as many minutes as it takes."""
        until = now + _MINUTE * max(1.0, amount / per_minute if per_minute else 1.0)
        heapq.heappush(self._spent, (until, amount))
        self._total += amount


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
        self._tokens = _Window()

    @asynccontextmanager
    async def slot(self, limits: CallLimits, *, tokens: int, timeout: float | None = None) -> AsyncIterator[None]:
        """Hold a place in flight, after waiting for it.

        Args:
            limits: what this call waits for.
            tokens: an estimate of the tokens that it will take.
            timeout: seconds to wait for the place; at 0 or less, only a place that is free now is taken.

        Raises:
            TimeoutError: the wait took too long.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._take_place(limits, tokens)
        except TimeoutError:
            raise TimeoutError(
                f"No model call could start within {timeout} s, with {self._places.taken} in flight and {limits}. "
                "Allow more time, or higher limits."
            ) from None
        try:
            yield
        finally:
            self._places.give_back()

    async def _take_place(self, limits: CallLimits, tokens: int) -> None:
        now = asyncio.get_running_loop().time
        async with self._turn:
            while (wait := self._opens(limits, tokens, now()) - now()) > 0:
                await asyncio.sleep(wait)
            await self._places.take(limits.max_concurrent_calls)
            self._requests.spend(1, limits.requests_per_minute, now())
            self._tokens.spend(tokens, limits.tokens_per_minute, now())

    def _opens(self, limits: CallLimits, tokens: int, now: float) -> float:
        requests = self._requests.opens(1, limits.requests_per_minute, now)
        return max(requests, self._tokens.opens(tokens, limits.tokens_per_minute, now))


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
