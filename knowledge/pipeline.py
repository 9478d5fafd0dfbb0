"""From sources to vectors: reading, encoding and writing at the same time."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.ingest import Cut, Ingest, Item, gather_records, text_length
from briefcontext.knowledge.manifest import Counts
from briefcontext.knowledge.passage_schema import INDEXED
from briefcontext.knowledge.passages import EncodablePassage, PassageStore
from briefcontext.knowledge.reading_plan import ReadingPlan
from briefcontext.knowledge.source_ledger import SourceLedger
from briefcontext.knowledge.term_index import BM25_STALE
from briefcontext.knowledge.vector_index import VectorIndexBuild

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

BATCH_RECORDS = 1024
"""Records in one transaction: enough to sort passages by length and waste little on padding, few enough to report
often."""
BATCH_CHARACTERS = 4_000_000
"""And at most so much text, or one record."""
BATCH_PASSAGES = 2048
"""Passages that are encoded at a time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is."""

    source: str
    """Name of the source being read; "" while finishing what an earlier build left."""
    source_number: int
    """From 1, among those to be read; 0 while finishing what an earlier build left."""
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
    passages: list[EncodablePassage]
    progress: Progress


class Pipeline:
    """Takes sources into a passage store, and the vectors of its passages into the vector index.

    One thread reads ahead and commits the next records as passages, the caller's encodes, one writes the vectors of
    the batch before. Passages are committed together with the position in their source, and vectors are kept beside
    them before the index gets them: wherever it is cut off, nothing is lost but the last batch's vectors.
    """

    def __init__(
        self,
        passages: PassageStore,
        vectors: VectorIndexBuild,
        encoder: "Encoder",
        cut: Cut | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._passages = passages
        self._ledger = SourceLedger(passages)
        self._vectors = vectors
        self._encoder = encoder
        self._ingest = Ingest(passages, self._ledger, cut=cut, dimension=encoder.dimension)
        self._progress = progress
        self._handed_out = passages.mark(INDEXED)

    def run(self, plan: ReadingPlan) -> int:
        """Read the sources that are due, after finishing what an earlier run left; how many vectors were written."""
        done = 0
        writes: Future[None] | None = None
        with (
            closing(self._batches(plan)) as batches,
            ThreadPoolExecutor(1, "read") as reading,
            ThreadPoolExecutor(1, "write") as writing,
        ):
            ahead = reading.submit(next, batches, None)
            while (batch := ahead.result()) is not None:
                ahead = reading.submit(next, batches, None)
                vectors = self._encode(batch.passages)
                if writes is not None:
                    writes.result()
                writes = writing.submit(self._write, batch.passages, vectors)
                done += len(batch.passages)
                if self._progress is not None:
                    self._progress(replace(batch.progress, vectors=done))
            if writes is not None:
                writes.result()
        return done

    def _batches(self, plan: ReadingPlan) -> Generator[_Batch]:
        """Commit the records of the sources, some at a time, and hand out the passages to be indexed."""
        due = plan.due()
        counts = Counts.total(row.counts for row in due)
        yield from self._unindexed(Progress("", 0, len(due), None, 0, counts, 0))
        for reading in plan:
            source, row = reading.source, reading.row
            with closing(gather_records(source.entries())) as records:
                position, finished = row.position, False
                while not finished:
                    items, finished = _take(records, position)
                    counts += self._commit(items, row.number, finished=finished)
                    if items:
                        position = items[-1][1]
                    progress = Progress(
                        source.name, reading.number, reading.count, source.size, source.consumed, counts, 0
                    )
                    empty = True
                    for batch in self._unindexed(progress):
                        empty = False
                        yield batch
                    if empty:
                        yield _Batch([], progress)

    def _commit(self, items: list[tuple[Item, int]], source: int, *, finished: bool) -> Counts:
        """Apply records of a source; what became of them."""
        with self._passages.transaction():
            outcomes = Counter[str](self._ingest.apply(item, source, taken) for item, taken in items)
            counts = Counts(read=len(items), **outcomes)
            self._ledger.advance(source, items[-1][1] if items else None, counts, finished=finished)
            if counts.indexed or counts.updated or counts.deleted:
                self._passages.set_mark(BM25_STALE, 1)
        return counts

    def _unindexed(self, progress: Progress) -> Iterator[_Batch]:
        """All passages that the index lacks and that were not handed out before."""
        while passages := self._passages.following(self._handed_out, BATCH_PASSAGES):
            self._handed_out = passages[-1].number
            yield _Batch(passages, progress)

    def _encode(self, passages: list[EncodablePassage]) -> NDArray[np.float32]:
        """One vector a passage, (n, d) float32: its own where it has one."""
        vectors = np.empty((len(passages), self._encoder.dimension), np.float32)
        texts: list[int] = []
        for row, passage in enumerate(passages):
            if passage.vector is None:
                texts.append(row)
            else:
                vectors[row] = passage.vector
        if texts:
            encoded = self._encoder.encode_passages(
                [title_and_text(passages[row].title, passages[row].text) for row in texts]
            )
            if encoded.shape != (len(texts), self._encoder.dimension) or not np.isfinite(encoded).all():
                raise KnowledgeBaseError(
                    f"The encoder {self._encoder.name!r} gave vectors of shape {encoded.shape}, or values that are not "
                    f"finite, where {(len(texts), self._encoder.dimension)} is needed: check the model and its device."
                )
            vectors[texts] = encoded
        return vectors

    def _write(self, passages: list[EncodablePassage], vectors: NDArray[np.float32]) -> None:
        new = [row for row, passage in enumerate(passages) if passage.vector is None]
        self._passages.store_vectors([passages[row].number for row in new], vectors[new])
        self._vectors.add([passage.number for passage in passages], vectors)


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
