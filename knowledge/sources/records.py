"""The entries that source readers yield: documents, deletions and rejects."""

from dataclasses import dataclass

from langchain_core.documents import Document


@dataclass(frozen=True, slots=True)
class Deletion:
    """A record that the source withdraws."""

    source_id: str
    revised: str = ""
    """The latest revision date among the records that the source gave before, YYYY-MM-DD, or "": a copy of the
    record that was not revised since stays deleted."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not be read."""

    position: str
    """Where in the source: `line 12`, `record 40 (PMID 123)`."""
    reason: str
    """One sentence for a person."""


Entry = Document | Deletion | Reject
