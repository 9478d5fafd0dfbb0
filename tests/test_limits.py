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

from briefcontext.chains.model.event_loop import on_loop, wait_for
from briefcontext.chains.model.limits import CallLimits, Limiter, Places, limiter_for
from tests.limiter_testing import settle_loop
from tests.loopback import PATIENCE

ONE = CallLimits(max_concurrent_calls=1)


@pytest.fixture
def places() -> Iterator[Places]:
    places = Places()
    yield places
    assert places.taken == 0


@pytest.fixture
def limiter(places: Places) -> Limiter:
    return Limiter(places)


class Crowd:
    """Calls that stay in flight until told to go, and the most that ever were in flight."""

    def __init__(self, limiter: Limiter, limits: CallLimits) -> None:
        self.limiter = limiter
        self.limits = limits
        self.go = asyncio.Event()
        self.asked = 0
        self.inside = 0
        self.peak = 0
        self.done = 0
        self._changed = asyncio.Condition()

    async def _call(self) -> None:
        await self._count("asked", 1)
        async with self.limiter.slot(self.limits):
            await self._count("inside", 1)
            self.peak = max(self.peak, self.inside)
            await self.go.wait()
            await self._count("inside", -1)
        await self._count("done", 1)

    async def _count(self, what: str, change: int) -> None:
        setattr(self, what, getattr(self, what) + change)
        async with self._changed:
            self._changed.notify_all()

    async def reached(self, *, asked: int, inside: int) -> None:
        """Wait until so many calls were asked for, and so many are in flight."""
        async with self._changed, asyncio.timeout(PATIENCE):
            await self._changed.wait_for(lambda: (self.asked, self.inside) == (asked, inside))

    async def end(self) -> None:
        """Let them go."""
        self.go.set()

    def call(self) -> None:
        wait_for(self._call())

    def loop(self, tasks: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(on_loop(self._call()) for _ in range(tasks)))

        asyncio.run(main())


@pytest.mark.parametrize(
    ("threads", "loops", "tasks"),
    [(200, 0, 0), (0, 1, 200), (100, 1, 100), (60, 2, 70)],
    ids=["threads", "tasks", "threads and tasks", "threads and two event loops"],
)
def test_calls_in_flight_reach_the_limit_and_never_exceed_it(
    limiter: Limiter, threads: int, loops: int, tasks: int
) -> None:
    total = threads + loops * tasks
    crowd = Crowd(limiter, CallLimits(max_concurrent_calls=8))
    workers = [threading.Thread(target=crowd.call) for _ in range(threads)]
    workers += [threading.Thread(target=crowd.loop, args=(tasks,)) for _ in range(loops)]
    for worker in workers:
        worker.start()
    wait_for(crowd.reached(asked=total, inside=8))
    wait_for(crowd.end())
    for worker in workers:
        worker.join(PATIENCE)
    assert crowd.done == total
    assert crowd.peak <= 8


async def call(limiter: Limiter, limits: CallLimits = ONE, timeout: float | None = None) -> None:
    """Make a call that takes no time."""
    async with asyncio.timeout(timeout), limiter.slot(limits):
        pass


async def test_calls_in_flight_are_counted_over_all_models(places: Places) -> None:
    async with Limiter(places).slot(ONE):
        with pytest.raises(TimeoutError):
            await call(Limiter(places), timeout=0)


def test_one_limiter_serves_a_model_in_the_whole_process() -> None:
    async def limiter() -> Limiter:
        return limiter_for("openai:gpt-4o-mini http://127.0.0.1/v1")

    with ThreadPoolExecutor(8) as pool:
        limiters = set(pool.map(wait_for, [limiter() for _ in range(100)]))
    assert len(limiters) == 1
    assert limiter_for("another model") not in limiters


def test_limiters_of_the_process_share_its_places() -> None:
    async def main() -> None:
        async with limiter_for("one model").slot(ONE):
            with pytest.raises(TimeoutError):
                await call(limiter_for("another model"), timeout=0)

    wait_for(main())


def test_threads_and_tasks_start_in_the_order_in_which_they_asked(limiter: Limiter) -> None:
    order: list[int] = []
    asked: list[int] = []

    async def numbered(number: int) -> None:
        asked.append(number)
        async with limiter.slot(ONE):
            order.append(number)

    async def main() -> None:
        with ThreadPoolExecutor(10) as pool:
            waiting: list[asyncio.Future[None]] = []
            async with limiter.slot(ONE):
                for number in range(20):
                    if number % 2:
                        waiting.append(asyncio.ensure_future(numbered(number)))
                    else:
                        waiting.append(
                            asyncio.get_running_loop().run_in_executor(
                                pool, wait_for, numbered(number)
                            )
                        )
                    async with asyncio.timeout(PATIENCE):
                        while len(asked) == number:
                            await asyncio.sleep(0)
            await asyncio.gather(*waiting)

    wait_for(main())
    assert order == list(range(20))


async def test_a_small_limit_is_not_starved_by_larger_ones_behind_it(limiter: Limiter) -> None:
    order: list[str] = []
    ends = {name: asyncio.Event() for name in ("first", "second", "small", "large")}

    async def named(name: str, max_concurrent_calls: int) -> None:
        async with limiter.slot(CallLimits(max_concurrent_calls)):
            order.append(name)
            await ends[name].wait()

    tasks = []
    for name, max_concurrent_calls in {"first": 3, "second": 3, "small": 1, "large": 3}.items():
        tasks.append(asyncio.create_task(named(name, max_concurrent_calls)))
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


async def test_a_small_limit_holds_up_those_of_other_models_behind_it(places: Places) -> None:
    async with Limiter(places).slot(ONE):
        small = asyncio.create_task(call(Limiter(places)))
        await settle_loop()
        large = asyncio.create_task(call(Limiter(places), CallLimits(max_concurrent_calls=2)))
        await settle_loop()
        assert not large.done()
    await asyncio.gather(small, large)


async def test_calls_behind_a_small_limit_start_when_it_gives_up(limiter: Limiter) -> None:
    async with limiter.slot(ONE):
        small = asyncio.create_task(call(limiter))
        await settle_loop()
        large = asyncio.create_task(call(limiter, CallLimits(max_concurrent_calls=2)))
        await settle_loop()
        assert not large.done()
        small.cancel()
        await asyncio.wait_for(large, PATIENCE)


async def test_a_place_is_free_again_after_an_error(places: Places, limiter: Limiter) -> None:
    with pytest.raises(ZeroDivisionError):
        async with limiter.slot(ONE):
            _ = 1 / 0
    assert places.taken == 0


async def test_a_call_in_flight_that_is_cancelled_gives_its_place_back(
    places: Places, limiter: Limiter
) -> None:
    async def endless() -> None:
        async with limiter.slot(ONE):
            await asyncio.Event().wait()

    task = asyncio.create_task(endless())
    await settle_loop()
    assert places.taken == 1
    task.cancel()
    await asyncio.wait([task])
    assert places.taken == 0


@pytest.mark.parametrize(
    "admitted_first", [False, True], ids=["while it waits", "as it is admitted"]
)
async def test_a_cancelled_wait_leaves_nothing_behind(
    places: Places, limiter: Limiter, admitted_first: bool
) -> None:
    started: list[int] = []

    async def numbered(number: int) -> None:
        async with limiter.slot(ONE):
            started.append(number)

    holder = limiter.slot(ONE)
    await holder.__aenter__()
    tasks = [asyncio.create_task(numbered(number)) for number in range(3)]
    await settle_loop()
    if admitted_first:
        await holder.__aexit__(None, None, None)
        tasks[0].cancel()
    else:
        tasks[0].cancel()
        await settle_loop()
        assert places.taken == 1
        await holder.__aexit__(None, None, None)
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()
    assert started == [1, 2]


def test_asyncio_run_may_be_called_again_and_again(limiter: Limiter) -> None:
    crowd = Crowd(limiter, CallLimits(max_concurrent_calls=2))
    wait_for(crowd.end())
    for _ in range(3):
        crowd.loop(5)
    assert crowd.done == 15


def test_a_call_whose_event_loop_was_closed_gives_its_place_back_when_it_ends(
    places: Places, limiter: Limiter
) -> None:
    crowd = Crowd(limiter, ONE)
    loop = asyncio.new_event_loop()
    coroutine = on_loop(crowd._call())
    task = loop.create_task(coroutine)
    loop.run_until_complete(settle_loop())
    loop.close()
    wait_for(crowd.reached(asked=1, inside=1))
    wait_for(crowd.end())
    wait_for(call(limiter))
    with contextlib.suppress(RuntimeError):  # its event loop is closed
        coroutine.close()
    del task


def interrupted(work: Callable[[], None]) -> None:
    """Send this process a Ctrl-C after some work in another thread."""

    def interrupt() -> None:
        work()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()


def test_ctrl_c_ends_a_wait(places: Places, limiter: Limiter) -> None:
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    crowd = Crowd(limiter, ONE)
    holder = threading.Thread(target=crowd.call)
    holder.start()
    wait_for(crowd.reached(asked=1, inside=1))
    try:
        interrupted(lambda: wait_for(crowd.reached(asked=2, inside=1)))
        with pytest.raises(KeyboardInterrupt):
            crowd.call()
        assert (crowd.inside, places.taken) == (1, 1)
    finally:
        signal.signal(signal.SIGINT, before)
        wait_for(crowd.end())
        holder.join(PATIENCE)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_ctrl_c_at_any_moment_leaves_nothing_behind(places: Places, limiter: Limiter) -> None:
    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    async def settle() -> int:
        await settle_loop()
        return places.taken

    before = signal.signal(signal.SIGALRM, interrupt)
    # An exception in a callback of the garbage collector, and other packages have such callbacks,
    # never gets out.
    gc.disable()
    try:
        for number in range(500):
            # From 20 to 1,000 microseconds: at a different point of the loop each time.
            try:
                signal.setitimer(signal.ITIMER_REAL, (20 + number * 7 % 981) * 1e-6)
                while True:
                    wait_for(call(limiter))
            except KeyboardInterrupt:
                pass
            wait_for(call(limiter, timeout=PATIENCE))
            assert wait_for(settle()) == 0
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)
