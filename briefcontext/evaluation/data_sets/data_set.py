"""A data set: its questions, the long documents they are asked on, and samples of its questions."""

from collections import Counter
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


def long_document(id: str, text: str, title: str = "") -> Document:
    """Make a long document, whole; without a title where the data set gives none."""
    return Document(id=id, page_content=text, metadata={"source_id": id, "title": title})


@dataclass(slots=True)
class DataSet:
    """Questions as they were read."""

    name: str
    """What tables call it: the subset, the kind, or the file's name."""
    items: list[Item] = field(default_factory=list)
    """In the file's order, with ids that differ."""
    documents: dict[str, Document] = field(default_factory=dict)
    """The long documents by id; empty where questions are asked on a corpus."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Why questions of the file are not among the items, and how many each time; empty when all are."""
    files: list[Path] = field(default_factory=list)
    """Those that tell the data set from others, where it is a folder, or has long documents beside its file."""
    sha256: str = ""
    """Of the file; where there are several, of their names and digests."""


def sample(items: Sequence[Item], limit: int, seed: int = 0) -> list[Item]:
    """Draw `limit` items, or all where there are fewer.

    Which are drawn, and their order, depend on the seed and on the items' ids, not on the order of
    `items` or the name of their file; a larger limit adds to the items of a smaller one.
    """
    if limit < 1:
        raise InputError(f"A sample of {limit} questions cannot be drawn: ask for 1 or more.")
    # By a digest of the item itself, where a generator's numbers would fall on items by their
    # place.
    return sorted(items, key=lambda item: (sha256(f"{seed}\0{item.id}"), item.id))[:limit]


def balanced_sample(items: Iterable[Item], per_class: int = PER_CLASS, seed: int = 0) -> list[Item]:
    """Draw `per_class` items of each right answer of each data set, in an order that mixes the answers.

    Only multiple-choice items with a known answer can be drawn. As with `sample`, the file's order
    does not matter, and a larger `per_class` adds to the items of a smaller one.

    Raises:
        InputError: an answer has fewer items, or no item can be drawn.
    """
    classes: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        if item.options and item.answers:
            classes.setdefault((item.group, item.answers[0]), []).append(item)
    if not classes:
        raise InputError(
            "A balanced sample needs multiple-choice questions with known answers, and there are "
            "none."
        )
    drawn = []
    for (group, answer), members in sorted(classes.items()):
        if len(members) < per_class:
            words = members[0].options.get(answer, answer)
            fewest = min(map(len, classes.values()))
            raise InputError(
                f"{group or 'The data set'} has {len(members)} questions whose answer is {answer} ({words}), and "
                f"{per_class} of each are asked for: ask for {fewest} or fewer."
            )
        drawn += sample(members, per_class, seed)
    return sample(drawn, len(drawn), seed)
