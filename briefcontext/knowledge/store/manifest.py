"""The manifest of a knowledge base: its contents, its encoder, the versions of its tables."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from briefcontext.errors import KnowledgeBaseError, problems
from briefcontext.knowledge.store.counts import IndexedSource
from briefcontext.knowledge.store.place import Place

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder
    from briefcontext.knowledge.store.table import Table

FORMAT_VERSION: Literal[4] = 4
MANIFEST_FILE, DRAFT_FILE = "manifest.json", "build.json"
"""The state that readers see, and the one that an unfinished build has reached."""
_LABELS = {"name": "the encoder", "revision": "its revision", "chunk_tokens": "chunk tokens"}
PASSAGES, RECORDS, TERMS = "passages", "records", "terms"
"""The tables: passages; source ids with their revisions; the number of passages of each term."""


def timestamp() -> str:
    """Return the time in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class EncoderRecord(BaseModel):
    """The encoder of the vectors, which every query must use."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    revision: str
    dimension: int
    metric: Literal["cosine", "ip"]
    text_format: str


class Manifest(BaseModel):
    """One state of a knowledge base."""

    model_config = ConfigDict(extra="forbid")

    format_version: Literal[4] = FORMAT_VERSION
    id: str = Field(default_factory=lambda: uuid4().hex)
    serial: int = 0
    """Goes up with each state: of the manifest and the draft, the higher is later."""
    created: str = Field(default_factory=timestamp)
    updated: str = Field(default_factory=timestamp)
    encoder: EncoderRecord
    chunk_tokens: int | None = None
    """Tokens of a chunk; None: whole texts are cut into 128, other documents not at all."""
    records: int = 0
    passages: int = 0
    retracted: int = 0
    """Passages of retracted records."""
    texts: int = 0
    """Passages with at least one term."""
    terms: int = 0
    """Terms in all passages, repeats counted."""
    versions: dict[str, int] | None = Field(default=None, min_length=3)
    """The versions of the tables."""
    trained: int = 0
    """The number of passages when the vector index was trained."""
    sources: list[IndexedSource] = []
    _place: Place = PrivateAttr()

    @property
    def place(self) -> Place:
        return self._place

    @classmethod
    def new(cls, place: Place, encoder: "Encoder", *, chunk_tokens: int | None) -> Self:
        manifest = cls(encoder=EncoderRecord.model_validate(encoder), chunk_tokens=chunk_tokens)
        manifest._place = place
        return manifest

    @classmethod
    def published(cls, place: Place, name: str = MANIFEST_FILE) -> Self | None:
        """Return the state that readers see; None until a first build is complete."""
        if (content := place.read(name)) is None:
            return None
        try:
            manifest = cls.model_validate_json(content)
        except ValidationError as error:
            raise KnowledgeBaseError(
                f"{place}/{name} is damaged or of another version of BriefContext "
                f"({problems(error)}): restore it, or build the base again in another folder."
            ) from error
        manifest._place = place
        return manifest

    @classmethod
    def draft(cls, place: Place) -> Self | None:
        """Return the state that an unfinished build has reached; None if there is none."""
        draft, published = cls.published(place, DRAFT_FILE), cls.published(place)
        # A build that was killed right after it published leaves an older draft.
        return draft if draft and (published is None or draft.serial > published.serial) else None

    @classmethod
    def latest(cls, place: Place) -> Self | None:
        """Return the state from which the next build continues; None if there is no base."""
        return cls.draft(place) or cls.published(place)

    def write_draft(self) -> None:
        self._write(DRAFT_FILE)

    def publish(self) -> None:
        """Let readers see this state: the manifest is replaced as a whole."""
        self.updated = timestamp()
        self._write(MANIFEST_FILE)
        self.place.remove(DRAFT_FILE)

    def _write(self, name: str) -> None:
        self.serial += 1
        self.place.write(name, (self.model_dump_json(indent=1) + "\n").encode())

    def table(self, name: str) -> "Table":
        """Open a table as this state has it."""
        from briefcontext.knowledge.store.table import Table

        assert self.versions is not None
        return Table(str(self.place.locate(f"{name}.lance")), self.versions[name])

    def check(self, encoder: "Encoder | str", *, chunk_tokens: int | None = None) -> None:
        """Raise KnowledgeBaseError for another encoder than the base's, or another chunk size.

        Of an encoder that is not loaded, the name is compared.
        """
        other: dict[str, Any] = {"name": encoder}
        if not isinstance(encoder, str):
            other = EncoderRecord.model_validate(encoder).model_dump()
        if chunk_tokens is not None:
            other["chunk_tokens"] = chunk_tokens
        own = {**self.encoder.model_dump(), "chunk_tokens": self.chunk_tokens}
        for name, value in other.items():
            if own[name] != value:
                raise KnowledgeBaseError(
                    f"{self.place} was built with {_LABELS.get(name, name)} {own[name]!r}, not "
                    f"{value!r}. Use the same, or name another folder."
                )
