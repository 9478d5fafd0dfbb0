"""One Ctrl-C ends a command, at whatever it is."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forked_python import ForkedPython
from tests.loopback import PATIENCE
from tests.openai_server import Call, OpenAIServer, Reply, faithful

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
        moment: tells from the process's id whether it has come.
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
def test_a_question_to_a_model_that_hangs_ends_and_no_further_call_goes_out(
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


def test_a_question_tells_what_it_did_and_what_that_cost(server: OpenAIServer) -> None:
    def script(call: Call) -> Reply:
        return faithful(call) if call.number < 6 else Reply(hold=True)

    server.script = script
    _, errors = interrupted(asking(server, *MAPPED), lambda _: len(server.calls) == 16)
    counted = re.search(
        r"(\d+) of 16 partitions read\. Model calls: 16, (\d+) of them dropped; ([\d,]+) input and "
        r"([\d,]+)",
        errors,
    )
    assert counted, errors
    read, dropped, given, made = (int(number.replace(",", "")) for number in counted.groups())
    # A reply may have come whose partition was not yet told as read.
    assert read <= 16 - dropped <= 6
    assert (given > 0) == (made > 0) == (dropped < 16)
    assert len(server.calls) == server.arrived == 16


@pytest.mark.parametrize("library", ["pydantic_core", "ormsgpack"])
def test_a_question_ends_also_while_packages_load(library: str) -> None:
    def loads(process: int) -> bool:
        return library in Path(f"/proc/{process}/maps").read_text()

    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    output, errors = interrupted(started(["ask", QUESTION]), loads)
    assert output == ""
    assert "Interrupted" in errors
