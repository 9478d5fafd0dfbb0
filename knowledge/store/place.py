"""The place of a knowledge base: a folder, and the small files beside its tables."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.files import lock, write_whole

LOCK_FILE = "build.lock"


class Place:
    """The location of a knowledge base: a folder, or for an `ObjectStore` a prefix in a bucket."""

    path: Path | str
    """The folder, or the URL."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def __str__(self) -> str:
        return str(self.path)

    @property
    def folder(self) -> Path:
        """The folder. Raises InputError where it lies in none."""
        if isinstance(self.path, str):
            raise InputError(f"{self} is no folder, which Chroma's files need: use a Chroma server (--store http://…).")
        return self.path

    def named(self, name: str) -> Path | str:
        """The path or URL of a file in it."""
        return self.path / name if isinstance(self.path, Path) else f"{self.path}/{name}"

    def table(self, name: str) -> str:
        return str(self.named(f"{name}.lance"))

    def exists(self, name: str) -> bool:
        return self.stamp(name) is not None

    def names(self) -> set[str]:
        """The names of the files and folders in it. Raises KnowledgeBaseError where it cannot hold any."""
        if self.folder.exists() and not self.folder.is_dir():
            raise KnowledgeBaseError(f"{self} is a file: name a folder for the knowledge base.")
        return {entry.name for entry in self.folder.iterdir()} if self.folder.is_dir() else set()

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none. Raises OSError where it cannot be read."""
        try:
            return (self.folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Put a file there, whole or not at all."""
        write_whole(self.folder / name, content)

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def stamp(self, name: str) -> object:
        """Return what differs once a file was written again; None where there is none."""
        try:
            status = os.stat(self.folder / name)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def size(self) -> int:
        """Bytes of all that it holds."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def lock(self) -> AbstractContextManager[object]:
        """Keep other builds out. Raises KnowledgeBaseError when another process builds there."""
        # The operating system releases the lock of a process that dies; `is_locked` takes it for a moment.
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._locked(timeout=1.0)

    def _locked(self, timeout: float) -> AbstractContextManager[object]:
        busy = KnowledgeBaseError(f"{self} is being built by another process: wait until it has ended.")
        return lock(self.folder / LOCK_FILE, busy, timeout=timeout)

    def is_locked(self) -> bool:
        """Return whether a build runs at this moment."""
        if not self.exists(LOCK_FILE):
            return False
        try:
            with self._locked(timeout=0):
                return False
        except KnowledgeBaseError:
            return True
        except OSError:
            # Nobody builds where nothing can be written.
            return False


def open_place(path: str | os.PathLike[str]) -> Place:
    """A folder's path, or the URL of an object store (`s3://bucket/name`), as a place; nothing is read.

    Raises:
        InputError: the URL cannot be used.
        MissingExtraError: the package for object stores is not installed.
    """
    if "://" not in os.fspath(path):
        return Place(Path(path))
    from briefcontext.knowledge.store.object_store import ObjectStore

    return ObjectStore(os.fspath(path))
