"""The vectors of a knowledge base in a Chroma collection: embedded in a folder, or on a Chroma server."""

import shutil
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import BriefContextError, InputError, KnowledgeBaseError

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

EF_SEARCH = 512
"""How many neighbours HNSW keeps in view while it searches. Chroma's own 100 found 93 of the 100 nearest of
13,449 vectors, 512 found all but 1 in 300."""

SYNC_THRESHOLD = 5000
"""How many vectors Chroma takes in before it writes its graph to disk."""

_DATABASE = "chroma.sqlite3"

# Chroma shares one system per folder within a process, and counts its users without a lock.
_connecting = threading.Lock()


class VectorStore:
    """Vectors by passage number. Safe to share between threads.

    A number stands for one vector for ever: it is added and it may be removed, but it never gets another vector,
    because HNSW loses track of some vectors when others are overwritten (chroma-core/chroma#7758).
    """

    def __init__(self, place: Path | str, *, name: str, metric: Literal["cosine", "ip"], create: bool = False) -> None:
        """Open the collection `name` in a folder, or on the server at a URL; `create` it where it is missing.

        Raises:
            InputError: the URL is not one.
            KnowledgeBaseError: there is no such collection, or the server does not answer.
        """
        self.place = place
        self._name = name
        self._metric = metric
        if isinstance(place, Path) and not create and not place.is_dir():
            raise _unusable(place, "the folder is missing")
        self._open(create)

    def _open(self, create: bool) -> None:
        self._client = _connect(self.place)
        try:
            with _errors(self.place):
                self._collection = self._open_collection(create)
                self._most = self._client.get_max_batch_size()
        except BaseException:
            self.close()
            raise

    def _open_collection(self, create: bool) -> "Collection":
        if not create:
            return self._client.get_collection(self._name, embedding_function=None)
        return self._client.get_or_create_collection(
            self._name,
            embedding_function=None,
            configuration={"hnsw": {"space": self._metric, "ef_search": EF_SEARCH, "sync_threshold": SYNC_THRESHOLD}},
        )

    def close(self) -> None:
        _disconnect(self._client)

    def add(self, numbers: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add one vector a number, (n, d) float32; numbers that are held already keep what they have."""
        for start in range(0, len(numbers), self._most):
            part = slice(start, start + self._most)
            with _errors(self.place):
                self._collection.add([str(number) for number in numbers[part]], embeddings=vectors[part])

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove the vectors of these numbers; those that are not held do no harm."""
        for start in range(0, len(numbers), self._most):
            with _errors(self.place):
                self._collection.delete([str(number) for number in numbers[start : start + self._most]])

    def clear(self) -> None:
        """Remove all vectors."""
        with _errors(self.place):
            self._client.delete_collection(self._name)
            self._collection = self._open_collection(create=True)

    def settle(self) -> None:
        """Put an embedded collection's graph on disk, so that opening it has nothing left to do.

        Chroma does so by itself whenever `SYNC_THRESHOLD` vectors have come in, and replays the rest at each
        opening.
        """
        if isinstance(self.place, Path) and self.count():
            # A threshold counts from the next opening on; that one has the rest to replay, and to write.
            self._set_sync_threshold(2)
            self.close()
            self._open(create=False)
            self.count()
            self._set_sync_threshold(SYNC_THRESHOLD)

    def _set_sync_threshold(self, threshold: int) -> None:
        with warnings.catch_warnings(), _errors(self.place):
            # What Chroma says of its own configuration of a collection without an embedding function.
            warnings.filterwarnings("ignore", "legacy embedding function config", DeprecationWarning)
            self._collection.modify(configuration={"hnsw": {"sync_threshold": threshold}})

    def search(self, vector: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """The numbers of the `k` vectors nearest to a vector (d,), with their scores, best first.

        The score is the cosine similarity or the inner product: higher is better.
        """
        with _errors(self.place):
            # The last of many neighbours are found less surely: look for more than are needed.
            found: Any = self._collection.query(
                query_embeddings=vector[np.newaxis],
                n_results=k if 4 * k <= EF_SEARCH else 2 * k,
                include=["distances"],
            )
        # Chroma's distance is one minus the similarity, for both metrics.
        hits = zip(found["ids"][0], found["distances"][0], strict=True)
        return sorted(((int(id), 1.0 - distance) for id, distance in hits), key=lambda hit: (-hit[1], hit[0]))[:k]

    def count(self) -> int:
        """How many vectors it holds."""
        with _errors(self.place):
            return self._collection.count()

    def held(self, numbers: Sequence[int]) -> int:
        """How many of these numbers it holds a vector of."""
        found = 0
        for start in range(0, len(numbers), self._most):
            with _errors(self.place):
                ids = [str(number) for number in numbers[start : start + self._most]]
                found += len(self._collection.get(ids=ids, include=[])["ids"])
        return found

    def drop(self, name: str) -> None:
        """Remove another collection; where there is none of that name, it does no harm."""
        with _errors(self.place):
            if any(collection.name == name for collection in self._client.list_collections()):
                self._client.delete_collection(name)

    def get(self, numbers: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """The vectors (d,) of these numbers, as far as they are held."""
        with _errors(self.place):
            found: Any = self._collection.get(ids=[str(number) for number in numbers], include=["embeddings"])
        held = zip(found["ids"], found["embeddings"], strict=True)
        return {int(id): np.asarray(vector, np.float32) for id, vector in held}


def copy_collection(folder: Path, target: Path) -> None:
    """Copy an embedded collection that is settled to a folder that does not exist; others may be reading it."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(f"{_DATABASE}*"))
    # Chroma writes to its database also when it reads.
    with (
        closing(sqlite3.connect(folder / _DATABASE)) as database,
        closing(sqlite3.connect(target / _DATABASE)) as copy,
    ):
        database.backup(copy)


def check_server(url: str) -> None:
    """Raise InputError where a URL is not one, and KnowledgeBaseError where no Chroma server answers there."""
    _disconnect(_connect(url))


def _connect(place: Path | str) -> "Client":
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    with _connecting, _errors(place):
        if isinstance(place, Path):
            return cast("Client", chromadb.PersistentClient(str(place), settings=settings))
        host, port, ssl = _address(place)
        return cast("Client", chromadb.HttpClient(host, port, ssl=ssl, settings=settings))


def _address(url: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError(f"The store {url!r} is not the URL of a Chroma server: write it as http://host:port.")
    ssl = parts.scheme == "https"
    return host, port or (443 if ssl else 8000), ssl


def _disconnect(client: "Client") -> None:
    # Chroma's HTTP client leaves its connections open, and those of the second one that it has for administration.
    servers: list[Any] = [client._server, cast(Any, client._admin_client)._server]
    with _connecting:
        client.close()
    for session in [server._session for server in servers if hasattr(server, "_session")]:
        session.close()


@contextmanager
def _errors(place: Path | str) -> Iterator[None]:
    """Whatever Chroma raises as a KnowledgeBaseError: its own errors, those of its HTTP client, and panics of its
    Rust core, which are no Exceptions."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, BriefContextError):
        raise
    except BaseException as error:
        raise _unusable(place, str(error) or type(error).__name__) from error


def _unusable(place: Path | str, what: str) -> KnowledgeBaseError:
    remedy = (
        "run the index command again to make them anew"
        if isinstance(place, Path)
        else "check that the server runs, and run the index command again if it has lost them"
    )
    return KnowledgeBaseError(f"The vectors at {place} cannot be used ({what}): {remedy}.")
