"""The background event loop for all model calls, and functions that run work on it.

The connections of a model's client belong to one loop, but callers come from threads and from loops
that end.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from briefcontext.errors import InputError

T = TypeVar("T")

_BLOCKING_CALLS = 256
"""Threads for models and retrievers without an asynchronous side."""
_CLEANUP_SECONDS = 1.0
"""Seconds to wait for interrupted work to end."""


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop, in this context, and wait for it. Ctrl-C cancels it.

    Raises InputError in the loop's own thread.
    """
    if _running() is _event_loop():
        work.close()
        raise InputError(
            "A synchronous method was called on the event loop of the model calls, where it would "
            "wait for itself. Use the async methods, or another thread."
        )
    future, ended = _start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        ended.wait(_CLEANUP_SECONDS)
        raise


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop, in this context, from any event loop."""
    if _running() is _event_loop():
        return await work
    future, ended = _start(work)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        # The record of a call is complete only when the call has ended.
        await asyncio.to_thread(ended.wait, _CLEANUP_SECONDS)
        raise


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all coroutines; return their results, or raise the first error."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _start(work: Coroutine[Any, Any, T]) -> tuple[Future[T], threading.Event]:
    """Start a coroutine on the loop, with an event that is set when its work has ended."""
    ended = threading.Event()

    async def run() -> T:
        try:
            return await work
        finally:
            ended.set()

    return asyncio.run_coroutine_threadsafe(run(), _event_loop()), ended


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _LoopThread(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="model calls", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(ThreadPoolExecutor(_BLOCKING_CALLS, "blocking"))

    def run(self) -> None:
        while True:
            # The task keeps these exceptions for its caller.
            with suppress(KeyboardInterrupt, SystemExit):
                self.loop.run_forever()


_thread: _LoopThread | None = None
_starting = threading.Lock()


def _event_loop() -> asyncio.AbstractEventLoop:
    global _thread
    with _starting:
        # In a forked process the loop's thread does not exist.
        if _thread is None or not _thread.is_alive():
            _thread = _LoopThread()
            _thread.start()
        return _thread.loop
