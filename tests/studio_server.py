"""A LangGraph development server in a separate process, for the tests."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.forked_python import ForkedPython
from tests.loopback import PATIENCE

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "langgraph.json"


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without keys, tracing or proxies."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith(("_API_KEY", "_PROXY"))
    }
    return {**kept, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "PYTHONPATH": str(ROOT), **more}


@contextmanager
def langgraph_dev(
    folder: Path, environment: Mapping[str, str], *options: str, forked: bool = True
) -> Iterator[str]:
    """Run `langgraph dev` on a free loopback port with its state in `folder`; yield its URL.

    Forked, it has imported the package before; else it is the command itself.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", folder / "server.log"
    command = [
        "dev",
        "--config",
        str(CONFIG),
        "--no-browser",
        "--no-reload",
        "--port",
        str(port),
        *options,
    ]
    server: ForkedPython | subprocess.Popen[bytes]
    with log.open("wb") as output:
        given: Any = {
            "cwd": folder,
            "env": environment,
            "stdout": output,
            "stderr": subprocess.STDOUT,
        }
        if forked:
            server = ForkedPython(["-m", "langgraph_cli", *command], **given)
        else:
            server = subprocess.Popen(
                [Path(sys.executable).with_name("langgraph"), *command], **given
            )
    try:
        _wait_until_it_answers(server, url, log)
        yield url
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _wait_until_it_answers(
    server: ForkedPython | subprocess.Popen[bytes], url: str, log: Path
) -> None:
    until = time.monotonic() + PATIENCE
    with httpx.Client(trust_env=False) as client:
        while server.poll() is None and time.monotonic() < until:
            with suppress(httpx.TransportError):
                if client.get(f"{url}/ok").is_success:
                    return
            with suppress(subprocess.TimeoutExpired):
                server.wait(timeout=0.2)
    raise AssertionError(f"The server did not start: {log.read_text()[-4000:]}")
