"""The build pipeline: reading, encoding and writing overlap."""

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.draft import Draft, Encoded
from briefcontext.knowledge.build.ingest import Ingest, Item, Record, gather_records, is_storable
from briefcontext.knowledge.build.records import Changes
from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.store.manifest import Counts
from briefcontext.knowledge.store.passages import NewPassage

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

SMALLEST_BATCH, LARGEST_BATCH = 1_000_000, 32_000_000
"""Characters of text that are read, encoded and written at a time; a record counts as 1,000 more. Within these bounds
how much it is follows from how long the batches before took."""
BATCH_SECONDS = 20.0
"""What a batch is to take: a build that is killed loses two of them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a build."""

    source: str
    """Name of the source being read."""
    source_number: int
    """From 1, among those to be read."""
    source_count: int
    """How many are to be read, as far as that can be told by now."""
    size: int | None
    """How much there is to read in the source, in its own unit (bytes or records); None: unknown."""
    consumed: int
    """How much of it has been read."""
    counts: Counts
    """What became of the records of all sources to be read, those included that an earlier build dealt with."""
    vectors: int
    """Passages that this run has made vectors for, or taken them from where they were."""


Batch = tuple[Changes, Progress]
EncodeAll = Callable[[Iterator[Batch]], Iterator[tuple[Batch, Encoded]]]
"""Gives each batch with its passages encoded, in order; it may take more batches meanwhile."""


class Pipeline:
    """Takes sources into a draft.

    One thread reads ahead and writes, while passages are encoded. A batch of records is written together with the
    position in their source: wherever a build is cut off, it goes on behind the last batch that was written.
    """

    def __init__(self, draft: Draft, ledger: SourceLedger, encoder: "Encoder") -> None:
        self._draft = draft
        self._ledger = ledger
        self._encoder = encoder
        self._ingest = Ingest(draft, ledger, encoder)
        self._size = SMALLEST_BATCH

    def run(self, progress: Callable[[Progress], None] | None, encode_all: EncodeAll | None = None) -> int:
        """Read the sources that are due; how many vectors were written. `encode_all`: None: in this thread."""
        done = 0
        with closing(self._batches()) as batches, ThreadPoolExecutor(1, "store") as store:
            writes: Future[None] = store.submit(lambda: None)
            for (changes, reached), encoded in (encode_all or self._encode_all)(_read_ahead(batches, store)):
                writes.result()
                writes = store.submit(self._draft.write, changes, encoded)
                done += len(changes.new_passages())
                if progress is not None:
                    progress(replace(reached, vectors=done))
            writes.result()
        return done

    def _encode_all(self, batches: Iterator[Batch]) -> Iterator[tuple[Batch, Encoded]]:
        for batch in batches:
            began, passages = time.monotonic(), batch[0].new_passages()
            yield batch, encode(self._encoder, passages)
            # Of what was new: a short source, or one that is held already, does not tell how fast others are.
            size = sum(len(passage.document.page_content) for passage in passages)
            size += 1000 * len(batch[0].passages)
            fitting = size * BATCH_SECONDS / max(time.monotonic() - began, 1e-3)
            self._size = min(max(int(fitting), SMALLEST_BATCH), LARGEST_BATCH)

    def _batches(self) -> Generator[Batch]:
        """What the records of the sources change, some at a time."""
        due = self._ledger.due()
        counts = Counts.total(self._ledger.entries[entry].counts for entry in due)
        for number, (source, entry) in enumerate(self._ledger, start=1):
            with closing(gather_records(source.entries())) as records:
                position, finished = self._ledger.entries[entry].position, False
                while not finished:
                    items, finished = _take(records, position, self._size)
                    changes = self._ingest.batch(items, entry, finished=finished)
                    counts += changes.counts
                    if items:
                        position = items[-1][1]
                    count = max(number, len(due))
                    yield changes, Progress(source.name, number, count, source.size, source.consumed, counts, 0)


def _read_ahead(batches: Iterator[Batch], thread: ThreadPoolExecutor) -> Iterator[Batch]:
    """The batches, the next of which is read while one is used."""
    ahead = thread.submit(next, batches, None)
    while (batch := ahead.result()) is not None:
        ahead = thread.submit(next, batches, None)
        yield batch


def _take(records: Iterator[tuple[Item, int]], position: int, size: int) -> tuple[list[tuple[Item, int]], bool]:
    """The next records that end after a position in the source, and whether they are the last."""
    items: list[tuple[Item, int]] = []
    taken_up = 0
    for item, taken in records:
        if taken > position:
            items.append((item, taken))
            parts = item.parts.values() if isinstance(item, Record) else ()
            taken_up += 1000 + sum(len(document.page_content) for document, _ in parts)
            if taken_up >= size:
                return items, False
    return items, True


def encode(encoder: "Encoder", passages: list[NewPassage]) -> NDArray[np.float32]:
    """One vector a passage, (n, d) float32: its own where it has one.

    Raises KnowledgeBaseError when the encoder gives anything else.
    """
    texts = [passage for passage in passages if passage.vector is None]
    made = np.empty((0, encoder.dimension), np.float32)
    if texts:
        made = encoder.encode_passages([title_and_text(text.title, text.document.page_content) for text in texts])
    if made.shape != (len(texts), encoder.dimension) or not is_storable(made):
        raise KnowledgeBaseError(
            f"The encoder {encoder.name!r} gave vectors of shape {made.shape}, or values that are not finite, where "
            f"{(len(texts), encoder.dimension)} is needed: check the model and its device."
        )
    following = iter(made)
    vectors = [next(following) if passage.vector is None else passage.vector for passage in passages]
    return np.array(vectors, np.float32).reshape(len(passages), encoder.dimension)
