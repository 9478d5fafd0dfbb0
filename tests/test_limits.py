"""Places in flight, over threads and event loops."""

import asyncio
import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from briefcontext.chains.limits import Clock, Gate, Limiter, limiter_for
from briefcontext.chains.rates import CallLimits
from briefcontext.errors import InputError
from tests.limiter_testing import PATIENCE, SimulatedClock, WatchedGate, settle_loop

ONE = CallLimits(max_in_flight=1)


@pytest.fixture
def gate() -> Iterator[WatchedGate]:
    gate = WatchedGate()
    yield gate
    assert (gate.in_flight, gate.waiting) == (0, 0)


@pytest.fixture
def limiter(gate: WatchedGate) -> Limiter:
    return Limiter(gate)


class Crowd:
    """Calls that stay in flight until told to go, and the most that ever were in flight."""

    def __init__(self, limiter: Limiter, limits: CallLimits) -> None:
        self.limiter = limiter
        self.limits = limits
        self.go = threading.Event()
        self.inside = 0
        self.peak = 0
        self.done = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        with self._lock:
            self.inside += 1
            self.peak = max(self.peak, self.inside)
        yield
        with self._lock:
            self.inside -= 1
            self.done += 1

    def call(self) -> None:
        with self.limiter.slot(self.limits, tokens=1), self.counted():
            assert self.go.wait(PATIENCE)

    async def acall(self) -> None:
        async with self.limiter.aslot(self.limits, tokens=1):
            with self.counted():
                if not self.go.is_set():
                    assert await asyncio.to_thread(self.go.wait, PATIENCE)
                await asyncio.sleep(0)

    def loop(self, tasks: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(self.acall() for _ in range(tasks)))

        asyncio.run(main())


@pytest.mark.parametrize(
    ("threads", "loops", "tasks"),
    [(200, 0, 0), (0, 1, 200), (100, 1, 100), (60, 2, 70)],
    ids=["threads", "tasks", "threads and tasks", "threads and two event loops"],
)
def test_calls_in_flight_reach_the_limit_and_never_exceed_it(
    gate: WatchedGate, limiter: Limiter, threads: int, loops: int, tasks: int
) -> None:
    total = threads + loops * tasks
    crowd = Crowd(limiter, CallLimits(max_in_flight=8))
    workers = [threading.Thread(target=crowd.call) for _ in range(threads)]
    workers += [threading.Thread(target=crowd.loop, args=(tasks,)) for _ in range(loops)]
    for worker in workers:
        worker.start()
    gate.wait_until(in_flight=8, waiting=total - 8)
    crowd.go.set()
    for worker in workers:
        worker.join(PATIENCE)
    assert crowd.done == total
    assert crowd.peak <= 8


def test_calls_in_flight_are_counted_over_all_models(gate: WatchedGate) -> None:
    with (
        Limiter(gate).slot(ONE, tokens=1),
        pytest.raises(TimeoutError),
        Limiter(gate).slot(ONE, tokens=1, timeout=0),
    ):
        pass


def test_one_limiter_serves_a_model_in_the_whole_process() -> None:
    with ThreadPoolExecutor(8) as pool:
        limiters = set(pool.map(limiter_for, ["openai:gpt-4o-mini http://127.0.0.1/v1"] * 100))
    assert len(limiters) == 1
    assert limiter_for("another model") not in limiters


def test_limiters_of_the_process_share_its_places() -> None:
    with (
        limiter_for("one model").slot(ONE, tokens=1),
        pytest.raises(TimeoutError),
        limiter_for("another model").slot(ONE, tokens=1, timeout=0),
    ):
        pass


async def test_threads_and_tasks_start_in_the_order_in_which_they_asked(gate: WatchedGate, limiter: Limiter) -> None:
    order: list[int] = []

    def call(number: int) -> None:
        with limiter.slot(ONE, tokens=1):
            order.append(number)

    async def acall(number: int) -> None:
        async with limiter.aslot(ONE, tokens=1):
            order.append(number)

    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[None]] = []
    with ThreadPoolExecutor(10) as pool:
        async with limiter.aslot(ONE, tokens=1):
            for number in range(20):
                if number % 2:
                    waiting.append(asyncio.ensure_future(acall(number)))
                else:
                    waiting.append(loop.run_in_executor(pool, call, number))
                await asyncio.to_thread(gate.wait_until, in_flight=1, waiting=len(waiting))
        await asyncio.gather(*waiting)
    assert order == list(range(20))


async def test_a_small_limit_is_not_starved_by_larger_ones_behind_it(gate: WatchedGate, limiter: Limiter) -> None:
    order: list[str] = []
    ends = {name: asyncio.Event() for name in ("first", "second", "small", "large")}

    async def call(name: str, max_in_flight: int) -> None:
        async with limiter.aslot(CallLimits(max_in_flight), tokens=1):
            order.append(name)
            await ends[name].wait()

    tasks = []
    for name, max_in_flight in {"first": 3, "second": 3, "small": 1, "large": 3}.items():
        tasks.append(asyncio.create_task(call(name, max_in_flight)))
        await settle_loop()
    assert order == ["first", "second"]
    ends["first"].set()
    await settle_loop()
    assert order == ["first", "second"]
    ends["second"].set()
    await settle_loop()
    assert order == ["first", "second", "small", "large"]
    ends["small"].set()
    ends["large"].set()
    await asyncio.gather(*tasks)


async def test_calls_behind_a_small_limit_start_when_it_gives_up(gate: WatchedGate, limiter: Limiter) -> None:
    async def call() -> None:
        async with limiter.aslot(CallLimits(max_in_flight=2), tokens=1):
            pass

    async def small_call() -> None:
        async with limiter.aslot(ONE, tokens=1):
            pass

    async with limiter.aslot(ONE, tokens=1):
        small = asyncio.create_task(small_call())
        await settle_loop()
        large = asyncio.create_task(call())
        await settle_loop()
        assert gate.waiting == 2
        small.cancel()
        await asyncio.wait_for(large, PATIENCE)


def test_a_place_is_free_again_after_an_error(gate: WatchedGate, limiter: Limiter) -> None:
    with pytest.raises(ZeroDivisionError), limiter.slot(ONE, tokens=1):
        _ = 1 / 0
    assert gate.in_flight == 0


async def test_a_place_is_free_again_after_an_error_in_a_task(gate: WatchedGate, limiter: Limiter) -> None:
    with pytest.raises(ZeroDivisionError):
        async with limiter.aslot(ONE, tokens=1):
            _ = 1 / 0
    assert gate.in_flight == 0


async def test_a_call_in_flight_that_is_cancelled_gives_its_place_back(gate: WatchedGate, limiter: Limiter) -> None:
    async def call() -> None:
        async with limiter.aslot(ONE, tokens=1):
            await asyncio.Event().wait()

    task = asyncio.create_task(call())
    await settle_loop()
    assert gate.in_flight == 1
    task.cancel()
    await asyncio.wait([task])
    assert gate.in_flight == 0


@pytest.mark.parametrize("admitted_first", [False, True], ids=["while it waits", "as it is admitted"])
async def test_a_cancelled_wait_leaves_nothing_behind(
    gate: WatchedGate, limiter: Limiter, admitted_first: bool
) -> None:
    started: list[int] = []

    async def call(number: int) -> None:
        async with limiter.aslot(ONE, tokens=1):
            started.append(number)

    holder = limiter.aslot(ONE, tokens=1)
    await holder.__aenter__()
    tasks = [asyncio.create_task(call(number)) for number in range(3)]
    await settle_loop()
    if admitted_first:
        await holder.__aexit__(None, None, None)
        assert (gate.in_flight, gate.waiting) == (1, 2)
        tasks[0].cancel()
    else:
        tasks[0].cancel()
        await settle_loop()
        assert (gate.in_flight, gate.waiting) == (1, 2)
        await holder.__aexit__(None, None, None)
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()
    assert started == [1, 2]


@pytest.mark.parametrize("timeout", [0.0, -1.0, 0.001])
def test_a_wait_in_a_thread_can_time_out(gate: WatchedGate, limiter: Limiter, timeout: float) -> None:
    with limiter.slot(ONE, tokens=1):
        with (
            pytest.raises(TimeoutError, match=rf"within {timeout} s, with 1 in flight"),
            limiter.slot(ONE, tokens=1, timeout=timeout),
        ):
            pass
        assert (gate.in_flight, gate.waiting) == (1, 0)
    with limiter.slot(ONE, tokens=1, timeout=timeout):
        assert gate.in_flight == 1


@pytest.mark.parametrize("timeout", [0.0, -1.0, 0.001])
async def test_a_wait_in_a_task_can_time_out(gate: WatchedGate, limiter: Limiter, timeout: float) -> None:
    async with limiter.aslot(ONE, tokens=1):
        with pytest.raises(TimeoutError, match=rf"within {timeout} s, with 1 in flight"):
            async with limiter.aslot(ONE, tokens=1, timeout=timeout):
                pass
        assert (gate.in_flight, gate.waiting) == (1, 0)
    async with limiter.aslot(ONE, tokens=1, timeout=timeout):
        assert gate.in_flight == 1


@pytest.mark.parametrize("timeout", [float("inf"), 1e12, None])
async def test_a_timeout_may_be_endless(gate: WatchedGate, limiter: Limiter, timeout: float | None) -> None:
    async def acall() -> None:
        async with limiter.aslot(ONE, tokens=1, timeout=timeout):
            pass

    def call() -> None:
        with limiter.slot(ONE, tokens=1, timeout=timeout):
            pass

    async with limiter.aslot(ONE, tokens=1):
        waiting = [asyncio.create_task(acall()), asyncio.create_task(asyncio.to_thread(call))]
        await asyncio.to_thread(gate.wait_until, in_flight=1, waiting=2)
    await asyncio.gather(*waiting)


def test_an_error_of_the_call_that_is_a_timeout_too_passes_unchanged(limiter: Limiter) -> None:
    with pytest.raises(TimeoutError, match="the call's own"), limiter.slot(ONE, tokens=1, timeout=0):
        raise TimeoutError("the call's own")


def test_asyncio_run_may_be_called_again_and_again(limiter: Limiter) -> None:
    crowd = Crowd(limiter, CallLimits(max_in_flight=2))
    crowd.go.set()
    for _ in range(3):
        crowd.loop(5)
    assert crowd.done == 15


@contextlib.contextmanager
def closed_loop(coroutine_of: Callable[[], "contextlib.AbstractAsyncContextManager[object]"]) -> Iterator[None]:
    """An event loop closed in the midst of a task, which stays alive."""

    async def call() -> None:
        async with coroutine_of():
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    coroutine = call()
    task = loop.create_task(coroutine)
    loop.run_until_complete(settle_loop())
    loop.close()
    yield
    coroutine.close()
    del task


def test_a_wait_whose_event_loop_was_closed_is_passed_over(gate: WatchedGate, limiter: Limiter) -> None:
    holder = limiter.slot(ONE, tokens=1)
    holder.__enter__()
    with closed_loop(lambda: limiter.aslot(ONE, tokens=1)):
        assert gate.waiting == 1
        holder.__exit__(None, None, None)
        with limiter.slot(ONE, tokens=1, timeout=0):
            assert (gate.in_flight, gate.waiting) == (1, 0)


def test_the_place_of_a_call_whose_event_loop_was_closed_is_free_again(gate: WatchedGate, limiter: Limiter) -> None:
    with (
        closed_loop(lambda: limiter.aslot(ONE, tokens=1)),
        limiter.slot(ONE, tokens=1, timeout=0),
    ):
        assert gate.in_flight == 1


def test_an_abandoned_call_gives_its_place_back(gate: WatchedGate, limiter: Limiter) -> None:
    place = limiter.slot(ONE, tokens=1)
    place.__enter__()
    assert gate.in_flight == 1
    del place
    assert gate.in_flight == 0


def test_a_call_abandoned_in_the_midst_of_a_change_gives_its_place_back() -> None:
    class CollectingClock(SimulatedClock):
        def now(self) -> float:
            abandoned.clear()
            return super().now()

    abandoned: list[object] = []
    gate = Gate(CollectingClock())
    limiter = Limiter(gate)
    place = limiter.slot(ONE, tokens=1)
    place.__enter__()
    abandoned.append(place)
    del place
    with limiter.slot(ONE, tokens=1, timeout=PATIENCE):
        assert (gate.in_flight, gate.waiting) == (1, 0)
    assert gate.in_flight == 0


def test_ctrl_c_ends_a_wait(gate: WatchedGate, limiter: Limiter) -> None:
    def interrupt() -> None:
        gate.wait_until(in_flight=1, waiting=1)
        os.kill(os.getpid(), signal.SIGINT)

    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    helper = threading.Thread(target=interrupt)
    try:
        with limiter.slot(ONE, tokens=1):
            helper.start()
            with pytest.raises(KeyboardInterrupt), limiter.slot(ONE, tokens=1, timeout=PATIENCE):
                pass
            helper.join()
            assert (gate.in_flight, gate.waiting) == (1, 0)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_ctrl_c_at_any_moment_leaves_nothing_behind() -> None:
    gate = Gate()
    limiter = Limiter(gate)

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    # An exception in a callback of the garbage collector, and other packages have such callbacks, never gets out.
    gc.disable()
    try:
        for number in range(500):
            # From 20 to 140 microseconds: at a different point of the loop each time.
            try:
                signal.setitimer(signal.ITIMER_REAL, (20 + number % 121) * 1e-6)
                while True:
                    with limiter.slot(ONE, tokens=1):
                        pass
            except KeyboardInterrupt:
                pass
            with limiter.slot(ONE, tokens=1, timeout=0):
                assert (gate.in_flight, gate.waiting) == (1, 0)
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)


async def test_a_thread_does_not_wait_for_calls_that_its_own_event_loop_has_to_finish(
    gate: WatchedGate, limiter: Limiter
) -> None:
    async with limiter.aslot(ONE, tokens=1):
        with pytest.raises(InputError, match="Use the async methods"), limiter.slot(ONE, tokens=1):
            pass
        assert (gate.in_flight, gate.waiting) == (1, 0)


async def test_a_thread_with_an_event_loop_waits_for_calls_of_other_threads(
    gate: WatchedGate, limiter: Limiter
) -> None:
    end = threading.Event()

    def call() -> None:
        with limiter.slot(ONE, tokens=1):
            assert end.wait(PATIENCE)

    def finish() -> None:
        gate.wait_until(in_flight=1, waiting=1)
        end.set()

    threads = [threading.Thread(target=target) for target in (call, finish)]
    threads[0].start()
    gate.wait_until(in_flight=1, waiting=0)
    threads[1].start()
    with limiter.slot(ONE, tokens=1, timeout=PATIENCE):
        assert gate.in_flight == 1
    for thread in threads:
        thread.join()


def test_a_thread_is_woken_by_the_real_clock(gate: WatchedGate, limiter: Limiter) -> None:
    limits = CallLimits(requests_per_minute=6000)
    for _ in range(3):
        with limiter.slot(limits, tokens=1):
            pass
    rung = threading.Event()
    Clock().call_later(0.001, rung.set)
    assert rung.wait(PATIENCE)
    cancel = Clock().call_later(1e12, rung.set)
    cancel()
