"""A data set: its questions, the long documents they are asked on, and what identifies it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DataSet", "Item", "LongDocument", "Reading"]


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its answer key."""

    id: str
    """Unique in its data set."""
    question: str
    options: Mapping[str, str]
    """Letter to text, in the published order; empty for a free-text question."""
    answers: tuple[str, ...]
    """The right letter for multiple choice; every accepted text for free text; empty where there is no key."""
    gold_ids: tuple[str, ...]
    """Passage or source ids (PMIDs) of the key documents; empty when unknown."""
    document: str | None = None
    """The id of the one long document that it is asked on, where there is one."""
    summary: bool = False
    """Whether its answers are some sentences long, and not a word or a phrase."""
    group: str = ""
    """The data set's name: "bioasq", "pubmedqa", "medqa" and so on."""


@dataclass(frozen=True, slots=True)
class LongDocument:
    """One long document, whole."""

    id: str
    title: str
    """Empty where the data set gives none."""
    text: str


@dataclass(frozen=True, slots=True)
class DataSet:
    """Questions as they were read."""

    name: str
    """What tables call it: the subset, the kind, or the file's name."""
    items: list[Item]
    """In the file's order, with ids that differ."""
    documents: Mapping[str, LongDocument]
    """The long documents by id; empty where questions are asked on a corpus."""
    sha256: str
    """Of the file; of a folder, of the names and digests of the files that were read."""
    left_out: Mapping[str, int]
    """Why questions of the file are not among the items, and how many each time; empty when all are."""


@dataclass(slots=True)
class Reading:
    """What a reader of one layout has found so far."""

    name: str
    items: list[Item] = field(default_factory=list)
    documents: dict[str, LongDocument] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
