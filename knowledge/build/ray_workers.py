"""Encoding and writing on a Ray cluster: workers write parts of the table of passages, and the caller commits them.

The cluster is the one that the environment variable RAY_ADDRESS names, else a local one for the time of the build. Each
worker needs BriefContext, the encoder's weights and a way to where the base lies.
"""

import os
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from briefcontext.errors import MissingExtraError
from briefcontext.knowledge.build.pipeline import Batch, encode
from briefcontext.knowledge.store.passages import NewPassage, passage_rows

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

    from briefcontext.knowledge.encoders import Encoder


class _Worker:
    """One process of the cluster, with an encoder of its own."""

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


class RayWorkers:
    """The workers of one build. Ray repeats what a worker was doing that died; what that had written is cleaned up."""

    def __init__(self, encoder: "Encoder", uri: str) -> None:
        """For a table of passages. Raises MissingExtraError where Ray is not installed."""
        try:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            from ray.util import ActorPool

            ray: Any = import_module("ray")
        except ImportError:
            raise MissingExtraError("Building on a cluster needs Ray: pip install 'briefcontext[cluster]'.") from None
        self._ray = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
            ray.init(log_to_driver=False, logging_level="ERROR", **local)
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        self._count = gpus or max(1, int(resources.get("CPU", 1)))
        remote: Any = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=-1, max_task_retries=-1)(_Worker)
        self._pool: Any = ActorPool([remote.remote(encoder.name, uri) for _ in range(self._count)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._ray.shutdown()

    def encode_all(self, batches: Iterator[Batch]) -> "Iterator[tuple[Batch, list[FragmentMetadata]]]":
        """Have the passages of batches encoded and written; each batch with what was written of it, in order."""
        waiting: deque[Batch] = deque()
        for batch in batches:
            self._pool.submit(lambda worker, passages: worker.write.remote(passages), batch.passages)
            waiting.append(batch)
            if len(waiting) > 2 * self._count:
                yield waiting.popleft(), self._pool.get_next()
        while waiting:
            yield waiting.popleft(), self._pool.get_next()
