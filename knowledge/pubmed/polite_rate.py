"""A rate limit for requests to a server."""

import threading
import time
from collections.abc import Callable

__all__ = ["PoliteRate"]

_MARGIN = 1.1
"""Requests sent evenly arrive a little unevenly; 10 % more room keeps a server from counting one too many."""


class PoliteRate:
    """Spaces requests to a server evenly, over all threads that share it."""

    def __init__(
        self,
        per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Allow a rate from now on.

        Args:
            per_second: how many requests the server allows.
            clock: gives seconds, and never goes back.
            sleep: waits for so many seconds.
        """
        self.per_second = per_second
        self.interval = _MARGIN / per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next_turn = clock()

    def wait(self) -> None:
        """Return when it is this thread's turn to send a request."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next_turn)
            self._next_turn = turn + self.interval
        if turn > now:
            self._sleep(turn - now)

    def hold(self, seconds: float) -> None:
        """Give out no turn for so many seconds, to any thread: the server needs a rest."""
        with self._lock:
            self._next_turn = max(self._next_turn, self._clock() + seconds)
