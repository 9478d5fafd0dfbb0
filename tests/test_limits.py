"""Limits on model calls: places in flight, and calls that start in a minute."""

import asyncio
from itertools import pairwise

import pytest

from briefcontext.chains.model.usage import CallLimits, call_slot
from briefcontext.errors import InputError
from briefcontext.graphs.settings import Settings


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


async def start_times(model: str, limits: CallLimits, count: int) -> list[float]:
    """Start calls that take no time all at once; return the seconds after which each began."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    times: list[float] = []

    async def call() -> None:
        async with call_slot(model, limits):
            times.append(loop.time() - began)

    await asyncio.gather(*(call() for _ in range(count)))
    return times


async def waits(model: str, limits: CallLimits) -> bool:
    """Return whether a call would have to wait."""
    try:
        async with asyncio.timeout(0), call_slot(model, limits):
            return False
    except TimeoutError:
        return True


@pytest.mark.parametrize("most", [1, 3])
async def test_calls_in_flight_reach_the_limit_and_never_exceed_it(most: int) -> None:
    inside, peak = 0, 0

    async def call(number: int) -> None:
        nonlocal inside, peak
        async with call_slot(f"model {number % 2}", CallLimits(most)):
            inside += 1
            peak = max(peak, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(call(number) for number in range(20)))
    assert (inside, peak) == (0, most)


async def test_a_call_that_fails_or_is_cancelled_frees_its_place() -> None:
    limits = CallLimits(1)
    with pytest.raises(ZeroDivisionError):
        async with call_slot("model", limits):
            _ = 1 / 0

    async def endless() -> None:
        async with call_slot("model", limits):
            await asyncio.Event().wait()

    task = asyncio.create_task(endless())
    await asyncio.sleep(0)
    assert await waits("model", limits)
    task.cancel()
    await asyncio.wait([task])
    assert not await waits("model", limits)


async def test_calls_of_one_model_start_evenly_spaced() -> None:
    times = await start_times("model", CallLimits(requests_per_minute=600), 4)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert times[0] < 0.1
    assert all(gap >= 0.09 for gap in gaps)


async def test_a_rate_holds_up_its_own_model_only() -> None:
    limits = CallLimits(max_concurrent_calls=1, requests_per_minute=0.5)
    assert [await waits(model, limits) for model in ("slow", "slow", "other")] == [
        False,
        True,
        False,
    ]


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
