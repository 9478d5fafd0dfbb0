"""Atomic files, locks, hashes, and JSON lines for any text.

Every layer imports this module, so it imports nothing of BriefContext.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

CACHE_VARIABLE = "BRIEFCONTEXT_CACHE"

_SURROGATE = re.compile("[\ud800-\udfff]")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file, which replaces `path` if the block succeeds.

    Other processes see the whole old or new file, also after a crash. Concurrent writers need a
    lock.
    """
    unfinished = path.with_name(f"{path.name}.partial")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically. Lone surrogates are spelled out, as JSON does it."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(
            content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
        )


def lock(file: Path, busy: Exception, *, timeout: float = 0.0) -> AbstractContextManager[object]:
    """Take a lock file, and return a context manager that releases it. A dead process loses it.

    Args:
        file: In an existing folder.
        busy: Raised if another process holds the lock for longer than `timeout` seconds.

    Raises:
        OSError: The file cannot be created.
    """
    from filelock import FileLock, Timeout

    try:
        return FileLock(file).acquire(timeout=timeout)
    except Timeout:
        raise busy from None


def cache_folder() -> Path:
    """Return the user's cache folder, or that of the environment variable BRIEFCONTEXT_CACHE."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("briefcontext")


def sha256(content: str | bytes) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, also with lone surrogates."""
    return hashlib.sha256(
        content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    ).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of JSON in ASCII.

    A model's reply may contain a lone surrogate, which UTF-8 cannot encode, or U+2028, at which
    many programs end a line.
    """
    return json.dumps(row) + "\n"


def json_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines, without unfinished lines; none without a file."""
    # `splitlines` would also end lines at U+2028, U+2029 and U+0085, which JSON allows in a text.
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        with suppress(ValueError):
            row = json.loads(line.decode())
            if isinstance(row, dict):
                yield row


def lone_surrogate(text: str) -> re.Match[str] | None:
    """Find the first lone surrogate, such as half of an emoji."""
    return _SURROGATE.search(text)


def encodable(text: str) -> str:
    """Replace lone surrogates, which cannot be sent, stored or printed, one for one."""
    return _SURROGATE.sub("\ufffd", text)
