"""A build that kills its own process at a step of its choice: `python -m tests.killed_build FOLDER STEP NAME…`."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from langchain_core.documents import Document

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.sources.records import Deletion, Entry, Reject
from briefcontext.knowledge.sources.source import EntrySource
from tests.hashing_encoder import HashingEncoder

FILE_EVENTS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.copytree", "shutil.rmtree"}


def document(number: int, text: str, version: int = 1) -> Document:
    metadata = {"source_id": f"r{number:04d}", "title": f"Title {number}", "version": version}
    return Document(id=f"r{number:04d}", page_content=text, metadata=metadata)


def baseline() -> Iterator[Entry]:
    """2,600 records, the last one broken: three transactions."""
    for number in range(2600):
        yield document(number, f"Patient {number} was given aspirin and drug{number % 50}.")
    yield Reject("line 2601", "It is broken.")


def update() -> Iterator[Entry]:
    """Of the baseline's records it replaces 300 and deletes 200, and it has 900 new ones."""
    for number in range(0, 600, 2):
        yield document(number, f"Patient {number} was given ibuprofen instead.", version=2)
    for number in range(1, 401, 2):
        yield Deletion(f"r{number:04d}")
    for number in range(3000, 3900):
        yield document(number, f"Patient {number} was given drug{number % 70} and more.")


ENTRIES = {"baseline": baseline, "update": update}


def sources(names: list[str]) -> list[EntrySource]:
    return [EntrySource(ENTRIES[name](), name=name, fingerprint=f"sha256:{name}") for name in names]


class Steps:
    """Counts what the build does to its folder and how often it encodes, and kills the process at one of these."""

    def __init__(self, folder: Path, last: int) -> None:
        self._folder = str(folder)
        self._left = last

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in FILE_EVENTS and any(str(argument).startswith(self._folder) for argument in arguments):
            self.take()

    def take(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingEncoder(HashingEncoder):
    """Takes a step before and after each batch."""

    steps: Steps

    def encode_passages(self, passages):  # type: ignore[no-untyped-def]
        self.steps.take()
        vectors = super().encode_passages(passages)
        self.steps.take()
        return vectors


def main(folder: Path, last: int, names: list[str]) -> None:
    import chromadb  # noqa: F401  # its import is no step

    encoder = KillingEncoder()
    encoder.steps = Steps(folder, last)
    sys.addaudithook(encoder.steps.audit)
    build_knowledge_base(sources(names), folder, encoder=encoder, progress=lambda _: encoder.steps.take())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
