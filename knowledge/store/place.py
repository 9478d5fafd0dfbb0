"""The place of a knowledge base: a folder, and the small files beside its tables."""

import os
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.files import lock, write_whole

__all__ = ["Folder", "Place", "open_place"]

LOCK_FILE = "build.lock"


class Place(ABC):
    """The location of a knowledge base: a folder, or an object store."""

    path: Path | str
    """The folder, or the URL."""

    def __str__(self) -> str:
        return str(self.path)

    @property
    def folder(self) -> Path:
        """The folder. Raises InputError where it lies in none."""
        raise InputError(f"{self} is no folder, which Chroma's files need: use a Chroma server (--store http://…).")

    def named(self, name: str) -> Path | str:
        """The path or URL of a file in it."""
        return f"{self.path}/{name}"

    def table(self, name: str) -> str:
        """The URI of one of its tables."""
        return str(self.named(f"{name}.lance"))

    def exists(self, name: str) -> bool:
        """Return whether it holds a file of that name."""
        return self.stamp(name) is not None

    @abstractmethod
    def names(self) -> set[str]:
        """The names of the files and folders in it. Raises KnowledgeBaseError where it cannot hold any."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none. Raises OSError where it cannot be read."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Put a file there, whole or not at all."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""

    @abstractmethod
    def stamp(self, name: str) -> object:
        """Return what differs once a file was written again; None where there is none."""

    @abstractmethod
    def size(self) -> int:
        """Bytes of all that it holds."""

    @abstractmethod
    def lock(self) -> AbstractContextManager[object]:
        """Keep other builds out. Raises KnowledgeBaseError when another process builds there."""

    @abstractmethod
    def is_locked(self) -> bool:
        """Return whether a build runs at this moment."""


def open_place(path: str | os.PathLike[str]) -> Place:
    """A folder's path, or the URL of an object store (`s3://bucket/name`), as a place; nothing is read.

    Raises:
        InputError: the URL cannot be used.
        MissingExtraError: the package for object stores is not installed.
    """
    if "://" not in os.fspath(path):
        return Folder(Path(path))
    from briefcontext.knowledge.store.object_store import ObjectStore

    return ObjectStore(os.fspath(path))


class Folder(Place):
    """A folder that holds a knowledge base."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path

    @property
    def folder(self) -> Path:
        return self.path

    def named(self, name: str) -> Path:
        return self.path / name

    def names(self) -> set[str]:
        if self.path.exists() and not self.path.is_dir():
            raise KnowledgeBaseError(f"{self.path} is a file: name a folder for the knowledge base.")
        return {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()

    def read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        write_whole(self.path / name, content)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def stamp(self, name: str) -> object:
        try:
            status = os.stat(self.path / name)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())

    def lock(self) -> AbstractContextManager[object]:
        # The operating system releases the lock of a process that dies; `is_locked` takes it for a moment.
        self.path.mkdir(parents=True, exist_ok=True)
        return self._locked(timeout=1.0)

    def _locked(self, timeout: float) -> AbstractContextManager[object]:
        busy = KnowledgeBaseError(f"{self.path} is being built by another process: wait until it has ended.")
        return lock(self.path / LOCK_FILE, busy, timeout=timeout)

    def is_locked(self) -> bool:
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
