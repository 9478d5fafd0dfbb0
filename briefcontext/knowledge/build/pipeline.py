"""The build pipeline: reading, encoding and writing overlap; encoding and writing also on a Ray cluster.

The cluster is the one that the environment variable RAY_ADDRESS names, else a local one for the
time of the build. Each worker needs BriefContext, the encoder's weights and a way to where the base
lies.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.knowledge.build.draft import Changes, Draft, Encoded
from briefcontext.knowledge.build.ingest import Ingest, Item, Record, gather_records, is_storable
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.sources.source import Source
from briefcontext.knowledge.store.manifest import Counts
from briefcontext.knowledge.store.passages import NewPassage, passage_rows

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

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
    """Sources to be read."""
    size: int | None
    """The bytes or records to read in the source; None if unknown."""
    consumed: int
    """How much of it has been read."""
    counts: Counts
    """Of the records of all sources."""
    vectors: int
    """Passages that were encoded, or came with their vectors."""


Batch = tuple[Changes, Progress]
EncodeAll = Callable[[Iterator[Batch]], Iterator[tuple[Batch, Encoded]]]
"""Gives each batch with its passages encoded, in order; it may take more batches meanwhile."""


class Pipeline:
    """Reads sources into a draft. One thread reads ahead and writes, while passages are encoded."""

    def __init__(
        self, draft: Draft, sources: Sequence[tuple[Source, int]], encoder: "Encoder"
    ) -> None:
        """Take the sources to read, each with its number."""
        self._draft = draft
        self._sources = sources
        self._encoder = encoder
        self._ingest = Ingest(draft, encoder)
        self._size = SMALLEST_BATCH

    def run(
        self, progress: Callable[[Progress], None] | None, encode_all: EncodeAll | None = None
    ) -> None:
        """Read the sources. Without `encode_all`, passages are encoded in this thread."""
        done = 0
        with closing(self._batches()) as batches, ThreadPoolExecutor(1, "store") as store:
            writes: Future[None] = store.submit(lambda: None)
            for (changes, reached), encoded in (encode_all or self._encode_all)(
                _read_ahead(batches, store)
            ):
                writes.result()
                writes = store.submit(self._draft.write, changes, encoded)
                done += len(changes.new_passages())
                if progress is not None:
                    progress(replace(reached, vectors=done))
            writes.result()

    def _encode_all(self, batches: Iterator[Batch]) -> Iterator[tuple[Batch, Encoded]]:
        for batch in batches:
            began, passages = time.monotonic(), batch[0].new_passages()
            yield batch, encode(self._encoder, passages)
            # Of what was new: a short source, or one that is held already, does not tell how fast
            # others are.
            size = sum(len(passage.document.page_content) for passage in passages)
            size += 1000 * len(batch[0].passages)
            fitting = size * BATCH_SECONDS / max(time.monotonic() - began, 1e-3)
            self._size = min(max(int(fitting), SMALLEST_BATCH), LARGEST_BATCH)

    def _batches(self) -> Generator[Batch]:
        counts, place = Counts(), 0
        items: list[tuple[int, Item | None]] = []
        size = 0
        for place, (source, number) in enumerate(self._sources, start=1):
            with closing(gather_records(source.entries())) as records:
                for item in chain(records, [None]):
                    items.append((number, item))
                    size += _size(item)
                    if size >= self._size or (item is None and place == len(self._sources)):
                        changes = self._ingest.batch(items)
                        counts = Counts.total([counts, *changes.counts.values()])
                        of_source = (
                            source.name,
                            place,
                            len(self._sources),
                            source.size,
                            source.consumed,
                        )
                        yield changes, Progress(*of_source, counts, vectors=0)
                        items, size = [], 0


def _read_ahead(batches: Iterator[Batch], thread: ThreadPoolExecutor) -> Iterator[Batch]:
    ahead = thread.submit(next, batches, None)
    while (batch := ahead.result()) is not None:
        ahead = thread.submit(next, batches, None)
        yield batch


def _size(item: Item | None) -> int:
    parts = item.parts.values() if isinstance(item, Record) else ()
    return 1000 + sum(len(document.page_content) for document, _ in parts)


def encode(encoder: "Encoder", passages: list[NewPassage]) -> NDArray[np.float32]:
    """One vector a passage, (n, d) float32: its own where it has one.

    Raises KnowledgeBaseError when the encoder gives anything else.
    """
    texts = [passage for passage in passages if passage.vector is None]
    made = np.empty((0, encoder.dimension), np.float32)
    if texts:
        made = encoder.encode_passages([title_and_text(passage.document) for passage in texts])
    if made.shape != (len(texts), encoder.dimension) or not is_storable(made):
        raise KnowledgeBaseError(
            f"The encoder {encoder.name!r} gave vectors of shape {made.shape}, or values that are "
            f"not finite, where "
            f"{(len(texts), encoder.dimension)} is needed: check the model and its device."
        )
    following = iter(made)
    vectors = [
        next(following) if passage.vector is None else passage.vector for passage in passages
    ]
    return np.array(vectors, np.float32).reshape(len(passages), encoder.dimension)


class _Worker:
    def __init__(self, encoder: str, uri: str) -> None:
        from briefcontext.knowledge.encoders import load_encoder

        self._encoder = load_encoder(encoder)
        self._uri = uri

    def write(self, passages: list[NewPassage]) -> "list[FragmentMetadata]":
        """Encode passages and write them beside the table, where they wait to be committed."""
        from lance.fragment import write_fragments

        if not passages:
            return []
        return write_fragments(passage_rows(passages, encode(self._encoder, passages)), self._uri)


@contextmanager
def ray_workers(encoder: "Encoder", uri: str) -> Iterator[EncodeAll]:
    """Start the workers of one build, for a table of passages, and give what has them encode and write batches.

    Ray repeats what a worker was doing that died; what that had written is cleaned up. Raises
    MissingExtraError where Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with needing("cluster", "Building on a cluster needs Ray"):
        from ray.util import ActorPool

        ray: Any = import_module("ray")
    if ours := not ray.is_initialized():
        local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **local)
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    count = gpus or max(1, int(resources.get("CPU", 1)))
    remote: Any = ray.remote(
        num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=-1, max_task_retries=-1
    )(_Worker)
    pool: Any = ActorPool([remote.remote(encoder.name, uri) for _ in range(count)])

    def encode_all(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Encoded]]:
        waiting: deque[Batch] = deque()
        for batch in batches:
            pool.submit(
                lambda worker, passages: worker.write.remote(passages), batch[0].new_passages()
            )
            waiting.append(batch)
            if len(waiting) > 2 * count:
                yield waiting.popleft(), pool.get_next()
        while waiting:
            yield waiting.popleft(), pool.get_next()

    try:
        yield encode_all
    finally:
        if ours:
            ray.shutdown()
