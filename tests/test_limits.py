"""The limiter of model calls: places in flight and rates, over threads and event loops."""

import asyncio
import contextlib
import gc
import heapq
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from briefcontext.chains import limits as module
from briefcontext.chains.limits import CallLimits, Clock, Gate, Limiter, limiter_for
from briefcontext.errors import InputError

ONE = CallLimits(max_in_flight=1)
PATIENCE = 60.0  # seconds after which a test that hangs fails


class SimulatedClock(Clock):
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.time = 0.0
        self._numbers = itertools.count()
        self._alarms: list[tuple[float, int]] = []
        self._rings: dict[int, Callable[[], None]] = {}

    def now(self) -> float:
        return self.time

    def call_later(self, seconds: float, ring: Callable[[], None]) -> Callable[[], None]:
        number = next(self._numbers)
        self._rings[number] = ring
        heapq.heappush(self._alarms, (self.time + seconds, number))
        return lambda: self._rings.pop(number, None) and None

    @property
    def alarms(self) -> int:
        return len(self._rings)

    def steps(self, seconds: float) -> Iterator[None]:
        """Advance, with a step at each alarm."""
        end = self.time + seconds
        while self._alarms and self._alarms[0][0] <= end:
            self.time, number = heapq.heappop(self._alarms)
            if ring := self._rings.pop(number, None):
                ring()
                yield
        self.time = end

    def advance(self, seconds: float) -> None:
        for _ in self.steps(seconds):
            pass


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until another thread has made the condition true."""
    pause = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("The condition never came true.")


async def settle_loop() -> None:
    """Let every task of this loop run as far as it gets."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    assert (gate.in_flight, gate.waiting) == (0, 0)


@pytest.fixture
def limiter(gate: Gate) -> Limiter:
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
    gate: Gate, limiter: Limiter, threads: int, loops: int, tasks: int
) -> None:
    total = threads + loops * tasks
    crowd = Crowd(limiter, CallLimits(max_in_flight=8))
    workers = [threading.Thread(target=crowd.call) for _ in range(threads)]
    workers += [threading.Thread(target=crowd.loop, args=(tasks,)) for _ in range(loops)]
    for worker in workers:
        worker.start()
    eventually(lambda: crowd.inside == 8 and gate.waiting == total - 8)
    crowd.go.set()
    for worker in workers:
        worker.join(PATIENCE)
    assert (crowd.done, crowd.peak) == (total, 8)


def test_calls_in_flight_are_counted_over_all_models(gate: Gate) -> None:
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


async def test_threads_and_tasks_start_in_the_order_in_which_they_asked(gate: Gate, limiter: Limiter) -> None:
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
                await asyncio.to_thread(eventually, lambda: gate.waiting == len(waiting))
        await asyncio.gather(*waiting)
    assert order == list(range(20))


async def test_a_small_limit_is_not_starved_by_larger_ones_behind_it(gate: Gate, limiter: Limiter) -> None:
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


async def test_calls_behind_a_small_limit_start_when_it_gives_up(gate: Gate, limiter: Limiter) -> None:
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


def test_a_place_is_free_again_after_an_error(gate: Gate, limiter: Limiter) -> None:
    with pytest.raises(ZeroDivisionError), limiter.slot(ONE, tokens=1):
        _ = 1 / 0
    assert gate.in_flight == 0


async def test_a_place_is_free_again_after_an_error_in_a_task(gate: Gate, limiter: Limiter) -> None:
    with pytest.raises(ZeroDivisionError):
        async with limiter.aslot(ONE, tokens=1):
            _ = 1 / 0
    assert gate.in_flight == 0


async def test_a_call_in_flight_that_is_cancelled_gives_its_place_back(gate: Gate, limiter: Limiter) -> None:
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
async def test_a_cancelled_wait_leaves_nothing_behind(gate: Gate, limiter: Limiter, admitted_first: bool) -> None:
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
def test_a_wait_in_a_thread_can_time_out(gate: Gate, limiter: Limiter, timeout: float) -> None:
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
async def test_a_wait_in_a_task_can_time_out(gate: Gate, limiter: Limiter, timeout: float) -> None:
    async with limiter.aslot(ONE, tokens=1):
        with pytest.raises(TimeoutError, match=rf"within {timeout} s, with 1 in flight"):
            async with limiter.aslot(ONE, tokens=1, timeout=timeout):
                pass
        assert (gate.in_flight, gate.waiting) == (1, 0)
    async with limiter.aslot(ONE, tokens=1, timeout=timeout):
        assert gate.in_flight == 1


@pytest.mark.parametrize("timeout", [float("inf"), 1e12, None])
async def test_a_timeout_may_be_endless(gate: Gate, limiter: Limiter, timeout: float | None) -> None:
    async def acall() -> None:
        async with limiter.aslot(ONE, tokens=1, timeout=timeout):
            pass

    def call() -> None:
        with limiter.slot(ONE, tokens=1, timeout=timeout):
            pass

    async with limiter.aslot(ONE, tokens=1):
        waiting = [asyncio.create_task(acall()), asyncio.create_task(asyncio.to_thread(call))]
        await asyncio.to_thread(eventually, lambda: gate.waiting == 2)
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


def test_a_wait_whose_event_loop_was_closed_is_passed_over(gate: Gate, limiter: Limiter) -> None:
    holder = limiter.slot(ONE, tokens=1)
    holder.__enter__()
    with closed_loop(lambda: limiter.aslot(ONE, tokens=1)):
        assert gate.waiting == 1
        holder.__exit__(None, None, None)
        with limiter.slot(ONE, tokens=1, timeout=0):
            assert (gate.in_flight, gate.waiting) == (1, 0)


def test_the_place_of_a_call_whose_event_loop_was_closed_is_free_again(gate: Gate, limiter: Limiter) -> None:
    with (
        closed_loop(lambda: limiter.aslot(ONE, tokens=1)),
        limiter.slot(ONE, tokens=1, timeout=0),
    ):
        assert gate.in_flight == 1


def test_an_abandoned_call_gives_its_place_back(gate: Gate, limiter: Limiter) -> None:
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


def test_ctrl_c_ends_a_wait(gate: Gate, limiter: Limiter) -> None:
    def interrupt() -> None:
        eventually(lambda: gate.waiting == 1)
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    with limiter.slot(ONE, tokens=1):
        helper.start()
        with pytest.raises(KeyboardInterrupt), limiter.slot(ONE, tokens=1, timeout=PATIENCE):
            pass
        helper.join()
        assert (gate.in_flight, gate.waiting) == (1, 0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_ctrl_c_at_any_moment_leaves_nothing_behind(gate: Gate, limiter: Limiter) -> None:
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
    gate: Gate, limiter: Limiter
) -> None:
    async with limiter.aslot(ONE, tokens=1):
        with pytest.raises(InputError, match="Use the async methods"), limiter.slot(ONE, tokens=1):
            pass
        assert (gate.in_flight, gate.waiting) == (1, 0)


async def test_a_thread_with_an_event_loop_waits_for_calls_of_other_threads(gate: Gate, limiter: Limiter) -> None:
    end = threading.Event()

    def call() -> None:
        with limiter.slot(ONE, tokens=1):
            assert end.wait(PATIENCE)

    def finish() -> None:
        eventually(lambda: gate.waiting == 1)
        end.set()

    threads = [threading.Thread(target=target) for target in (call, finish)]
    threads[0].start()
    eventually(lambda: gate.in_flight == 1)
    threads[1].start()
    with limiter.slot(ONE, tokens=1, timeout=PATIENCE):
        assert gate.in_flight == 1
    for thread in threads:
        thread.join()


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


async def test_tokens_that_a_call_did_not_take_are_free_for_the_next() -> None:
    limiter = Limiter(Gate(SimulatedClock()))
    limits = CallLimits(tokens_per_minute=1000)

    async def call() -> None:
        async with limiter.aslot(limits, tokens=400):
            pass

    async with limiter.aslot(limits, tokens=900) as settle:
        task = asyncio.create_task(call())
        await settle_loop()
        assert not task.done()
        settle(600)
        await asyncio.wait_for(task, PATIENCE)
    assert admitted(limiter, limits, 1) == 0


def test_tokens_that_a_call_took_beyond_its_estimate_count() -> None:
    clock = SimulatedClock()
    limiter = Limiter(Gate(clock))
    limits = CallLimits(tokens_per_minute=1000)
    with limiter.slot(limits, tokens=100) as settle:
        settle(700)
        settle(800)
    assert admitted(limiter, limits, 100) == 2
    with limiter.slot(CallLimits(), tokens=100) as settle:
        clock.advance(60)
        settle(5000)
    assert admitted(limiter, limits, 100) == 10


def test_calls_without_rates_count_for_those_with() -> None:
    limiter = Limiter(Gate(SimulatedClock()))
    for _ in range(3):
        with limiter.slot(CallLimits(), tokens=200):
            pass
    assert admitted(limiter, CallLimits(requests_per_minute=5), 200) == 2
    assert admitted(limiter, CallLimits(tokens_per_minute=1300), 100) == 3


def test_a_thread_is_woken_by_the_real_clock(gate: Gate, limiter: Limiter) -> None:
    limits = CallLimits(requests_per_minute=6000)
    for _ in range(3):
        with limiter.slot(limits, tokens=1):
            pass
    rung = threading.Event()
    Clock().call_later(0.001, rung.set)
    assert rung.wait(PATIENCE)
    cancel = Clock().call_later(1e12, rung.set)
    cancel()


def test_the_public_names_are_all_listed() -> None:
    assert set(module.__all__) == {"CallLimits", "Clock", "Gate", "Limiter", "Settle", "limiter_for"}


@dataclass(eq=False)
class Asked:
    """A call of the state machine below."""

    model: int
    limits: CallLimits
    tokens: int
    end: asyncio.Event
    task: "asyncio.Task[None] | None" = None
    started: float | None = None


RATES = [(None, None), (2.0, None), (None, 100.0), (3.0, 100.0), (0.4, 250.0)]


class LimiterMachine(RuleBasedStateMachine):
    """Calls that come, end, are cancelled, and pass the time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = SimulatedClock()
        self.gate = Gate(self.clock)
        self.limiters = [Limiter(self.gate) for _ in RATES]
        self.waiting: list[Asked] = []
        self.in_flight: list[Asked] = []
        self.spent: list[Asked] = []

    async def _call(self, asked: Asked) -> None:
        async with self.limiters[asked.model].aslot(asked.limits, tokens=asked.tokens):
            earlier = self.waiting[: self.waiting.index(asked)]
            assert all(other.model != asked.model for other in earlier)
            assert self._rate_allows(asked)
            asked.started = self.clock.time
            self.waiting.remove(asked)
            self.in_flight.append(asked)
            self.spent.append(asked)
            try:
                await asked.end.wait()
            finally:
                self.in_flight.remove(asked)

    def _rate_allows(self, asked: Asked) -> bool:
        def allows(rate: float | None, amount: int, spent: list[tuple[float, int]]) -> bool:
            if rate is None:
                return True
            counted = [n for at, n in spent if self.clock.time < at + 60 * max(1.0, n / rate)]
            return not sum(counted) or sum(counted) + amount <= rate

        spent = [(other.started or 0.0, other.tokens) for other in self.spent if other.model == asked.model]
        return allows(asked.limits.requests_per_minute, 1, [(at, 1) for at, _ in spent]) and allows(
            asked.limits.tokens_per_minute, asked.tokens, spent
        )

    def _run(self) -> None:
        self.loop.run_until_complete(settle_loop())

    @rule(
        model=st.integers(0, len(RATES) - 1),
        max_in_flight=st.integers(1, 4),
        tokens=st.sampled_from([0, 1, 40, 100, 350]),
    )
    def ask(self, model: int, max_in_flight: int, tokens: int) -> None:
        asked = Asked(model, CallLimits(max_in_flight, *RATES[model]), tokens, asyncio.Event())
        self.waiting.append(asked)
        asked.task = self.loop.create_task(self._call(asked))
        self._run()

    @precondition(lambda self: self.in_flight)
    @rule(choice=st.integers(0, 100))
    def end(self, choice: int) -> None:
        self.in_flight[choice % len(self.in_flight)].end.set()
        self._run()

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
        self._run()
        assert asked.task.cancelled()

    @rule(seconds=st.sampled_from([1.0, 29.5, 60.0, 150.0]))
    def wait(self, seconds: float) -> None:
        for _ in self.clock.steps(seconds):
            self._run()

    @invariant()
    def counts_agree(self) -> None:
        assert (self.gate.in_flight, self.gate.waiting) == (len(self.in_flight), len(self.waiting))

    @invariant()
    def no_call_exceeded_its_own_limit(self) -> None:
        for place, asked in enumerate(self.in_flight, start=1):
            assert place <= asked.limits.max_in_flight

    @invariant()
    def nothing_waits_without_need(self) -> None:
        firsts = {asked.model: asked for asked in reversed(self.waiting)}
        ready = [asked for asked in self.waiting if asked is firsts[asked.model] and self._rate_allows(asked)]
        assert not ready or len(self.in_flight) >= ready[0].limits.max_in_flight

    def teardown(self) -> None:
        for _ in range(1000):
            if not (self.waiting or self.in_flight):
                break
            for asked in list(self.in_flight):
                asked.end.set()
            self.wait(60.0)
            self._run()
        self.counts_agree()
        assert not self.waiting
        assert not self.in_flight
        self.loop.close()


TestLimiterMachine = LimiterMachine.TestCase
TestLimiterMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
