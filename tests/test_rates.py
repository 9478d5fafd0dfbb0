"""How many model calls may start within a minute."""

import asyncio

import pytest

from briefcontext.chains.limits import Gate, Limiter
from briefcontext.chains.rates import CallLimits
from briefcontext.errors import InputError
from tests.limiter_testing import SimulatedClock, settle_loop


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_in_flight", 0),
        ("max_in_flight", -1),
        ("requests_per_minute", 0),
        ("requests_per_minute", -2.5),
        ("tokens_per_minute", 0.0),
        ("tokens_per_minute", float("nan")),
    ],
)
def test_a_limit_that_lets_nothing_through_is_refused(setting: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{setting} is {value}"):
        CallLimits(**{setting: value})  # type: ignore[arg-type]


def admitted(limiter: Limiter, limits: CallLimits, tokens: int) -> int:
    """Make calls until one would have to wait; return how many there were."""
    for count in range(1000):
        try:
            with limiter.slot(limits, tokens=tokens, timeout=0):
                pass
        except TimeoutError:
            return count
    raise AssertionError("Nothing limits these calls.")


@pytest.mark.parametrize(
    ("limits", "tokens", "expected"),
    [
        (CallLimits(requests_per_minute=3), 0, {0: 3, 59.9: 0, 60: 3, 61: 0, 119.9: 0, 120: 3}),
        (CallLimits(requests_per_minute=1.5), 0, {0: 1, 59.9: 0, 60: 1}),
        (CallLimits(requests_per_minute=0.5), 0, {0: 1, 60: 0, 119.9: 0, 120: 1}),
        (CallLimits(tokens_per_minute=1000), 300, {0: 3, 59.9: 0, 60: 3}),
        (CallLimits(tokens_per_minute=1000), 1000, {0: 1, 59.9: 0, 60: 1}),
        (CallLimits(tokens_per_minute=1000), 2500, {0: 1, 60: 0, 149.9: 0, 150: 1}),
        (CallLimits(requests_per_minute=5, tokens_per_minute=1000), 300, {0: 3, 60: 3}),
        (CallLimits(requests_per_minute=2, tokens_per_minute=1000), 300, {0: 2, 60: 2}),
    ],
)
def test_rates_admit_exactly_as_many_as_they_should(
    limits: CallLimits, tokens: int, expected: dict[float, int]
) -> None:
    clock = SimulatedClock()
    limiter = Limiter(Gate(clock))
    found = {}
    for time in expected:
        clock.advance(time - clock.time)
        found[time] = admitted(limiter, limits, tokens)
    assert found == expected


def test_a_minute_is_any_sixty_seconds() -> None:
    clock = SimulatedClock()
    limiter = Limiter(Gate(clock))
    limits = CallLimits(requests_per_minute=2)
    with limiter.slot(limits, tokens=0):
        clock.advance(30)
    assert admitted(limiter, limits, 0) == 1
    clock.advance(30)
    assert admitted(limiter, limits, 0) == 1


async def test_waiting_calls_start_when_their_rate_allows() -> None:
    clock = SimulatedClock()
    gate = Gate(clock)
    limiter = Limiter(gate)
    started: list[int] = []

    async def call(number: int) -> None:
        async with limiter.aslot(CallLimits(requests_per_minute=4), tokens=1):
            started.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(10)]
    counts = []
    for seconds in (0, 59, 1, 59, 1):
        clock.advance(seconds)
        await settle_loop()
        counts.append(len(started))
        assert clock.alarms <= 1
    assert counts == [4, 4, 8, 8, 10]
    await asyncio.gather(*tasks)
    assert started == list(range(10))


async def test_a_wait_for_a_rate_takes_no_place_and_holds_up_no_other_model() -> None:
    gate = Gate(SimulatedClock())
    slow, fast = Limiter(gate), Limiter(gate)
    limits = CallLimits(max_in_flight=1, requests_per_minute=1)

    async def call() -> None:
        async with slow.aslot(limits, tokens=1):
            pass

    await call()
    task = asyncio.create_task(call())
    await settle_loop()
    assert (gate.in_flight, gate.waiting) == (0, 1)
    async with fast.aslot(limits, tokens=1, timeout=0):
        pass
    task.cancel()
    await asyncio.wait([task])
    assert gate.waiting == 0


async def test_a_wait_for_a_place_spends_no_rate() -> None:
    gate = Gate(SimulatedClock())
    limiter = Limiter(gate)
    limits = CallLimits(max_in_flight=1, requests_per_minute=2)
    with limiter.slot(limits, tokens=1):
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with limiter.aslot(limits, tokens=1, timeout=0):
                    pass
    assert admitted(limiter, limits, 1) == 1


def test_calls_without_rates_count_for_those_with() -> None:
    limiter = Limiter(Gate(SimulatedClock()))
    for _ in range(3):
        with limiter.slot(CallLimits(), tokens=200):
            pass
    assert admitted(limiter, CallLimits(requests_per_minute=5), 200) == 2
    assert admitted(limiter, CallLimits(tokens_per_minute=1300), 100) == 3
