"""The manifest of a knowledge base: what it holds, and what it was made with."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.stored_model import first_problem, stored_version

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"


class Counts(BaseModel):
    """What became of the records that were read.

    Two laws hold: `read == indexed + updated + unchanged + deleted + rejected`, and a base holds
    `indexed - deleted` records, summed over its sources.
    """

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

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})

    @classmethod
    def total(cls, counts: Iterable["Counts"]) -> "Counts":
        return sum(counts, start=cls())


class IndexedSource(BaseModel):
    """A source that was given to a build."""

    name: str
    fingerprint: str
    finished: bool
    """It was read to its end; else a build was stopped in it, and it was not given again."""
    counts: Counts
    note: str = ""
    """What to know of the records that the base has from it."""


class EncoderRecord(BaseModel):
    """The encoder that the vectors were made with, and that every query must use."""

    name: str
    revision: str
    dimension: int
    metric: Literal["cosine", "ip"]
    text_format: str

    @classmethod
    def of(cls, encoder: "Encoder") -> "EncoderRecord":
        return cls(**{name: getattr(encoder, name) for name in cls.model_fields})


class Manifest(BaseModel):
    """What `manifest.json` holds."""

    model_config = ConfigDict(extra="forbid")

    format_version: int = FORMAT_VERSION
    id: str = Field(default_factory=lambda: uuid4().hex)
    """Stays the same for the life of the base; names its collection on a Chroma server."""
    state: Literal["building", "complete"] = "building"
    created: str
    updated: str
    encoder: EncoderRecord
    store: str | None = None
    """The URL of the Chroma server that holds the vectors; None: they are in the folder."""
    chunk_tokens: int | None = None
    """All documents are cut into chunks of this many tokens; None: whole texts into 128, and others not at all."""
    records: int = 0
    passages: int = 0
    retracted: int = 0
    """Passages of retracted records."""
    sources: list[IndexedSource] = []

    @property
    def collection(self) -> str:
        """Name of the Chroma collection with its vectors."""
        return f"briefcontext-{self.id}"

    @classmethod
    def new(cls, encoder: "Encoder", *, store: str | None, chunk_tokens: int | None) -> Self:
        now = timestamp()
        record = EncoderRecord.of(encoder)
        return cls(created=now, updated=now, encoder=record, store=store, chunk_tokens=chunk_tokens)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a knowledge base, finished or not.

        Raises KnowledgeBaseError when the folder is missing or holds none, or one that cannot be understood.
        """
        path = folder / MANIFEST_FILE
        if not folder.is_dir():
            raise KnowledgeBaseError(
                f"There is no knowledge base at {folder}: build one with `briefcontext index SOURCE --kb {folder}`."
            )
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise KnowledgeBaseError(
                f"{folder} is not a knowledge base (it has no {MANIFEST_FILE}): check the path."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise KnowledgeBaseError(f"{path} cannot be read ({error}): restore it, or build again.") from error
        try:
            if (version := stored_version(text)) > FORMAT_VERSION:
                raise KnowledgeBaseError(
                    f"{folder} has format version {version}, and this BriefContext reads up to {FORMAT_VERSION}: "
                    "upgrade with `pip install -U briefcontext`."
                )
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise KnowledgeBaseError(
                f"{path} is damaged ({first_problem(error)}): restore it, or build again in another folder."
            ) from error

    def write(self, folder: Path) -> None:
        """Put it in the folder, whole or not at all."""
        unfinished = folder / f"{MANIFEST_FILE}.tmp"
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json(indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, folder / MANIFEST_FILE)

    def check_encoder(self, encoder: "Encoder", folder: Path) -> None:
        """Raise KnowledgeBaseError unless the base's vectors were made with this very encoder."""
        given = EncoderRecord.of(encoder)
        for name in EncoderRecord.model_fields:
            self._check_encoder_has(name, getattr(given, name), given.name, folder)

    def check_options(self, folder: Path, *, encoder: str, chunk_tokens: int | None, store: str | None) -> None:
        """Raise KnowledgeBaseError unless the base can be updated with these: an encoder by its name, nothing loaded.

        None stands for what the base has.
        """
        self._check_encoder_has("name", encoder, encoder, folder)
        for name, asked in (("chunk_tokens", chunk_tokens), ("store", store)):
            if asked is not None and asked != (held := getattr(self, name)):
                raise KnowledgeBaseError(
                    f"{folder} was built with {name}={held!r}, not {asked!r}: leave the option out, or name another "
                    "folder."
                )

    def _check_encoder_has(self, name: str, got: object, given: str, folder: Path) -> None:
        wanted = getattr(self.encoder, name)
        if wanted != got:
            raise KnowledgeBaseError(
                f"{folder} was built with encoder {self.encoder.name!r} and {name} {wanted!r}, and the encoder "
                f"{given!r} given has {name} {got!r}: use the same encoder, or build another base."
            )


def timestamp() -> str:
    """Now, in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
