"""The build pipeline: reading, encoding and writing overlap."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from briefcontext.knowledge.build.changes import Changes
from briefcontext.knowledge.build.draft import Draft
from briefcontext.knowledge.build.encoding import encode
from briefcontext.knowledge.build.held_records import HeldRecords
from briefcontext.knowledge.build.ingest import Cut, Ingest, Item, gather_records, text_length
from briefcontext.knowledge.build.reading_plan import ReadingPlan
from briefcontext.knowledge.build.source_ledger import SourceLedger
from briefcontext.knowledge.store.manifest import Counts
from briefcontext.knowledge.store.passages import NewPassage

if TYPE_CHECKING:
    from briefcontext.knowledge.build.ray_workers import RayWorkers
    from briefcontext.knowledge.encoders import Encoder

BATCH_RECORDS = 1024
"""Records at a time: enough to sort passages by length and waste little on padding, few enough to report often."""
BATCH_CHARACTERS = 4_000_000
"""And at most so much text, or one record."""


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
    position in their source: wherever it is cut off, nothing is lost but what was not written yet.
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

    def run(self, plan: ReadingPlan) -> int:
        """Read the sources that are due; how many vectors were written."""
        done = 0
        writes: Future[None] | None = None
        with closing(self._batches(plan)) as batches, ThreadPoolExecutor(1, "store") as store:
            try:
                ahead = store.submit(next, batches, None)
                while (batch := ahead.result()) is not None:
                    ahead = store.submit(next, batches, None)
                    vectors = encode(self._encoder, batch.passages)
                    if writes is not None:
                        writes.result()
                    writes = store.submit(self._draft.add, batch.changes, vectors)
                    done += len(batch.passages)
                    if self._progress is not None:
                        self._progress(replace(batch.progress, vectors=done))
            finally:
                # What is encoded is not lost, also where a source or the encoder fails.
                store.submit(self._draft.commit).result()
            if writes is not None:
                writes.result()
        return done

    def run_on(self, workers: "RayWorkers", plan: ReadingPlan) -> int:
        """Do as `run` does, with workers that encode and write; records are applied and committed here."""
        waiting: deque[_Batch] = deque()
        done = 0

        def take() -> int:
            batch = waiting.popleft()
            self._draft.add(batch.changes, workers.next())
            if self._progress is not None:
                self._progress(replace(batch.progress, vectors=done + len(batch.passages)))
            return len(batch.passages)

        with closing(self._batches(plan)) as batches:
            try:
                for batch in batches:
                    workers.submit(batch.passages)
                    waiting.append(batch)
                    if len(waiting) > 2 * workers.count:
                        done += take()
                while waiting:
                    done += take()
            finally:
                self._draft.commit()
        return done

    def _batches(self, plan: ReadingPlan) -> Generator[_Batch]:
        """What the records of the sources change, some at a time."""
        counts = Counts.total(self._ledger[entry].counts for entry in plan.due())
        for reading in plan:
            source = reading.source
            with closing(gather_records(source.entries())) as records:
                position, finished = self._ledger[reading.entry].position, False
                while not finished:
                    items, finished = _take(records, position)
                    changes = self._ingest.batch(items, reading.entry, finished=finished)
                    counts += changes.counts
                    if items:
                        position = items[-1][1]
                    progress = Progress(
                        source.name, reading.number, reading.count, source.size, source.consumed, counts, 0
                    )
                    yield _Batch(changes, changes.new_passages(), progress)


def _take(records: Iterator[tuple[Item, int]], position: int) -> tuple[list[tuple[Item, int]], bool]:
    """The next records that end after a position in the source, and whether they are the last."""
    items: list[tuple[Item, int]] = []
    length = 0
    for item, taken in records:
        if taken > position:
            items.append((item, taken))
            length += text_length(item)
            if len(items) == BATCH_RECORDS or length >= BATCH_CHARACTERS:
                return items, False
    return items, True
