"""How many model calls may start within a minute."""

import asyncio
from collections.abc import Iterator

import pytest

from briefcontext.chains.model.limits import CallLimits, Limiter, Places
from briefcontext.errors import InputError
from briefcontext.graphs.settings import Settings
from tests.limiter_testing import SimulatedLoop


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_concurrent_calls", 0),
        ("max_concurrent_calls", -1),
        ("requests_per_minute", 0),
        ("requests_per_minute", -2.5),
        ("requests_per_minute", float("nan")),
    ],
)
def test_a_limit_that_lets_nothing_through_is_refused(setting: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{setting} = {value}"):
        Settings(**{setting: value})


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop()
    yield loop
    loop.close()


async def call(limiter: Limiter, limits: CallLimits, timeout: float | None = 0) -> None:
    """Make a call that takes no time; by default one that does not wait."""
    async with asyncio.timeout(timeout), limiter.slot(limits):
        pass


def admitted(loop: SimulatedLoop, limiter: Limiter, limits: CallLimits) -> int:
    """Make calls until one would have to wait; return how many there were."""
    for count in range(1000):
        try:
            loop.run_until_complete(call(limiter, limits))
        except TimeoutError:
            return count
    raise AssertionError("Nothing limits these calls.")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (CallLimits(requests_per_minute=3), {0: 3, 59.9: 0, 60: 3, 61: 0, 119.9: 0, 120: 3}),
        (CallLimits(requests_per_minute=1.5), {0: 1, 59.9: 0, 60: 1}),
        (CallLimits(requests_per_minute=0.5), {0: 1, 60: 0, 119.9: 0, 120: 1}),
    ],
)
def test_rates_admit_exactly_as_many_as_they_should(
    limits: CallLimits, expected: dict[float, int], loop: SimulatedLoop
) -> None:
    limiter = Limiter(Places())
    found = {}
    for time in expected:
        loop.advance(time - loop.now)
        found[time] = admitted(loop, limiter, limits)
    assert found == expected


def test_a_minute_is_any_sixty_seconds(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    limits = CallLimits(requests_per_minute=2)
    loop.run_until_complete(call(limiter, limits))
    loop.advance(30)
    assert admitted(loop, limiter, limits) == 1
    loop.advance(30)
    assert admitted(loop, limiter, limits) == 1


def test_waiting_calls_start_when_their_rate_allows(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    started: list[int] = []

    async def numbered(number: int) -> None:
        async with limiter.slot(CallLimits(requests_per_minute=4)):
            started.append(number)

    tasks = [loop.create_task(numbered(number)) for number in range(10)]
    counts = []
    for seconds in (0, 59, 1, 59, 1):
        loop.advance(seconds)
        counts.append(len(started))
    assert counts == [4, 4, 8, 8, 10]
    assert all(task.done() for task in tasks)
    assert started == list(range(10))


def test_a_wait_for_a_rate_takes_no_place_and_holds_up_no_other_model(loop: SimulatedLoop) -> None:
    places = Places()
    slow, fast = Limiter(places), Limiter(places)
    limits = CallLimits(max_concurrent_calls=1, requests_per_minute=1)
    loop.run_until_complete(call(slow, limits))
    task = loop.create_task(call(slow, limits, timeout=None))
    loop.settle()
    assert places.taken == 0
    loop.run_until_complete(call(fast, limits))
    assert not task.done()
    task.cancel()
    loop.settle()
    assert task.cancelled()


def test_a_wait_for_a_place_spends_no_rate(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    limits = CallLimits(max_concurrent_calls=1, requests_per_minute=2)

    async def main() -> None:
        async with limiter.slot(limits):
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await call(limiter, limits)

    loop.run_until_complete(main())
    assert admitted(loop, limiter, limits) == 1


def test_calls_without_rates_count_for_those_with(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    for _ in range(3):
        loop.run_until_complete(call(limiter, CallLimits()))
    assert admitted(loop, limiter, CallLimits(requests_per_minute=5)) == 2


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("topk", "top_k"),
        ("include_retraced", "include_retracted"),
        ("Model", "model"),
        ("iou", "Known: route"),
    ],
)
def test_an_unknown_setting_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InputError, match=rf"no setting '{name}'.*{nearest}"):
        Settings(**{name: 1})


def test_a_calibration_takes_the_dense_ranking() -> None:
    assert Settings(preflight="my.json").retrieval == "dense"
