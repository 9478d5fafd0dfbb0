"""Encoding and writing on a Ray cluster: workers write parts of the table of passages, and the caller commits them.

The cluster is the one that the environment variable RAY_ADDRESS names, else a local one for the time of the build. Each
worker needs BriefContext, the encoder's weights and a way to where the base lies.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from briefcontext.errors import MissingExtraError
from briefcontext.knowledge.build.draft import Encoded
from briefcontext.knowledge.build.pipeline import Batch, EncodeAll, encode
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


@contextmanager
def ray_workers(encoder: "Encoder", uri: str) -> Iterator[EncodeAll]:
    """Start the workers of one build, for a table of passages, and give what has them encode and write batches.

    Ray repeats what a worker was doing that died; what that had written is cleaned up.

    Raises MissingExtraError where Ray is not installed.
    """
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        from ray.util import ActorPool

        ray: Any = import_module("ray")
    except ImportError:
        raise MissingExtraError("Building on a cluster needs Ray: pip install 'briefcontext[cluster]'.") from None
    if ours := not ray.is_initialized():
        local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **local)
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    count = gpus or max(1, int(resources.get("CPU", 1)))
    remote: Any = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=-1, max_task_retries=-1)(_Worker)
    pool: Any = ActorPool([remote.remote(encoder.name, uri) for _ in range(count)])

    def encode_all(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Encoded]]:
        waiting: deque[Batch] = deque()
        for batch in batches:
            pool.submit(lambda worker, passages: worker.write.remote(passages), batch[0].new_passages())
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
