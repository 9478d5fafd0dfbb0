"""Reading of files in a process with limits of time and memory.

One process reads file after file. Its alarm and its memory limit end it; then another is started.
"""

import atexit
import math
import os
import pickle
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, BinaryIO

from briefcontext.errors import BriefContextError
from briefcontext.knowledge.sources import pandoc
from briefcontext.knowledge.sources.source import (
    WHOLE_FILE,
    Entry,
    FileSource,
    Reject,
    open_content,
)

FILE_BYTES = 50_000_000
"""A larger file may take more time in proportion."""
GIGABYTE = 1024**3
AVAILABLE = find_spec("resource") is not None
"""False on Windows, which has no limits of a process."""

MAX_SHARE, MAX_SHARE_KEPT = 0.7, 0.2
"""Shares of the memory: of a file that was beyond the limit, and of a process that is kept."""

Read = Callable[..., Iterator[Entry]]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits for reading a file; for a file of many records, the time is for each of them."""

    seconds: float = 30.0
    """For a file of up to 50 MB."""
    gigabytes: float = 1.0


@dataclass(frozen=True, slots=True)
class _Job:
    read: Read
    path: Path
    ids: Sequence[str]
    limits: ReadLimits


_Message = tuple[int, Entry | None, Exception | None, bool]
"""The bytes read and an entry; or an error at the end, and whether the process is kept."""


class _Process:
    """A process that reads files."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        # Each thread of OpenBLAS reserves memory.
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        self._running = Popen(
            [sys.executable, "-m", __name__],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment,
            start_new_session=True,
        )

    @property
    def runs(self) -> bool:
        return self._running.poll() is None

    def messages(self, job: _Job) -> Iterator[_Message]:
        """Yield what the process reads of a file. Raises EOFError when it ends before."""
        requests: Any = self._running.stdin
        replies: Any = self._running.stdout
        try:
            pickle.dump(job, requests)
            requests.flush()
        except BrokenPipeError:
            raise EOFError from None
        while True:
            message: _Message = pickle.load(replies)
            yield message
            if message[1] is None:
                return

    def end(self) -> None:
        """Kill the process and its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._running.pid, signal.SIGKILL)
        for pipe in (self._running.stdin, self._running.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        self._running.wait()

    def status(self) -> int:
        """Return the exit status of a process that has ended."""
        return self._running.wait()


_idle: defaultdict[int, list[_Process]] = defaultdict(list)
"""The processes that wait for a file, by the process that started them."""


@atexit.register
def _end_all() -> None:
    for process in _idle.pop(os.getpid(), []):
        process.end()


class LimitedFile(FileSource):
    """A file that is read within limits; beyond them, its last entry is a reject."""

    def __init__(self, *args: Any, limits: ReadLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limits = limits

    def entries(self) -> Iterator[Entry]:
        if not AVAILABLE:
            yield from super().entries()
            return
        self.consumed = 0
        count = 0
        job = _Job(self._read, self.path.absolute(), self._ids, self.limits)
        for self.consumed, entry in _read_limited(job):
            if entry is not None:
                yield entry
                count += 1
        if not count:
            yield Reject(WHOLE_FILE, "It holds no record.")


def _read_limited(job: _Job) -> Iterator[tuple[int, Entry | None]]:
    """Yield the bytes read and each entry of a file, and None at its end."""
    idle = _idle[os.getpid()]
    process = idle.pop() if idle else _Process()
    if not process.runs:
        process.end()
        process = _Process()
    count, consumed, finished = 0, 0, False
    try:
        for message in process.messages(job):
            consumed, entry, error, finished = message
            if error is not None:
                raise error
            yield consumed, entry
            count += 1
    except (EOFError, pickle.UnpicklingError):
        position = f"after record {count}" if count else WHOLE_FILE
        yield consumed, Reject(position, _reason(process.status(), job.limits))
    finally:
        if finished:
            idle.append(process)
        else:
            process.end()


def _reason(status: int, limits: ReadLimits) -> str:
    what, option = f"{limits.gigabytes:g} GB of memory, or it is damaged", "--max-memory"
    if status == -signal.SIGALRM:
        what, option = f"{limits.seconds:g} seconds", "--max-seconds"
    return f"Reading it takes more than {what}: split it, or raise the limit (index {option})."


def main() -> None:
    """Read the files that come by the standard input, until it ends."""
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # A library may print.
    size = _address_space()
    while True:
        try:
            job: _Job = pickle.load(requests)
        except EOFError:
            return
        _limit_memory(size, job.limits)
        try:
            _serve(job, replies, size)
        except MemoryError:
            os._exit(1)


def _serve(job: _Job, replies: BinaryIO, size: int) -> None:
    seconds, consumed = job.limits.seconds, 0

    def send(entry: Entry | None, error: Exception | None = None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)  # The other process may be busy.
        goes_on = entry is None and _share_of_memory(size, job.limits) < MAX_SHARE_KEPT
        pickle.dump((consumed, entry, error, goes_on), replies)
        replies.flush()
        if entry is not None:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    try:
        with open_content(job.path) as (stream, position):
            seconds *= max(1.0, job.path.stat().st_size / FILE_BYTES)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            for entry in job.read(stream, *job.ids):
                # Parsers write of an unknown error, or of damage, when they get no memory.
                if isinstance(entry, Reject) and _share_of_memory(size, job.limits) > MAX_SHARE:
                    raise MemoryError
                consumed = position()
                send(entry)
            consumed = position()
        send(None)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - it is raised where the file was opened
        known = isinstance(error, BriefContextError)
        send(None, error if known else RuntimeError(f"{type(error).__name__}: {error}"))


def _share_of_memory(size: int, limits: ReadLimits) -> float:
    """Return the share of its memory that the process has used since its start."""
    return (_address_space() - size) / (limits.gigabytes * GIGABYTE)


def _address_space() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _limit_memory(size: int, limits: ReadLimits) -> None:
    import resource

    # The memory of a process that crashed is not written to a file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pandoc.SECONDS = math.ceil(limits.seconds)
    pandoc.MEMORY = f"{math.ceil(limits.gigabytes * 1000)}M"
    if size:  # Elsewhere than on Linux there is no such limit.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = size + int(limits.gigabytes * GIGABYTE)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()
