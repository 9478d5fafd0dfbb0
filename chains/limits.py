"""How many model calls this process has in flight, and how many it starts a minute.

A call is admitted in one step: it takes its place in flight and spends its model's rates together, or it waits
for both. Hence no call holds a place while it waits for a rate, or spends a rate while it waits for a place. This is
why the rates are kept here too, as two sums over a minute: the limiters of LangChain, pyrate-limiter, limits,
throttled-py and aiolimiter each wait, or spend, on their own, cannot undo a spend when the other limit refuses, and
either poll, or are bound to one event loop, or keep no order between threads and loops.

Order of admission, over all threads and event loops:

- Calls of one model start in the order in which they asked.
- A call that waits for its model's rates holds up no other model's calls.
- A call that waits only for a place holds up everything behind it, so that a call with a small `max_in_flight` is
  never starved by later ones with a larger one. Nothing starts meanwhile, so that its wait ends, and with it that of
  those behind it, as soon as enough of the calls already in flight end. Give model calls a timeout for that reason,
  and never ask for a second place from within one.
"""

import asyncio
import itertools
import math
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from briefcontext.chains.rates import CallLimits, Rates
from briefcontext.errors import InputError

__all__ = ["Clock", "Gate", "Limiter", "limiter_for"]


class Clock:
    """The time, and an alarm."""

    def now(self) -> float:
        """Return the time in seconds; it never goes back."""
        return time.monotonic()

    def call_later(self, seconds: float, ring: Callable[[], None]) -> Callable[[], None]:
        """Have `ring` called once, in any thread, `seconds` from now; return what cancels it."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), ring)
        timer.daemon = True
        timer.start()
        return timer.cancel


@dataclass(eq=False, slots=True)
class _Call:
    """A call that waits or is in flight."""

    rates: Rates
    limits: CallLimits
    tokens: int
    wake: Callable[[bool], object]
    """Tells the one who waits: True to go, False that waiting cannot end."""
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop that runs it; None for a thread."""
    ticket: int = 0
    admitted: bool = False


class Gate:
    """The calls in flight and those that wait.

    Every change is queued, then made by whichever thread comes to it first. So the clean-up of an abandoned generator,
    which the garbage collector may run in the midst of a change, waits for that change to be complete and never for
    its own thread. A change can be made twice without harm and stays queued until it is complete, so that whatever
    Ctrl-C cuts short is made up for by the next change.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._changes: deque[Callable[[], None]] = deque()
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        self._in_flight: set[_Call] = set()
        self._waiting: dict[Rates, OrderedDict[_Call, None]] = {}
        self._tickets = itertools.count()
        self._alarm_at = math.inf
        self._cancel_alarm: Callable[[], None] = lambda: None

    @property
    def in_flight(self) -> int:
        """How many calls are in flight."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return sum(map(len, list(self._waiting.values())))

    @contextmanager
    def queued(self, call: _Call) -> Iterator[None]:
        """Queue a call, to be woken when it may start; take it back at the end, wherever it is by then."""
        try:
            try:
                self._change(partial(self._join, call))
                yield
            finally:
                self._change(partial(self._leave, call))
        finally:  # once more, as Ctrl-C may have kept the first from happening
            self._change(partial(self._leave, call))

    def refuse_behind(self, call: _Call, loop: asyncio.AbstractEventLoop) -> None:
        """Refuse a call that would wait in the thread of a loop whose own calls have to end first."""
        self._change(partial(self._refuse_behind, call, loop))

    def _change(self, change: Callable[[], None]) -> None:
        self._changes.append(change)
        with self._lock:
            if self._changing.locked():  # by this very thread, further up its stack, which goes on with this change
                return
            with self._changing:
                while self._changes:
                    self._changes[0]()
                    self._admit()
                    self._changes.popleft()

    def _join(self, call: _Call) -> None:
        if call not in self._in_flight:
            call.ticket = next(self._tickets)
            self._waiting.setdefault(call.rates, OrderedDict())[call] = None

    def _leave(self, call: _Call) -> None:
        self._in_flight.discard(call)
        self._unqueue(call)

    def _unqueue(self, call: _Call) -> None:
        calls = self._waiting.get(call.rates)
        if calls is not None:
            calls.pop(call, None)
            if not calls:
                del self._waiting[call.rates]

    def _refuse_behind(self, call: _Call, loop: asyncio.AbstractEventLoop) -> None:
        others = itertools.chain(self._in_flight, *self._waiting.values())
        if not call.admitted and any(other.loop is loop for other in others):
            call.wake(False)
            self._unqueue(call)

    def _rang(self) -> None:
        self._alarm_at = math.inf

    def _admit(self) -> None:
        """Start every call that may start now, and set the alarm for the first that a rate holds back."""
        now = self._clock.now()
        alarm_at = math.inf
        held_back: set[Rates] = set()
        while firsts := [
            next(iter(calls)) for rates, calls in self._waiting.items() if calls and rates not in held_back
        ]:
            call = min(firsts, key=attrgetter("ticket"))
            opens = call.rates.opens(call.limits, call.tokens, now)
            if opens > now:
                held_back.add(call.rates)
                alarm_at = min(alarm_at, opens)
            elif len(self._in_flight) < call.limits.max_in_flight:
                self._start(call, now)
            elif not self._reclaim():
                break
        if alarm_at < self._alarm_at:
            self._cancel_alarm()
            self._cancel_alarm = self._clock.call_later(alarm_at - now, partial(self._change, self._rang))
            self._alarm_at = alarm_at

    def _start(self, call: _Call, now: float) -> None:
        self._in_flight.add(call)
        call.admitted = True
        try:
            call.wake(True)
        except RuntimeError:  # its event loop is closed: nobody waits any more
            self._leave(call)
            return
        call.rates.spend(call.limits, call.tokens, now)
        self._unqueue(call)

    def _reclaim(self) -> bool:
        """Take back the places of calls whose event loop was closed under them."""
        dead = [call for call in self._in_flight if call.loop is not None and call.loop.is_closed()]
        self._in_flight.difference_update(dead)
        return bool(dead)


_PROCESS = Gate()


class Limiter:
    """Admits the calls of one model.

    Rates are the model's own. Calls in flight are those of all the limiters of a gate; unless told otherwise, that is
    the one gate of the process.
    """

    def __init__(self, gate: Gate = _PROCESS) -> None:
        self._gate = gate
        self._rates = Rates()

    @contextmanager
    def slot(self, limits: CallLimits, *, tokens: int, timeout: float | None = None) -> Iterator[None]:
        """Hold a place in flight, after waiting for it in this thread.

        Args:
            limits: what this call waits for.
            tokens: an estimate of the tokens that it will take.
            timeout: seconds to wait for the place; at 0 or less, only a place that is free now is taken.

        Raises:
            TimeoutError: the wait took too long.
            InputError: it would wait in the thread of a running event loop, for calls that this loop has to finish.
        """
        answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        call = _Call(self._rates, limits, tokens, wake=answers.put)
        with self._gate.queued(call):
            loop = _running_loop()
            if loop is not None:
                self._gate.refuse_behind(call, loop)
            try:
                go = answers.get(timeout=None if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX))
            except queue.Empty:
                raise self._late(limits, timeout) from None
            if not go:
                raise InputError(
                    "A model call would wait, in the thread of a running event loop, for calls that this loop has to "
                    "finish. Use the async methods there, or make the call in another thread."
                )
            yield

    @asynccontextmanager
    async def aslot(self, limits: CallLimits, *, tokens: int, timeout: float | None = None) -> AsyncIterator[None]:
        """Do as `slot` does, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        call = _Call(self._rates, limits, tokens, wake=lambda _: loop.call_soon_threadsafe(_resolve, woken), loop=loop)
        with self._gate.queued(call):
            if not call.admitted:
                try:
                    async with asyncio.timeout(timeout):
                        await woken
                except TimeoutError:
                    raise self._late(limits, timeout) from None
            yield

    def _late(self, limits: CallLimits, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"No model call could start within {timeout} s, with {self._gate.in_flight} in flight and {limits}. "
            "Allow more time, or higher limits."
        )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


_LIMITERS: dict[str, Limiter] = {}


def limiter_for(name: str) -> Limiter:
    """Return the one limiter of this process for a model, named by its name and base URL."""
    return _LIMITERS.setdefault(name, Limiter())
