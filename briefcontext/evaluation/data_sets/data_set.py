"""A data set: its questions, their long documents, and samples of its questions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.files import sha256

PER_CLASS = 35
"""Questions of each answer in BriefContext's controlled experiments."""


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its answer key."""

    id: str
    question: str
    options: Mapping[str, str]
    """Letter to text, in the published order; empty for a free question."""
    answers: tuple[str, ...]
    """The right letter, or every accepted text of a free question; empty without a key."""
    gold_ids: tuple[str, ...]
    """Passage or source ids (PMIDs) of the key documents; empty if unknown."""
    document: str | None = None
    """Id of the long document that it is asked on, if any."""
    summary: bool = False
    """True if its answers are several sentences long."""
    group: str = ""
    """Name of the data set: "bioasq", "pubmedqa", "medqa" and so on."""


def long_document(id: str, text: str, title: str = "") -> Document:
    """Return a whole long document."""
    return Document(id=id, page_content=text, metadata={"source_id": id, "title": title})


@dataclass(slots=True)
class DataSet:
    """Questions as they were read."""

    name: str
    """Name in tables: the subset, the kind, or the file's name."""
    items: list[Item] = field(default_factory=list)
    """In the file's order, with unique ids."""
    documents: dict[str, Document] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    """All files that were read, if there are several."""
    sha256: str = ""
    """Digest of the file, or of the files' names and digests."""


def sample(items: Sequence[Item], limit: int, seed: int = 0) -> list[Item]:
    """Draw `limit` items, or all if there are fewer.

    The draw and its order depend on the seed and the items' ids alone; a larger limit adds to the
    items of a smaller one.
    """
    if limit < 1:
        raise InputError(f"A sample needs 1 or more questions, got {limit}.")
    return sorted(items, key=lambda item: (sha256(f"{seed}\0{item.id}"), item.id))[:limit]


def balanced_sample(items: Iterable[Item], per_class: int = PER_CLASS, seed: int = 0) -> list[Item]:
    """Draw `per_class` items of each right answer of each data set, in mixed order.

    Only multiple-choice items with a known answer are drawn. Raises InputError if an answer has
    fewer items, or no item can be drawn.
    """
    classes: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        if item.options and item.answers:
            classes.setdefault((item.group, item.answers[0]), []).append(item)
    if not classes:
        raise InputError("A balanced sample needs multiple-choice questions with known answers.")
    drawn = []
    for (group, answer), members in sorted(classes.items()):
        if len(members) < per_class:
            raise InputError(
                f"{group or 'The data set'} has {len(members)} questions with the answer {answer}, "
                f"fewer than {per_class}. Ask for {min(map(len, classes.values()))} or fewer."
            )
        drawn += sample(members, per_class, seed)
    return sample(drawn, len(drawn), seed)


def questions_sha256(items: Sequence[Item]) -> str:
    """Return the SHA-256 of questions in their order: ids, texts and gold ids."""
    return sha256(json.dumps([[item.id, item.question, list(item.gold_ids)] for item in items]))
