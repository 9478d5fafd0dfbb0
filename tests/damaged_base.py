"""Reads and updates a knowledge base, in a process of its own, which Rust may end.

`python -m tests.damaged_base FOLDER` prints `fine`, or the type and the message of the error.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from briefcontext.errors import BriefContextError
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source

QUESTION = "Which toy drug helps?"
READS: tuple[Callable[[KnowledgeBase], object], ...] = (
    lambda base: base.search(QUESTION, 3),
    lambda base: base.search(QUESTION, 3, Filters(first_year=2000)),
    lambda base: base.search_terms("aspirin", 3),
    lambda base: base.source("1"),
    lambda base: base.get(["2"]),
    lambda base: base.count(),
    lambda base: base.labels(),
    lambda base: base.documents(),
    lambda base: base.term_statistics,
    lambda base: base.verify(),
)


def outcomes(folder: Path) -> list[str]:
    """Return how each way of using the base ended."""
    ended = []
    for read in READS:
        try:
            with KnowledgeBase.open(folder, encoder=HashingEncoder()) as base:
                read(base)
            ended.append("fine")
        except BriefContextError as error:
            ended.append(f"{type(error).__name__}: {error}")
    try:
        build(folder, source("new", record("new")))
        ended.append("fine")
    except BriefContextError as error:
        ended.append(f"{type(error).__name__}: {error}")
    return ended


if __name__ == "__main__":
    sys.stdout.write("\n".join(outcomes(Path(sys.argv[1]))))
