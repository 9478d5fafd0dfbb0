"""The limiter under calls that come, end, are cancelled and wait in any order."""

import asyncio
from dataclasses import dataclass

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from briefcontext.chains.model.limits import CallLimits, Limiter, Places
from tests.limiter_testing import SimulatedLoop


@dataclass(eq=False)
class Asked:
    """A call of the state machine below."""

    model: int
    limits: CallLimits
    end: asyncio.Event
    task: "asyncio.Task[None] | None" = None
    started: float | None = None


RATES = [None, 1.0, 2.0, 3.5, 0.4]


class LimiterMachine(RuleBasedStateMachine):
    """Calls that come, end, are cancelled, and pass the time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = SimulatedLoop()
        self.places = Places()
        self.limiters = [Limiter(self.places) for _ in RATES]
        self.waiting: list[Asked] = []
        self.in_flight: list[Asked] = []
        self.spent: list[Asked] = []

    async def _call(self, asked: Asked) -> None:
        async with self.limiters[asked.model].slot(asked.limits):
            earlier = self.waiting[: self.waiting.index(asked)]
            assert all(other.model != asked.model for other in earlier)
            assert self._rate_allows(asked)
            asked.started = self.loop.now
            self.waiting.remove(asked)
            self.in_flight.append(asked)
            self.spent.append(asked)
            try:
                await asked.end.wait()
            finally:
                self.in_flight.remove(asked)

    def _rate_allows(self, asked: Asked) -> bool:
        rate = asked.limits.requests_per_minute
        if rate is None:
            return True
        times = [other.started or 0.0 for other in self.spent if other.model == asked.model]
        counted = sum(self.loop.now < time + 60 * max(1.0, 1 / rate) for time in times)
        return not counted or counted + 1 <= rate

    @rule(
        model=st.integers(0, len(RATES) - 1),
        max_concurrent_calls=st.integers(1, 4),
    )
    def ask(self, model: int, max_concurrent_calls: int) -> None:
        asked = Asked(model, CallLimits(max_concurrent_calls, RATES[model]), asyncio.Event())
        self.waiting.append(asked)
        asked.task = self.loop.create_task(self._call(asked))
        self.loop.settle()

    @precondition(lambda self: self.in_flight)
    @rule(choice=st.integers(0, 100))
    def end(self, choice: int) -> None:
        self.in_flight[choice % len(self.in_flight)].end.set()
        self.loop.settle()

    @precondition(lambda self: self.waiting)
    @rule(choice=st.integers(0, 100), place=st.none() | st.integers(0, 100))
    def cancel(self, choice: int, place: int | None) -> None:
        """Cancel a call that waits, in the same turn of the loop as another ends, if one is to."""
        if place is not None and self.in_flight:
            self.in_flight[place % len(self.in_flight)].end.set()
            self.loop.run_until_complete(asyncio.sleep(0))
        if not self.waiting:
            return
        asked = self.waiting[choice % len(self.waiting)]
        assert asked.task is not None
        self.waiting.remove(asked)
        asked.task.cancel()
        self.loop.settle()
        assert asked.task.cancelled()

    @rule(seconds=st.sampled_from([1.0, 29.5, 60.0, 150.0]))
    def wait(self, seconds: float) -> None:
        self.loop.advance(seconds)

    @invariant()
    def counts_agree(self) -> None:
        assert self.places.taken == len(self.in_flight)

    @invariant()
    def no_call_exceeded_its_own_limit(self) -> None:
        for place, asked in enumerate(self.in_flight, start=1):
            assert place <= asked.limits.max_concurrent_calls

    @invariant()
    def nothing_waits_without_need(self) -> None:
        firsts = {asked.model: asked for asked in reversed(self.waiting)}
        ready = [
            asked
            for asked in self.waiting
            if asked is firsts[asked.model] and self._rate_allows(asked)
        ]
        assert not ready or any(
            len(self.in_flight) >= asked.limits.max_concurrent_calls for asked in ready
        )

    def teardown(self) -> None:
        for _ in range(1000):
            if not (self.waiting or self.in_flight):
                break
            for asked in list(self.in_flight):
                asked.end.set()
            self.wait(60.0)
            self.loop.settle()
        self.counts_agree()
        assert not self.waiting
        assert not self.in_flight
        self.loop.close()


TestLimiterMachine = LimiterMachine.TestCase
TestLimiterMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
