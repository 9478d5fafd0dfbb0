"""How many model calls may start within a minute."""

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
        ("tokens_per_minute", 0.0),
        ("tokens_per_minute", float("nan")),
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


async def call(limiter: Limiter, limits: CallLimits, tokens: int, timeout: float | None = 0) -> None:
    """Make a call that takes no time; by default one that does not wait."""
    async with limiter.slot(limits, tokens=tokens, timeout=timeout):
        pass


def admitted(loop: SimulatedLoop, limiter: Limiter, limits: CallLimits, tokens: int) -> int:
    """Make calls until one would have to wait; return how many there were."""
    for count in range(1000):
        try:
            loop.run_until_complete(call(limiter, limits, tokens))
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
    limits: CallLimits, tokens: int, expected: dict[float, int], loop: SimulatedLoop
) -> None:
    limiter = Limiter(Places())
    found = {}
    for time in expected:
        loop.advance(time - loop.now)
        found[time] = admitted(loop, limiter, limits, tokens)
    assert found == expected


def test_a_minute_is_any_sixty_seconds(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    limits = CallLimits(requests_per_minute=2)
    loop.run_until_complete(call(limiter, limits, 0))
    loop.advance(30)
    assert admitted(loop, limiter, limits, 0) == 1
    loop.advance(30)
    assert admitted(loop, limiter, limits, 0) == 1


def test_waiting_calls_start_when_their_rate_allows(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    started: list[int] = []

    async def numbered(number: int) -> None:
        async with limiter.slot(CallLimits(requests_per_minute=4), tokens=1):
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
    loop.run_until_complete(call(slow, limits, 1))
    task = loop.create_task(call(slow, limits, 1, timeout=None))
    loop.settle()
    assert places.taken == 0
    loop.run_until_complete(call(fast, limits, 1))
    assert not task.done()
    task.cancel()
    loop.settle()
    assert task.cancelled()


def test_a_wait_for_a_place_spends_no_rate(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    limits = CallLimits(max_concurrent_calls=1, requests_per_minute=2)

    async def main() -> None:
        async with limiter.slot(limits, tokens=1):
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await call(limiter, limits, 1)

    loop.run_until_complete(main())
    assert admitted(loop, limiter, limits, 1) == 1


def test_calls_without_rates_count_for_those_with(loop: SimulatedLoop) -> None:
    limiter = Limiter(Places())
    for _ in range(3):
        loop.run_until_complete(call(limiter, CallLimits(), 200))
    assert admitted(loop, limiter, CallLimits(requests_per_minute=5), 200) == 2
    assert admitted(loop, limiter, CallLimits(tokens_per_minute=1300), 100) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("call_timeout", "model_timeout"),
        ("deadline", "total_timeout"),
        ("keep_retracted", "include_retracted"),
        ("max_in_flight", "max_concurrent_calls"),
        ("quote_similarity", "min_quote_similarity"),
    ],
)
def test_a_setting_by_its_old_name_is_told_its_new_one(old: str, new: str) -> None:
    assert new in Settings.model_fields
    with pytest.raises(InputError, match=f"the setting '{old}' is now called '{new}'"):
        Settings(**{old: 1})


def test_a_file_given_as_the_preflight_is_told_where_it_belongs() -> None:
    with pytest.raises(InputError, match=r"preflight = 'my\.json': it is 'iou' or 'calibrated' \(a file: calibration_"):
        Settings(preflight="my.json")
    assert Settings(calibration_file="my.json").preflight == "calibrated"


def test_a_calibration_that_the_preflight_would_not_read_is_refused() -> None:
    with pytest.raises(InputError, match=r"'iou' reads no calibration_file, and my\.json is given\. Leave out one"):
        Settings(preflight="iou", calibration_file="my.json")
