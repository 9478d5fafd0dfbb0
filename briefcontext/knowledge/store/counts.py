"""The sources of a knowledge base, and the counts of their records."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Counts(BaseModel):
    """Records read: `read == indexed + updated + unchanged + deleted + rejected`."""

    read: int = 0
    indexed: int = 0
    updated: int = 0
    unchanged: int = 0
    """Identical to the record in the base, older, or a deletion of a record that is not there."""
    deleted: int = 0
    rejected: int = 0
    lost_characters: int = 0
    """Characters without Unicode in the fonts of PDF files. They are □ in the passages."""

    @classmethod
    def total(cls, counts: Iterable["Counts"]) -> "Counts":
        rows = list(counts)
        return cls(**{name: sum(getattr(row, name) for row in rows) for name in cls.model_fields})


class IndexedSource(BaseModel):
    """A source that was given to a build."""

    model_config = ConfigDict(frozen=True)

    name: str
    fingerprint: str
    finished: bool = False
    """True if it was read to its end."""
    counts: Counts = Counts()
    note: str = ""
    """A sentence on its records for users."""
    path: str | None = None
    """The path of a file."""
