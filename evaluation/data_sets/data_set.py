"""A data set: its questions, the long documents they are asked on, and what identifies it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from briefcontext.evaluation.item import Item, LongDocument

__all__ = ["DataSet", "Reading"]


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
