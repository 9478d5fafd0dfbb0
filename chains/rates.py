"""How much the calls of one model may spend in a minute, and what they spent."""

import heapq
from dataclasses import dataclass

from briefcontext.errors import InputError

__all__ = ["CallLimits", "Rates"]

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What a call waits for.

    Raises:
        InputError: a limit is not positive.
    """

    max_in_flight: int = 32
    """Model calls in flight at once in this process, over all models, questions, threads and event loops.

    A synchronous call that is given up for its timeout counts no more, though its thread cannot be stopped and ends
    only with the client's own timeout: if it kept its place, a client without one could keep all places for good.
    An asynchronous call is cancelled, and its connection closed.
    """
    requests_per_minute: float | None = None
    """Calls of one model that start within any 60 seconds; below 1, for example 0.5, one call in 120 seconds."""
    tokens_per_minute: float | None = None
    """Tokens of the calls of one model that start within any 60 seconds.

    A call larger than that starts once no other is counted, and is counted for as many minutes as it takes.
    """

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise InputError(f"max_in_flight is {self.max_in_flight}. Allow at least 1 model call in flight.")
        for name in ("requests_per_minute", "tokens_per_minute"):
            rate = getattr(self, name)
            if rate is not None and not rate > 0:
                raise InputError(f"{name} is {rate}. Give a number above 0, or None for no limit.")


class _Window:
    """What the calls of the last minute spent of one rate."""

    def __init__(self) -> None:
        self._spent: list[tuple[float, int]] = []  # a heap of (when it no longer counts, amount)
        self._total = 0

    def opens(self, amount: int, per_minute: float | None, now: float) -> float:
        """Return `now` if the amount may be spent, else when to ask again."""
        while self._spent and self._spent[0][0] <= now:
            self._total -= heapq.heappop(self._spent)[1]
        if not self._spent:
            self._total = 0  # also after a Ctrl-C between the two halves of a sum
        if per_minute is None or self._total <= 0 or self._total + amount <= per_minute:
            return now
        return self._spent[0][0]

    def spend(self, amount: int, per_minute: float | None, now: float) -> None:
        """Count the amount, for as many minutes as it takes."""
        until = now + _MINUTE * max(1.0, amount / per_minute if per_minute else 1.0)
        heapq.heappush(self._spent, (until, amount))
        self._total += amount


class Rates:
    """What the calls of one model spent."""

    def __init__(self) -> None:
        self._requests = _Window()
        self._tokens = _Window()

    def opens(self, limits: CallLimits, tokens: int, now: float) -> float:
        """Return `now` if a call may start, else when to ask again."""
        return max(
            self._requests.opens(1, limits.requests_per_minute, now),
            self._tokens.opens(tokens, limits.tokens_per_minute, now),
        )

    def spend(self, limits: CallLimits, tokens: int, now: float) -> None:
        """Count a call that starts now."""
        self._requests.spend(1, limits.requests_per_minute, now)
        self._tokens.spend(tokens, limits.tokens_per_minute, now)
