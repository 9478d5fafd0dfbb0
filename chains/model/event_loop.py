"""The one event loop of this process on which models are called, and the ways onto it.

One loop keeps one limit on calls in flight, and the connections of a model's client, which belong
to a loop, are used
by all callers: by threads, and by event loops that come and go.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from briefcontext.errors import InputError

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop, in this context, and wait for it in this thread; Ctrl-C cancels it.

    Raises:
        InputError: this thread is the loop's own.
    """
    if _running() is _event_loop():
        work.close()
        raise InputError(
            "A synchronous method was called in the thread of the event loop that makes the model "
            "calls, where it "
            "would wait for itself. Use the async methods there, or another thread."
        )
    # A queue in C: Ctrl-C in the midst of Python's own could leave its lock held.
    ended: SimpleQueue[None] = SimpleQueue()
    started = _Work(work, lambda: ended.put(None))
    try:
        ended.get()
    except BaseException:
        started.cancel()
        if not started.outcome.done():
            ended.get()
        raise
    return started.outcome.result()


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop, in this context, from any event loop; when cancelled, return once it has ended."""
    if _running() is _event_loop():
        return await work
    caller = asyncio.get_running_loop()
    ended = caller.create_future()

    def tell() -> None:
        with suppress(RuntimeError):  # its event loop is closed: nobody waits any more
            caller.call_soon_threadsafe(ended.set_result, None)

    started = _Work(work, tell)
    try:
        await asyncio.wait([ended])
    except asyncio.CancelledError:
        started.cancel()
        await asyncio.wait([ended])
        raise
    return started.outcome.result()


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await several coroutines at the same time, all to their end; return what each did, or raise the first error."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


class _Work(Generic[T]):
    """A coroutine that runs on the loop, in the context in which this is made, and tells when it has ended."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], tell: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.outcome: Future[T] = Future()
        self.outcome.add_done_callback(lambda _: tell())
        self._loop = _event_loop()
        self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[T]") -> None:
        # The task dies here, on the loop: in the main thread a Ctrl-C that fell into its clean-up
        # would be lost.
        self._task = None
        try:
            self.outcome.set_result(task.result())
        except BaseException as error:  # noqa: BLE001 - raised again for whoever waits
            self.outcome.set_exception(error)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())


class _Threads(ThreadPoolExecutor):
    """Starts a thread for whatever blocks: no call waits for one, and none that hangs keeps the process alive."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                    future.set_exception(error)
                else:
                    future.set_result(result)

        threading.Thread(target=work, daemon=True).start()
        return future


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_loop: asyncio.AbstractEventLoop | None = None
_starting = threading.Lock()


def _event_loop() -> asyncio.AbstractEventLoop:
    global _loop
    if _loop is not None:
        return _loop
    with _starting:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _loop.set_default_executor(_Threads())
            threading.Thread(
                target=_run_forever, args=[_loop], name="model calls", daemon=True
            ).start()
        return _loop


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with suppress(
            KeyboardInterrupt, SystemExit
        ):  # raised by a task, which keeps it for whoever waits for it
            loop.run_forever()


def _forget() -> None:
    """Begin anew in a forked process, where the loop's thread is missing."""
    global _loop, _starting
    _loop, _starting = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
