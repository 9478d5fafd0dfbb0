"""The event loop of model calls, and its limits."""

import asyncio
import os
import signal
import threading

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.event_loop import on_loop, wait_for
from briefcontext.chains.model.usage import CallBudget, CallLimits, call_slot
from briefcontext.errors import InputError, ModelCallError
from briefcontext.graphs.settings import Settings
from tests.loopback import PATIENCE
from tests.openai_server import OpenAIServer, Reply

HELLO = Request("vanilla", [HumanMessage("Hello?")])


async def thread() -> threading.Thread:
    return threading.current_thread()


def test_threads_and_event_loops_work_on_the_same_loop() -> None:
    threads = {
        wait_for(thread()),
        asyncio.run(on_loop(thread())),
        asyncio.run(on_loop(on_loop(thread()))),
    }
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_a_caller_that_is_cancelled_cancels_its_work_and_waits_for_its_end() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    task = asyncio.create_task(on_loop(endless()))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert ended.is_set()


def test_ctrl_c_cancels_the_work_and_waits_for_its_end() -> None:
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = threading.Event()

    async def endless() -> None:
        # By then the caller waits.
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            wait_for(endless())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_a_synchronous_method_in_the_event_loop_is_refused() -> None:
    async def wait() -> None:
        wait_for(thread())

    with pytest.raises(InputError, match="Use the async methods"):
        wait_for(wait())


def test_a_timed_out_call_leaves_no_thread_and_no_connection(server: OpenAIServer) -> None:
    chat = ChatOpenAI(model="held", base_url=server.url, api_key="none", max_retries=0)
    # The first call loads the client's modules, which may take longer than a call may take here.
    wait_for(Model(chat).ask(HELLO, CallBudget()))
    server.script = lambda call: Reply(hold=True)
    before = set(threading.enumerate())
    with pytest.raises(ModelCallError, match="no reply in time"):
        wait_for(Model(chat).ask(HELLO, CallBudget(timeout=1, max_retries=0)))
    assert set(threading.enumerate()) <= before
    assert server.hung_up.acquire(timeout=PATIENCE)


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


async def test_a_rate_limit_applies_to_one_model() -> None:
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
