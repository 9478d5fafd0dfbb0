"""One Ctrl-C ends a command, at whatever it is."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.forked_python import ForkedPython
from tests.loopback import PATIENCE
from tests.openai_server import OpenAIServer, Reply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals"),
]

MAPPED = ["--retrieval", "bm25", "--route", "map_reduce", "--top-k", "16", "--partition-size", "1"]
QUESTION = "Is metformin safe in severe kidney failure?"


def until(true: Callable[[], bool], process: subprocess.Popen[str] | ForkedPython) -> None:
    """Wait for something that a process does."""
    started = time.monotonic()
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - started < PATIENCE
        time.sleep(0.05)


def started(arguments: list[str]) -> subprocess.Popen[str]:
    """Start a command, its imports included."""
    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-m", "briefcontext", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    return process


def interrupted(
    process: subprocess.Popen[str] | ForkedPython, moment: Callable[[int], bool]
) -> tuple[str, str]:
    """Send a command one Ctrl-C at a moment, and return what it wrote until it ended.

    Args:
        process: the command.
        moment: returns True for the process's id when it has come.
    """
    with process:
        try:
            until(lambda: moment(process.pid), process)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    return output, errors


def asking(server: OpenAIServer, *route: str) -> ForkedPython:
    """Ask a model that `server` plays."""
    key = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.url}
    # A command that waited for the model would not end while the test waits for the command.
    held = ["--model", "openai:held", "--timeout", str(2 * PATIENCE)]
    command = ["-m", "briefcontext", "ask", QUESTION, *held, *route]
    return ForkedPython(command, env={**os.environ, **key})


@pytest.mark.parametrize(
    ("route", "calls"), [(MAPPED, 16), (["--retrieval", "bm25", "--route", "vanilla"], 1)]
)
def test_ctrl_c_ends_a_question_and_makes_no_further_call(
    route: list[str], calls: int, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(hold=True)
    output, errors = interrupted(asking(server, *route), lambda _: len(server.calls) == calls)
    assert output == ""
    assert re.search(r"Interrupted after [\d.]+ s\. Done: \d+ documents retrieved; ", errors)
    assert (
        f"Model calls: {calls}, {calls} of them dropped; 0 input and 0 output tokens were reported"
        in errors
    )
    assert len(server.calls) == server.arrived == calls
