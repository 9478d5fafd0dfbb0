"""Vectors in a Chroma collection: embedded in a base's folder, or on a Chroma server."""

import shutil
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import BriefContextError, InputError, KnowledgeBaseError, MissingExtraError
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.passages import stored_vectors
from briefcontext.knowledge.store.place import Place
from briefcontext.knowledge.store.table import Table

if TYPE_CHECKING:
    from chromadb.api.client import Client

EMBEDDED = "chroma"
"""The store of a base whose vectors are searched by Chroma in its own folder."""

EF_SEARCH = 512
"""How many neighbours HNSW keeps in view while it searches. Chroma's own 100 found 93 of the 100 nearest of
13,449 vectors, 512 found all but 1 in 300."""

# Chroma shares one system per folder within a process, and counts its users without a lock.
_connecting = threading.RLock()


class ChromaVectors:
    """Vectors by passage number. Safe to share between threads.

    A number stands for one vector for ever: it is added and it may be removed, but it never gets another vector,
    because HNSW loses track of some vectors when others are overwritten (chroma-core/chroma#7758). There may be vectors
    of passages that are not published yet, or not any more: who searches leaves them out.
    """

    def __init__(self, manifest: Manifest, *, create: bool = False) -> None:
        """Open a base's collection, in its folder or on the server that it names; `create` it where it is missing.

        Raises:
            InputError: the URL is not one.
            MissingExtraError: Chroma is not installed.
            KnowledgeBaseError: there is no such collection, or the server does not answer.
        """
        at = _folder(manifest) if manifest.store == EMBEDDED else str(manifest.store)
        if isinstance(at, Path) and not create and not at.is_dir():
            raise _unusable(at, "the folder is missing")
        self._place = at
        self._client = _connect(at)
        self.close = weakref.finalize(self, _disconnect, self._client)
        """Let go of files and connections; as soon as nothing uses it any more, at the latest."""
        name = f"briefcontext-{manifest.id}"
        try:
            with _errors(at):
                if create:
                    self._collection = self._client.get_or_create_collection(
                        name,
                        embedding_function=None,
                        configuration={"hnsw": {"space": manifest.encoder.metric, "ef_search": EF_SEARCH}},
                    )
                else:
                    self._collection = self._client.get_collection(name, embedding_function=None)
                self._most = self._client.get_max_batch_size()
        except BaseException:
            self.close()
            raise

    def search(self, vector: NDArray[np.float32], k: int) -> list[int]:
        """The numbers of the `k` vectors nearest to one (d,), best first."""
        with _errors(self._place):
            # The last of many neighbours are found less surely: look for more than are needed.
            found: Any = self._collection.query(
                query_embeddings=vector[np.newaxis], n_results=k if 4 * k <= EF_SEARCH else 2 * k, include=[]
            )
        return [int(id) for id in found["ids"][0]][:k]

    def numbers(self) -> set[int]:
        held: set[int] = set()
        with _errors(self._place):
            while page := self._collection.get(limit=self._most, offset=len(held), include=[])["ids"]:
                held.update(map(int, page))
        return held

    def add(self, numbers: list[int], vectors: NDArray[np.float32]) -> None:
        """Add one vector a number, (n, d) float32; numbers that are held already keep what they have."""
        for part in self._parts(numbers):
            with _errors(self._place):
                self._collection.add([str(number) for number in numbers[part]], embeddings=vectors[part])

    def remove(self, numbers: list[int]) -> None:
        """Remove the vectors of these numbers; those that are not held do no harm."""
        for part in self._parts(numbers):
            with _errors(self._place):
                self._collection.delete([str(number) for number in numbers[part]])

    def _parts(self, numbers: list[int]) -> Iterator[slice]:
        return (slice(start, start + self._most) for start in range(0, len(numbers), self._most))


def bring_up_to_date(manifest: Manifest, table: Table) -> set[int]:
    """Give Chroma the vectors of a table of passages that it lacks; the numbers that it holds without a passage.

    Nothing, where vectors are searched in the table itself.
    """
    if manifest.store is None:
        return set()
    if manifest.store == EMBEDDED:
        # A process that is killed while Chroma writes can leave an index that gives wrong answers
        # (chroma-core/chroma#7678 and #7238): the one in use is not written to, a new one takes its place.
        manifest.generation += 1
        shutil.rmtree(_folder(manifest), ignore_errors=True)
    with closing(ChromaVectors(manifest, create=True)) as vectors:
        held = vectors.numbers()
        for page in table.pages(["number", "vector"]):
            numbers = page["number"].to_pylist()
            new = [row for row, number in enumerate(numbers) if number not in held]
            held.difference_update(numbers)
            if new:
                vectors.add([numbers[row] for row in new], stored_vectors(page["vector"])[new])
        return held


def clean(manifest: Manifest, stale: set[int]) -> None:
    """Remove the vectors of some numbers, and what an earlier state had."""
    if manifest.store == EMBEDDED:
        for folder in _folder(manifest).parent.iterdir():
            if folder != _folder(manifest):
                shutil.rmtree(folder, ignore_errors=True)
    elif stale:
        with closing(ChromaVectors(manifest)) as vectors:
            vectors.remove(list(stale))


def problems(manifest: Manifest, table: Table) -> list[str]:
    """Return what is wrong with the vectors of a table of passages that Chroma searches, one sentence each.

    Raises KnowledgeBaseError where they cannot be read at all.
    """
    if manifest.store is None:
        return []
    with closing(ChromaVectors(manifest)) as vectors:
        held = vectors.numbers()
    wanted = {number for page in table.pages(["number"]) for number in page["number"].to_pylist()}
    if wanted == held:
        return []
    return [
        f"{len(wanted - held):,} passages have no vector in {manifest.store}, and {len(held - wanted):,} vectors there "
        "have no passage: run the index command again."
    ]


def check_store(place: Place, store: str) -> None:
    """Raise InputError or KnowledgeBaseError where a base cannot have a store: no folder, no URL, no server there."""
    if store == EMBEDDED:
        _ = place.folder
    else:
        _disconnect(_connect(store))


def _folder(manifest: Manifest) -> Path:
    return manifest.place.folder / EMBEDDED / str(manifest.generation)


def _connect(place: Path | str) -> "Client":
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError as error:
        raise MissingExtraError("Chroma is not installed. Run: pip install 'briefcontext[chroma]'") from error
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
        raise InputError(
            f"The store {url!r} is neither 'chroma' nor the URL of a Chroma server: write it as http://host:port."
        )
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
    """Raise whatever Chroma raises as a KnowledgeBaseError.

    That is its own errors, those of its HTTP client, and panics of its Rust core, which are no Exceptions.
    """
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
