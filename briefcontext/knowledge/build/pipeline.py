"""The build pipeline: the next batch is read while one is encoded and written, here or by Ray.

Ray's cluster is the one that the environment variable RAY_ADDRESS names, else a local one. Each
worker needs BriefContext, the encoder's weights and access to the place of the base.
"""

import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.knowledge.build.draft import Draft, Encoded
from briefcontext.knowledge.build.ingest import Ingest, Item, Record, gather_records, is_storable
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.sources.source import Source
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.passages import NewPassage, passage_rows

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

    from briefcontext.knowledge.encoders import Encoder

SMALLEST_BATCH, LARGEST_BATCH = 1_000_000, 32_000_000
"""Bounds of a batch in characters, to which a record adds 1,000."""
BATCH_SECONDS = 20.0
"""The time of a batch, which a build that is killed loses."""

Encode = Callable[[list[NewPassage]], Encoded]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a build."""

    source: str
    """Name of the source being read."""
    source_number: int
    """From 1, among those to be read."""
    source_count: int
    size: int | None
    """The bytes or records to read in the source; None if unknown."""
    consumed: int
    """The part of `size` that has been read."""
    counts: Counts = field(default_factory=Counts)
    """The records of all sources."""
    vectors: int = 0
    """Passages that were encoded, or came with their vectors."""


class Pipeline:
    """Reads sources, each with its number in the manifest, into a draft."""

    def __init__(
        self, draft: Draft, sources: Sequence[tuple[Source, int]], encoder: "Encoder"
    ) -> None:
        self._draft, self._sources, self._encoder = draft, sources, encoder
        self._size = SMALLEST_BATCH

    def run(
        self, progress: Callable[[Progress], None] | None, encode_all: Encode | None = None
    ) -> None:
        """Read the sources. `encode_all` encodes the passages of a batch elsewhere."""
        ingest, counts, vectors = Ingest(self._draft, self._encoder), Counts(), 0
        with closing(self._batches()) as batches, ThreadPoolExecutor(1, "read") as reader:
            ahead = reader.submit(next, batches, None)
            while (batch := ahead.result()) is not None:
                ahead = reader.submit(next, batches, None)
                (items, reached), began = batch, time.monotonic()
                changes = ingest.batch(items)
                passages = changes.new_passages()
                encoded = (encode_all or self._encode)(passages)
                self._draft.write(changes, encoded)
                self._fit_batches(passages, time.monotonic() - began)
                counts = Counts.total([counts, *changes.counts.values()])
                vectors += len(passages)
                if progress is not None:
                    progress(replace(reached, counts=counts, vectors=vectors))

    def _encode(self, passages: list[NewPassage]) -> NDArray[np.float32]:
        return encode(self._encoder, passages)

    def _fit_batches(self, passages: list[NewPassage], seconds: float) -> None:
        # Records that are unchanged do not show how fast others are.
        size = sum(1000 + len(passage.document.page_content) for passage in passages)
        fitting = int(size * BATCH_SECONDS / max(seconds, 1e-3))
        self._size = min(max(fitting, SMALLEST_BATCH), LARGEST_BATCH)

    def _batches(self) -> Generator[tuple[list[tuple[int, Item | None]], Progress]]:
        items: list[tuple[int, Item | None]] = []
        size, count = 0, len(self._sources)
        for place, (source, number) in enumerate(self._sources, start=1):
            with closing(gather_records(source.entries())) as records:
                for item in chain(records, [None]):
                    items.append((number, item))
                    size += _size(item)
                    if size >= self._size or (item is None and place == count):
                        yield (
                            items,
                            Progress(source.name, place, count, source.size, source.consumed),
                        )
                        items, size = [], 0


def _size(item: Item | None) -> int:
    parts = item.parts.values() if isinstance(item, Record) else ()
    return 1000 + sum(len(document.page_content) for document, _ in parts)


def encode(encoder: "Encoder", passages: list[NewPassage]) -> NDArray[np.float32]:
    """Return the vectors of passages, (n, d) float32; a passage keeps the one that it came with."""
    texts = [title_and_text(passage.document) for passage in passages if passage.vector is None]
    shape = (len(texts), encoder.dimension)
    made = encoder.encode_passages(texts) if texts else np.empty(shape, np.float32)
    if made.shape != shape or not is_storable(made):
        raise KnowledgeBaseError(
            f"The encoder {encoder.name!r} returned vectors of shape {made.shape}, or values that "
            f"are not finite, where {shape} is needed: check the model and its device."
        )
    new = iter(made)
    vectors = [next(new) if passage.vector is None else passage.vector for passage in passages]
    return np.array(vectors, np.float32).reshape(len(passages), encoder.dimension)


class _Worker:
    def __init__(self, encoder: str, uri: str) -> None:
        from briefcontext.knowledge.encoders import load_encoder

        self._encoder, self._uri = load_encoder(encoder), uri

    def write(self, passages: list[NewPassage]) -> "list[FragmentMetadata]":
        """Encode passages and write them next to the table, which the draft adds them to."""
        from lance.fragment import write_fragments

        return write_fragments(passage_rows(passages, encode(self._encoder, passages)), self._uri)


@contextmanager
def ray_workers(encoder: "Encoder", uri: str) -> Iterator[Encode]:
    """Start Ray's workers, and yield the function by which they encode and write a batch.

    Ray repeats the work of a worker that died. Raises MissingExtraError if Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with needing("cluster", "Building on a cluster needs Ray"):
        from ray.util import ActorPool

        ray: Any = import_module("ray")
    if is_ours := not ray.is_initialized():
        local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **local)
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    count = gpus or max(1, int(resources.get("CPU", 1)))
    options = {"num_cpus": 1, "num_gpus": 1 if gpus else 0, "max_restarts": -1}
    remote: Any = ray.remote(max_task_retries=-1, **options)(_Worker)
    pool: Any = ActorPool([remote.remote(encoder.name, uri) for _ in range(count)])

    def encode_all(passages: list[NewPassage]) -> "list[FragmentMetadata]":
        share = max(1, math.ceil(len(passages) / count))
        parts = [passages[start : start + share] for start in range(0, len(passages), share)]
        return list(
            chain.from_iterable(pool.map(lambda worker, part: worker.write.remote(part), parts))
        )

    try:
        yield encode_all
    finally:
        if is_ours:
            ray.shutdown()
