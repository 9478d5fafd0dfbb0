"""The place of a knowledge base, and its manifest: its contents, its encoder, the published versions of its tables."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.files import lock, lone_surrogate, write_whole

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder
    from briefcontext.knowledge.store.table import Table

FORMAT_VERSION = 4
MANIFEST_FILE = "manifest.json"
"""The state that readers see."""
DRAFT_FILE = "build.json"
"""The state that a build has reached which is not complete."""
LOCK_FILE = "build.lock"

PASSAGES, RECORDS, TERMS = "passages", "records", "terms"
"""The names of its tables: passages; records, their sources and deletions; and the passages with each term."""


class Place:
    """The location of a knowledge base: a folder, or for an `ObjectStore` a prefix in a bucket."""

    path: Path | str
    """The folder, or the URL."""

    def __init__(self, folder: Path) -> None:
        self.path = self.folder = folder

    def __str__(self) -> str:
        return str(self.path)

    def named(self, name: str) -> Path | str:
        """The path or URL of a file in it."""
        return self.path / name if isinstance(self.path, Path) else f"{self.path}/{name}"

    def table(self, name: str) -> str:
        return str(self.named(f"{name}.lance"))

    def names(self) -> set[str]:
        """The names of the files and folders in it. Raises KnowledgeBaseError where it cannot hold any."""
        if self.folder.exists() and not self.folder.is_dir():
            raise KnowledgeBaseError(f"{self} is a file: name a folder for the knowledge base.")
        return {entry.name for entry in self.folder.iterdir()} if self.folder.is_dir() else set()

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none. Raises OSError where it cannot be read."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self.folder / name).read_bytes()
        return None

    def write(self, name: str, content: bytes) -> None:
        """Put a file there, whole or not at all."""
        write_whole(self.folder / name, content)

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def stamp(self, name: str) -> object:
        """Return what differs once a file was written again; None where there is none."""
        with suppress(OSError):
            status = os.stat(self.folder / name)
            return status.st_mtime_ns, status.st_ino, status.st_size
        return None

    def size(self) -> int:
        """Bytes of all that it holds."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def lock(self) -> AbstractContextManager[object]:
        """Keep other builds out. Raises KnowledgeBaseError when another process builds there."""
        # The operating system releases the lock of a process that dies, a moment later.
        self.folder.mkdir(parents=True, exist_ok=True)
        busy = KnowledgeBaseError(
            f"{self} is being built by another process: wait until it has ended."
        )
        return lock(self.folder / LOCK_FILE, busy, timeout=1.0)


def open_place(path: str | os.PathLike[str]) -> Place:
    """A folder's path, or the URL of an object store (`s3://bucket/name`), as a place; nothing is read.

    Raises:
        InputError: the URL cannot be used, or the path is not UTF-8.
        MissingExtraError: the package for object stores is not installed.
    """
    if lone_surrogate(os.fspath(path)):
        raise InputError(
            f"The knowledge base's path {os.fspath(path)!r} is not UTF-8. Name another folder."
        )
    if "://" not in os.fspath(path):
        return Place(Path(path))
    from briefcontext.knowledge.store.object_store import ObjectStore

    return ObjectStore(os.fspath(path))


def timestamp() -> str:
    """Now, in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Counts(BaseModel):
    """Counts of the records that were read: `read == indexed + updated + unchanged + deleted + rejected`."""

    read: int = 0
    indexed: int = 0
    """New records."""
    updated: int = 0
    """Records that replaced the one that was held under their source id."""
    unchanged: int = 0
    """Nothing to do: identical to the record held, older than it, or a deletion of a record not held."""
    deleted: int = 0
    """Deletions of a record that was held."""
    rejected: int = 0
    """Records left out; each one has a line in the rejects file."""
    lost_characters: int = 0
    """Characters without Unicode in the fonts of PDF files. They are □ in the passages."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            **{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields}
        )

    @classmethod
    def total(cls, counts: Iterable["Counts"]) -> "Counts":
        return sum(counts, start=cls())


class IndexedSource(BaseModel):
    """A source that was given to a build."""

    model_config = ConfigDict(frozen=True)

    name: str
    fingerprint: str
    finished: bool = False
    """Whether it was read to its end."""
    counts: Counts = Counts()
    note: str = ""
    """A sentence on its records for users."""
    path: str | None = None
    """The path of a file."""

    @property
    def key(self) -> str:
        """The path or the name, by which the same file is known again."""
        return self.path or self.name


class EncoderRecord(BaseModel):
    """The encoder that the vectors were made with, and that every query must use."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    revision: str
    dimension: int
    metric: Literal["cosine", "ip"]
    text_format: str


class Manifest(BaseModel):
    """One state of a knowledge base: the one that readers see, or the one that a build has reached."""

    model_config = ConfigDict(extra="forbid")

    format_version: int = FORMAT_VERSION
    id: str = Field(default_factory=lambda: uuid4().hex)
    """Remains the same for the life of the base."""
    serial: int = 0
    """How many states were written before it: of the manifest and the draft, the one with more is the later one."""
    created: str
    updated: str
    encoder: EncoderRecord
    chunk_tokens: int | None = None
    """All documents are cut into chunks of about so many tokens; None: whole texts into 128, and others not at all."""
    records: int = 0
    passages: int = 0
    retracted: int = 0
    """Passages of retracted records."""
    texts: int = 0
    """Passages with at least one term."""
    terms: int = 0
    """Terms in all of them, repeats counted."""
    versions: dict[str, int] | None = Field(default=None, min_length=3)
    """The versions of its tables."""
    trained: int = 0
    """How many passages there were when the vector index was trained."""
    sources: list[IndexedSource] = []
    _place: Place = PrivateAttr()

    @property
    def place(self) -> Place:
        """Where it was read, or will be written."""
        return self._place

    @classmethod
    def new(cls, place: Place, encoder: "Encoder", *, chunk_tokens: int | None) -> Self:
        now, record = timestamp(), EncoderRecord.model_validate(encoder)
        manifest = cls(created=now, updated=now, encoder=record, chunk_tokens=chunk_tokens)
        manifest._place = place
        return manifest

    @classmethod
    def published(cls, place: Place) -> Self | None:
        """The state that readers see; None until a first build is complete.

        Raises KnowledgeBaseError when it cannot be understood.
        """
        return cls._read(place, MANIFEST_FILE)

    @classmethod
    def draft(cls, place: Place) -> Self | None:
        """The state that an unfinished build has reached; None where there is none."""
        draft, published = cls._read(place, DRAFT_FILE), cls.published(place)
        # A build that was stopped right after it published leaves an older draft.
        return draft if draft and (published is None or draft.serial > published.serial) else None

    @classmethod
    def latest(cls, place: Place) -> Self | None:
        """The state that the next build goes on from; None where there is no base."""
        return cls.draft(place) or cls.published(place)

    @classmethod
    def _read(cls, place: Place, name: str) -> Self | None:
        where = f"{place}/{name}"
        try:
            if (content := place.read(name)) is None:
                return None
            if (version := stored_version(content)) > FORMAT_VERSION:
                raise KnowledgeBaseError(
                    f"{place} has format version {version}, and this BriefContext reads up to "
                    f"{FORMAT_VERSION}: "
                    "install a newer one."
                )
            if version < FORMAT_VERSION:
                raise KnowledgeBaseError(
                    f"{place} was built by an earlier BriefContext, in a format that is not read "
                    f"any more: build it "
                    f"anew with `briefcontext index SOURCE --kb DIR`, in a new folder or after "
                    f"removing {place}."
                )
            manifest = cls.model_validate_json(content)
        except OSError as error:
            raise KnowledgeBaseError(
                f"{where} cannot be read ({error}): restore it, or build again."
            ) from error
        except ValidationError as error:
            raise KnowledgeBaseError(
                f"{where} is damaged ({first_problem(error)}): restore it, or build again in "
                f"another folder."
            ) from error
        manifest._place = place
        return manifest

    def write_draft(self) -> None:
        """Keep it as the state that a build has reached."""
        self._write(DRAFT_FILE)

    def publish(self) -> None:
        """Make it the state that readers see."""
        self.updated = timestamp()
        self._write(MANIFEST_FILE)
        self.place.remove(DRAFT_FILE)

    def _write(self, name: str) -> None:
        self.serial += 1
        self.place.write(name, (self.model_dump_json(indent=1) + "\n").encode())

    def table(self, name: str) -> "Table":
        """One of its tables, to be read as this state has it."""
        from briefcontext.knowledge.store.table import Table

        assert self.versions is not None
        return Table(self.place.table(name), self.versions[name])

    def check(self, encoder: "Encoder | str", *, chunk_tokens: int | None = None) -> None:
        """Raise KnowledgeBaseError unless the base's vectors were made with this very encoder, and with these options.

        Of an encoder that is not loaded, the name is enough. None stands for what the base has.
        """
        given = (
            {"name": encoder}
            if isinstance(encoder, str)
            else EncoderRecord.model_validate(encoder).model_dump()
        )
        for name, got in given.items():
            if (wanted := getattr(self.encoder, name)) != got:
                built, other = (
                    repr(encoder) + ("" if name == "name" else f" and {name} {value!r}")
                    for encoder, value in ((self.encoder.name, wanted), (given["name"], got))
                )
                raise KnowledgeBaseError(
                    f"{self.place} was built with encoder {built}, not {other}: use the same "
                    f"encoder, or build another "
                    "base."
                )
        if chunk_tokens not in (None, self.chunk_tokens):
            built = (
                "without chunk_tokens"
                if self.chunk_tokens is None
                else f"with chunk_tokens {self.chunk_tokens}"
            )
            raise KnowledgeBaseError(
                f"{self.place} was built {built}, not with {chunk_tokens}. Leave the option out, "
                f"or "
                "name another folder."
            )


def unfinished(sources: Iterable[IndexedSource]) -> list[str]:
    """Names of the sources that were left off, and not read to the end under the same name since."""
    finished = {source.name: source.finished for source in sources}
    return [name for name, to_its_end in finished.items() if not to_its_end]


class _Version(BaseModel):
    format_version: int


def stored_version(text: str | bytes) -> int:
    """Return the format version of a stored model, whatever else stands in it. Raises ValidationError without one."""
    return _Version.model_validate_json(text).format_version


def first_problem(error: ValidationError) -> str:
    """Say where a stored model is first wrong, and how."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
