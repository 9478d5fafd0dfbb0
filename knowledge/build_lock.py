"""One process at a time builds in a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from briefcontext.errors import KnowledgeBaseError

LOCK_FILE = "build.lock"


@contextmanager
def build_lock(folder: Path, *, timeout: float = 1.0) -> Iterator[None]:
    """Keep other builds out of a folder.

    The operating system releases the lock of a process that dies. Raises KnowledgeBaseError when another has it for
    longer than `timeout` seconds: `is_being_built` takes it for a moment.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        raise KnowledgeBaseError(f"{folder} is being built by another process: wait until it has ended.") from None
    try:
        yield
    finally:
        lock.release()


def is_being_built(folder: Path) -> bool:
    """Whether a build runs in the folder at this moment."""
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        with build_lock(folder, timeout=0):
            return False
    except KnowledgeBaseError:
        return True
    except OSError:
        # Nobody builds where nothing can be written.
        return False
