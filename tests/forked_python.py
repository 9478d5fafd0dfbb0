"""Python processes that are forked from one that has imported their modules.

To start Python and to import PyTorch, LangChain and the rest takes seconds, and to fork takes none.
All that is said of a process - its output, exit code, files, signals, environment - is as true of
these; what is said of starting, of importing, of Python's own end and of its hash seed needs
`sys.executable`.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import IO, Any, Self

_IMPORTS = "tests.forked_imports"
_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload([_IMPORTS])


class ForkedPython:
    """As `subprocess.Popen([sys.executable, *arguments], text=True)`, ended with its context.

    Args:
        arguments: `-m` and a module, or `-c` and a program, and then their own.
        env: the whole environment; this process's unless given.
        cwd: this process's unless given.
        stdout: `PIPE` or an open file.
        stderr: the same, or `STDOUT`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: int | IO[Any] = PIPE,
        stderr: int | IO[Any] = PIPE,
    ) -> None:
        self.stdout, output = _ends(stdout)
        self.stderr, errors = (None, output) if stderr == STDOUT else _ends(stderr)
        place = ({**(os.environ if env is None else env)}, cwd or Path.cwd())
        self._process = _FORKSERVER.Process(
            target=_run, args=([*arguments], *place, output, errors)
        )
        self._process.start()
        output.close()
        errors.close()
        self.kill, self.terminate = self._process.kill, self._process.terminate

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, as far as `poll` or `wait` know it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return the piped output and errors at the end of the process."""
        with ThreadPoolExecutor(2) as pool:
            reading = [
                pool.submit(pipe.read) if pipe else None for pipe in (self.stdout, self.stderr)
            ]
            try:
                self.wait(timeout)
            finally:
                self.kill()
        output, errors = (read.result() if read else "" for read in reading)
        return output, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe:
                pipe.close()


def run_forked(
    arguments: Sequence[str], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run([sys.executable, *arguments], capture_output=True, text=True)`."""
    with ForkedPython(arguments, **options) as process:
        output, errors = process.communicate(timeout)
        return subprocess.CompletedProcess([*arguments], process.wait(), output, errors)


def _ends(given: int | IO[Any]) -> tuple[IO[str] | None, Connection]:
    """Return the end to read here, and the end to write in the process."""
    if given == PIPE:
        read, write = os.pipe()
        return os.fdopen(read, encoding="utf-8"), Connection(write, readable=False)
    assert not isinstance(given, int)
    return None, Connection(os.dup(given.fileno()), readable=False)


def _run(
    arguments: list[str],
    environment: dict[str, str],
    folder: Path,
    output: Connection,
    errors: Connection,
) -> None:
    """Be the process."""
    assert _IMPORTS in sys.modules, f"{_IMPORTS} could not be imported where the tests were started"
    # Who is started in the background ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    output.close()
    errors.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    how, what, *_ = arguments
    sys.argv = ["-c", *arguments[2:]] if how == "-c" else arguments[1:]
    if how == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)
