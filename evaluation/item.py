"""One question of a data set, and a long document that questions may be asked on."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Item", "LongDocument"]


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
