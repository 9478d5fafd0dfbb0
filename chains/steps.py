"""Chains without input or output: generators that ask for what they need, and the two drivers that get it.

A chain yields an `Invoke`, a `Wait`, an `Until` or a `Together`, and is sent the result or has the error thrown in.
`drive` and `adrive` differ only in how they wait, so that no chain has to be written twice.
"""

import asyncio
import contextvars
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.runnables import Runnable

from briefcontext.chains.account import Account
from briefcontext.chains.limits import Limiter

__all__ = ["Invoke", "Step", "Steps", "Together", "Until", "Wait", "adrive", "drive"]

T = TypeVar("T")


@dataclass
class Invoke:
    """Call a runnable once, within the account's limits and time.

    TimeoutError is thrown in when the limits do not let the call through before the account's deadline, or when it
    then takes longer than the account's timeout.
    """

    runnable: Runnable[Any, Any]
    argument: Any
    config: Any
    account: Account
    limiter: Limiter
    tokens: int
    """About how many tokens the call sends, for the limits."""
    started: float | None = None
    """When the limits let the call through, in seconds since the epoch; set by who performs it."""

    def start(self) -> float:
        """Note that the call goes out now; return the seconds that it may take."""
        seconds = self.account.time_left()
        self.started = time.time()
        return seconds


@dataclass(frozen=True)
class Wait:
    """Let time pass before a call is tried again."""

    seconds: float


@dataclass(frozen=True)
class Until:
    """Wait for the end of something that another chain does, in whatever thread or event loop, and not for ever.

    Where it would block the thread of an event loop, on which the other may be run, there is no wait.
    """

    end: "Future[None]"
    seconds: float


@dataclass(frozen=True)
class Together:
    """Drive several chains at the same time; the result is the list of theirs, in order."""

    chains: "Sequence[Steps[Any]]"


Step = Invoke | Wait | Until | Together
Steps = Generator[Step, Any, T]


def drive(chain: Steps[T]) -> T:
    """Drive a chain to its result in this thread."""
    try:
        step = next(chain)
        while True:
            try:
                result = _perform(step)
            except Exception as error:  # noqa: BLE001 - the chain decides what an error means
                step = chain.throw(error)
            else:
                step = chain.send(result)
    except StopIteration as stop:
        result_of_chain: T = stop.value
        return result_of_chain
    finally:
        chain.close()


async def adrive(chain: Steps[T]) -> T:
    """Drive a chain to its result without blocking the event loop."""
    try:
        step = next(chain)
        while True:
            try:
                result = await _aperform(step)
            except Exception as error:  # noqa: BLE001 - the chain decides what an error means
                step = chain.throw(error)
            else:
                step = chain.send(result)
    except StopIteration as stop:
        result_of_chain: T = stop.value
        return result_of_chain
    finally:
        # A cancelled call is put down in the ledger now, and not when the chain is garbage.
        chain.close()


def _perform(step: Step) -> Any:
    match step:
        case Wait(seconds):
            time.sleep(seconds)
            return None
        case Until(end, seconds):
            if not _in_event_loop():
                wait([end], timeout=seconds)
            return None
        case Together(chains):
            return _all([_in_thread(drive, chain) for chain in chains])
        case Invoke():
            account = step.account
            with step.limiter.slot(account.limits, tokens=step.tokens, timeout=account.time_to_deadline()):
                # A provider's own timeout bounds the gaps between bytes at best, so the whole call is timed here. One
                # that is late leaves its place (see CallLimits), so that no hanging call can block those that wait.
                seconds = step.start()
                return _in_thread(step.runnable.invoke, step.argument, step.config).result(seconds)


async def _aperform(step: Step) -> Any:
    match step:
        case Wait(seconds):
            await asyncio.sleep(seconds)
            return None
        case Until(end, seconds):
            await _aend(end, seconds)
            return None
        case Together(chains):
            results = await asyncio.gather(*map(adrive, chains), return_exceptions=True)
            return [_or_raise(result) for result in results]
        case Invoke():
            account = step.account
            slot = step.limiter.aslot(account.limits, tokens=step.tokens, timeout=account.time_to_deadline())
            async with slot, asyncio.timeout(step.start()):
                return await step.runnable.ainvoke(step.argument, step.config)


async def _aend(end: "Future[None]", seconds: float) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wake(_: "Future[None]") -> None:
        with suppress(RuntimeError):  # its event loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended.set)

    end.add_done_callback(wake)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ended.wait()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_thread(function: Any, *arguments: Any) -> "Future[Any]":
    """Start a function in a thread of its own, in this context, so that traces and streams find their run."""
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function, *arguments)
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            with suppress(Exception):
                future.set_exception(error)
        else:
            with suppress(Exception):
                future.set_result(result)

    threading.Thread(target=work, daemon=True).start()
    return future


def _all(futures: "list[Future[Any]]") -> list[Any]:
    for future in futures:
        future.exception()
    return [future.result() for future in futures]


def _or_raise(result: Any) -> Any:
    if isinstance(result, BaseException):
        raise result
    return result
