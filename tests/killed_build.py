"""A build that kills its own process: `python -m tests.killed_build FOLDER WHEN NAME…`.

WHEN is the number of a step (`7`), or a time after the build begins (`0.7s`).
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from briefcontext.knowledge.build import build_knowledge_base, draft, pipeline
from briefcontext.knowledge.sources.source import Deletion, Entry, EntrySource, Reject
from briefcontext.knowledge.store.place import Place
from briefcontext.knowledge.store.table import Table
from tests.hashing_encoder import HashingEncoder


def document(number: int, text: str, version: int = 1) -> Document:
    metadata = {"source_id": f"r{number:04d}", "title": f"Title {number}", "version": version}
    return Document(id=f"r{number:04d}", page_content=text, metadata=metadata)


def baseline() -> Iterator[Entry]:
    """650 records, the last one broken: three transactions."""
    for number in range(650):
        yield document(number, f"Patient {number} was given aspirin and drug{number % 50}.")
    yield Reject("line 651", "It is broken.")


def update() -> Iterator[Entry]:
    """Of the baseline's records it replaces 75 and deletes 50, and it has 225 new ones."""
    for number in range(0, 150, 2):
        yield document(number, f"Patient {number} was given ibuprofen instead.", version=2)
    for number in range(1, 101, 2):
        yield Deletion(f"r{number:04d}")
    for number in range(3000, 3225):
        yield document(number, f"Patient {number} was given drug{number % 70} and more.")


ENTRIES = {"baseline": baseline, "update": update}


def sources(names: list[str]) -> list[EntrySource]:
    return [EntrySource(ENTRIES[name](), name=name, fingerprint=f"sha256:{name}") for name in names]


class Steps:
    """Counts the steps of a build, and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self._left = last

    def take(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that takes a step before and after."""

        def stepping(*given: Any, **options: Any) -> Any:
            self.take()
            result = function(*given, **options)
            self.take()
            return result

        return stepping


def main(folder: Path, when: str, names: list[str]) -> None:
    pipeline.SMALLEST_BATCH = pipeline.LARGEST_BATCH = 256_000
    encoder = HashingEncoder()
    if when.endswith("s"):
        timer = threading.Timer(float(when[:-1]), os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
        build_knowledge_base(sources(names), folder, encoder=encoder)
        return
    steps = Steps(int(when))
    encoder.encode_passages = steps.around(encoder.encode_passages)
    # Whatever is written to disk is written by these.
    for name in ("create", "append", "upsert", "overwrite", "delete", "clean"):
        setattr(Table, name, steps.around(getattr(Table, name)))
    for name in ("write", "remove"):
        setattr(Place, name, steps.around(getattr(Place, name)))
    draft.bring_up_to_date = steps.around(draft.bring_up_to_date)
    build_knowledge_base(sources(names), folder, encoder=encoder, progress=lambda _: steps.take())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
