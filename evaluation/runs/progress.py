"""Progress of a run on standard error: rate, time left, cost so far."""

import sys
import time
from dataclasses import dataclass
from typing import Self, TextIO

__all__ = ["CountedProgress", "Prices", "RunProgress"]

_SECONDS_BETWEEN_LINES = 5.0
_MILLION = 1_000_000
_TELLING = 5
"""How many have to be done before the rate tells the time left: the first one also opens the model and the base."""


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens; None where they are not known."""

    input: float | None = None
    output: float | None = None

    def cost(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return what the tokens cost in US dollars; None without prices."""
        if self.input is None and self.output is None:
            return None
        return (input_tokens * (self.input or 0) + output_tokens * (self.output or 0)) / _MILLION

    def words(self, input_tokens: float, output_tokens: float) -> str:
        """Return the cost, or the tokens where there are no prices."""
        cost = self.cost(input_tokens, output_tokens)
        return f"{input_tokens:,.0f} + {output_tokens:,.0f} tokens" if cost is None else f"${cost:,.2f}"


class CountedProgress:
    """Counts what is done; one line that is renewed on a terminal, else a line every few seconds.

    Args:
        what: what is counted, in the plural.
        total: how many there are; 0 while that is not known.
        done: how many were there already.
        stream: where to tell of it; standard error by default.
    """

    def __init__(self, what: str, total: int = 0, *, done: int = 0, stream: TextIO | None = None) -> None:
        self._what = what
        self._total, self._done, self._already = total, done, done
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._started = self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._already:
            self._write(f"{self._already} of {self._total} {self._what} are there already.")
        return self

    def __exit__(self, *_: object) -> None:
        if self._total:
            self._write(self.line())

    def reach(self, done: int, total: int) -> None:
        """Say how many are done, and of how many."""
        self._done, self._total = done, total
        now = time.monotonic()
        if self._live or now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            self._write(self.line(), end="" if self._live else "\n")

    def line(self) -> str:
        """Return how far the run is."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        made = self._done - self._already
        rate = made / seconds
        left = (self._total - self._done) / rate if made >= _TELLING else None
        parts = [f"{self._done} of {self._total} {self._what}", f"{rate:.1f}/s"]
        return ", ".join([*parts, *([f"{_duration(left)} left"] if left else [])])

    def _write(self, line: str, end: str = "\n") -> None:
        start = "\r\x1b[2K" if self._live else ""
        self._stream.write(f"{start}{line}{end}")
        self._stream.flush()


class RunProgress(CountedProgress):
    """Counts the answers of a run, with their calls and what those cost so far."""

    def __init__(self, total: int, prices: Prices, *, done: int = 0, stream: TextIO | None = None) -> None:
        super().__init__("answers", total, done=done, stream=stream)
        self._prices = prices
        self._failed = 0
        self.calls = self.input_tokens = self.output_tokens = 0

    def add(self, *, failed: bool, calls: int, input_tokens: int, output_tokens: int) -> None:
        """Count an answer, and the calls and tokens that were paid for it."""
        self._failed += failed
        self.calls += calls
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.reach(self._done + 1, self._total)

    def line(self) -> str:
        """Return how far the run is, and what it cost."""
        calls = f"{self.calls} {'call' if self.calls == 1 else 'calls'}"
        facts = [super().line(), calls, self._prices.words(self.input_tokens, self.output_tokens)]
        return ", ".join([*facts, f"{self._failed} failed"] if self._failed else facts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
