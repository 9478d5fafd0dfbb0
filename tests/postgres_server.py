"""A PostgreSQL server of a test's own, on loopback, from the binaries of this machine."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_VERSIONS = Path("/usr/lib/postgresql")
_OWNER = "postgres"


@contextmanager
def serve_postgres() -> Iterator[str]:
    """Start a server with an empty database; yield its address, and remove both in the end.

    Skips the test where there are no binaries, or where they would have to run as root, which they
    refuse.
    """
    binaries = _binaries()
    prefix: list[str] = []
    # Pytest's own temporary folders are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="briefcontext-postgres-"))
    try:
        if os.geteuid() == 0:
            prefix = ["runuser", "-u", _OWNER, "--"]
            owner = _other_user()
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data, port = folder / "data", _free_port()

        def run(program: str, *arguments: str) -> None:
            command = [*prefix, str(binaries / program), *arguments]
            # The server keeps what it inherits open, so that a pipe would never end.
            with (folder / "output.txt").open("a+") as output:
                done = subprocess.run(
                    command, stdout=output, stderr=output, cwd=folder, check=False
                )
            assert done.returncode == 0, (folder / "output.txt").read_text() + _log(folder)

        run(
            "initdb",
            "-D",
            str(data),
            "-A",
            "trust",
            "-U",
            _OWNER,
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        )
        options = f"-h 127.0.0.1 -p {port} -k '' -F"
        run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log.txt"), "-o", options, "start")
        try:
            yield f"postgresql://{_OWNER}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _binaries() -> Path:
    found = [path.parent for path in _VERSIONS.glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    complete = [
        folder
        for folder in found
        if (folder / "pg_ctl").exists() and (folder / "postgres").exists()
    ]
    if not complete:
        pytest.skip("there is no PostgreSQL server on this machine (initdb, pg_ctl)")
    return complete[0]


def _other_user() -> pwd.struct_passwd:
    try:
        owner = pwd.getpwnam(_OWNER)
    except KeyError:
        pytest.skip(f"PostgreSQL does not run as root, and there is no user {_OWNER}")
    if shutil.which("runuser") is None:
        pytest.skip(
            "PostgreSQL does not run as root, and there is no runuser to run it as another user"
        )
    return owner


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _log(folder: Path) -> str:
    log = folder / "log.txt"
    return log.read_text() if log.exists() else ""
