"""The place of a knowledge base: a folder, or a prefix in an object store."""

import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.files import lock, lone_surrogate, write_whole

LOCK_FILE = "build.lock"


class Place:
    """A folder; `ObjectStore` has the same methods for a bucket."""

    path: Path | str
    """The folder, or the URL."""

    def __init__(self, folder: Path) -> None:
        self.path = self.folder = folder

    def __str__(self) -> str:
        return str(self.path)

    def locate(self, name: str) -> Path | str:
        return self.path / name if isinstance(self.path, Path) else f"{self.path}/{name}"

    def names(self) -> set[str]:
        if self.folder.is_file():
            raise KnowledgeBaseError(f"{self} is a file: name a folder for the knowledge base.")
        return {entry.name for entry in self.folder.iterdir()} if self.folder.is_dir() else set()

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                return (self.folder / name).read_bytes()
        except OSError as error:
            message = f"{self}/{name} cannot be read ({error}): restore it, or build again."
            raise KnowledgeBaseError(message) from error
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file, or nothing."""
        write_whole(self.folder / name, content)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def stamp(self, name: str) -> object:
        """Return a value that changes when a file is written; None if there is no file."""
        with suppress(OSError):
            status = os.stat(self.folder / name)
            return status.st_mtime_ns, status.st_ino, status.st_size
        return None

    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def lock(self) -> AbstractContextManager[object]:
        """Refuse other builds. Raises KnowledgeBaseError if another process builds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        message = f"{self} is being built by another process: wait until it has ended."
        # The operating system releases the lock of a process that dies, a moment later.
        return lock(self.folder / LOCK_FILE, KnowledgeBaseError(message), timeout=1.0)


def open_place(path: str | os.PathLike[str]) -> Place:
    """Return the place of a folder's path or of a URL (`s3://bucket/name`). Nothing is read.

    Raises InputError if it cannot be used, MissingExtraError without the package for object stores.
    """
    name = os.fspath(path)
    if lone_surrogate(name):
        raise InputError(f"The path {name!r} is not UTF-8. Name another folder.")
    if "://" not in name:
        return Place(Path(path))
    from briefcontext.knowledge.store.object_store import ObjectStore

    return ObjectStore(name)
