"""Time, event loops and a gate under a test's control, for the tests of the limiter."""

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable, Iterator

from briefcontext.chains.limits import Clock, Gate

PATIENCE = 60.0
"""Seconds after which a test that hangs fails."""


class WatchedGate(Gate):
    """A gate that a test can wait for."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._changed = threading.Condition()

    def _change(self, change: Callable[[], None]) -> None:
        super()._change(change)
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, *, in_flight: int, waiting: int) -> None:
        """Wait until other threads have brought it there."""
        with self._changed:
            reached = self._changed.wait_for(lambda: (self.in_flight, self.waiting) == (in_flight, waiting), PATIENCE)
        assert reached, f"{self.in_flight} in flight and {self.waiting} waiting, not {in_flight} and {waiting}"


class SimulatedClock(Clock):
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.time = 0.0
        self._numbers = itertools.count()
        self._alarms: list[tuple[float, int]] = []
        self._rings: dict[int, Callable[[], None]] = {}

    def now(self) -> float:
        return self.time

    def call_later(self, seconds: float, ring: Callable[[], None]) -> Callable[[], None]:
        number = next(self._numbers)
        self._rings[number] = ring
        heapq.heappush(self._alarms, (self.time + seconds, number))
        return lambda: self._rings.pop(number, None) and None

    @property
    def alarms(self) -> int:
        return len(self._rings)

    def steps(self, seconds: float) -> Iterator[None]:
        """Advance, with a step at each alarm."""
        end = self.time + seconds
        while self._alarms and self._alarms[0][0] <= end:
            self.time, number = heapq.heappop(self._alarms)
            if ring := self._rings.pop(number, None):
                ring()
                yield
        self.time = end

    def advance(self, seconds: float) -> None:
        for _ in self.steps(seconds):
            pass


async def settle_loop() -> None:
    """Let every task of this loop run as far as it gets."""
    for _ in range(10):
        await asyncio.sleep(0)
