"""The build pipeline: reading, encoding and writing overlap."""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.draft import Draft
from briefcontext.knowledge.build.ingest import Cut, Ingest, Item, gather_records, is_storable, text_length
from briefcontext.knowledge.build.reading_plan import ReadingPlan
from briefcontext.knowledge.build.records import Changes, HeldRecords
from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.store.manifest import Counts
from briefcontext.knowledge.store.passages import NewPassage

if TYPE_CHECKING:
    from briefcontext.knowledge.build.ray_workers import RayWorkers
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


@dataclass(frozen=True, slots=True)
class _Batch:
    changes: Changes
    passages: list[NewPassage]
    progress: Progress


class Pipeline:
    """Takes sources into a draft.

    One thread reads ahead and writes, the caller's encodes meanwhile. A batch of records is written together with the
    position in their source: wherever a build is cut off, it goes on behind the last batch that was written.
    """

    def __init__(
        self,
        draft: Draft,
        ledger: SourceLedger,
        encoder: "Encoder",
        cut: Cut | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._draft = draft
        self._ledger = ledger
        self._encoder = encoder
        self._ingest = Ingest(
            HeldRecords(draft.records, draft.passages),
            ledger,
            cut=cut,
            dimension=encoder.dimension,
            next_number=draft.manifest.next_number,
        )
        self._progress = progress
        self._size = SMALLEST_BATCH

    def run(self, plan: ReadingPlan) -> int:
        """Read the sources that are due; how many vectors were written."""
        done = 0
        writes: Future[None] | None = None
        with closing(self._batches(plan)) as batches, ThreadPoolExecutor(1, "store") as store:
            ahead = store.submit(next, batches, None)
            while (batch := ahead.result()) is not None:
                began = time.monotonic()
                ahead = store.submit(next, batches, None)
                vectors = encode(self._encoder, batch.passages)
                if writes is not None:
                    writes.result()
                writes = store.submit(self._draft.write, batch.changes, vectors)
                done += len(batch.passages)
                if self._progress is not None:
                    self._progress(replace(batch.progress, vectors=done))
                # Of what was new: a short source, or one that is held already, does not tell how fast others are.
                size = sum(len(passage.document.page_content) for passage in batch.passages)
                size += 1000 * len(batch.changes.passages)
                fitting = size * BATCH_SECONDS / max(time.monotonic() - began, 1e-3)
                self._size = min(max(int(fitting), SMALLEST_BATCH), LARGEST_BATCH)
            if writes is not None:
                writes.result()
        return done

    def run_on(self, workers: "RayWorkers", plan: ReadingPlan) -> int:
        """Do as `run` does, with workers that encode and write; records are applied and committed here."""
        waiting: deque[_Batch] = deque()
        done = 0

        def take() -> int:
            batch = waiting.popleft()
            self._draft.write(batch.changes, workers.next())
            if self._progress is not None:
                self._progress(replace(batch.progress, vectors=done + len(batch.passages)))
            return len(batch.passages)

        with closing(self._batches(plan)) as batches:
            for batch in batches:
                workers.submit(batch.passages)
                waiting.append(batch)
                if len(waiting) > 2 * workers.count:
                    done += take()
        while waiting:
            done += take()
        return done

    def _batches(self, plan: ReadingPlan) -> Generator[_Batch]:
        """What the records of the sources change, some at a time."""
        counts = Counts.total(self._ledger[entry].counts for entry in plan.due())
        for reading in plan:
            source = reading.source
            with closing(gather_records(source.entries())) as records:
                position, finished = self._ledger[reading.entry].position, False
                while not finished:
                    items, finished = _take(records, position, self._size)
                    changes = self._ingest.batch(items, reading.entry, finished=finished)
                    counts += changes.counts
                    if items:
                        position = items[-1][1]
                    progress = Progress(
                        source.name, reading.number, reading.count, source.size, source.consumed, counts, 0
                    )
                    yield _Batch(changes, changes.new_passages(), progress)


def _take(records: Iterator[tuple[Item, int]], position: int, size: int) -> tuple[list[tuple[Item, int]], bool]:
    """The next records that end after a position in the source, and whether they are the last."""
    items: list[tuple[Item, int]] = []
    taken_up = 0
    for item, taken in records:
        if taken > position:
            items.append((item, taken))
            taken_up += 1000 + text_length(item)
            if taken_up >= size:
                return items, False
    return items, True


def encode(encoder: "Encoder", passages: list[NewPassage]) -> NDArray[np.float32]:
    """One vector a passage, (n, d) float32: its own where it has one.

    Raises KnowledgeBaseError when the encoder gives anything else.
    """
    vectors = np.empty((len(passages), encoder.dimension), np.float32)
    texts: list[int] = []
    for row, passage in enumerate(passages):
        if passage.vector is None:
            texts.append(row)
        else:
            vectors[row] = passage.vector
    if texts:
        encoded = encoder.encode_passages(
            [title_and_text(passages[row].title, passages[row].document.page_content) for row in texts]
        )
        if encoded.shape != (len(texts), encoder.dimension) or not is_storable(encoded):
            raise KnowledgeBaseError(
                f"The encoder {encoder.name!r} gave vectors of shape {encoded.shape}, or values that are not "
                f"finite, where {(len(texts), encoder.dimension)} is needed: check the model and its device."
            )
        vectors[texts] = encoded
    return vectors
