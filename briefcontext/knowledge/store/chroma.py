"""Vectors in a Chroma collection: embedded in a base's folder, or on a Chroma server."""

import re
import shutil
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import BriefContextError, InputError, KnowledgeBaseError, needing
from briefcontext.knowledge.store.manifest import Manifest, Place
from briefcontext.knowledge.store.passages import stored_vectors
from briefcontext.knowledge.store.table import Table

with needing("chroma", "Chroma is not installed"):
    import chromadb
    from chromadb.api.client import Client
    from chromadb.config import Settings

EMBEDDED = "chroma"
"""The store of a base whose vectors are searched by Chroma in its own folder."""

EF_SEARCH = 512
"""How many neighbours HNSW keeps in view while it searches. Chroma's own 100 found 93 of the 100 nearest of
13,449 vectors, 512 found all but 1 in 300."""

_SERVER = re.compile(r"(https?)://([^\s/:@?#[\]]+|\[[\da-f:]+\])(?::(\d{1,5}))?/?", re.IGNORECASE)

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

        Raises KnowledgeBaseError when there is no such collection, or the server does not answer.
        """
        self.where = _folder(manifest) if manifest.store == EMBEDDED else str(manifest.store)
        name = f"briefcontext-{manifest.id}"
        with _errors(self.where):
            if not create and isinstance(self.where, Path) and not self.where.is_dir():
                raise FileNotFoundError("the folder is missing")
            client = _connect(self.where)
            self.close = weakref.finalize(self, _disconnect, client)
            """Let go of files and connections; as soon as nothing uses it any more, at the latest."""
            try:
                if create:
                    hnsw: Any = {"hnsw": {"space": manifest.encoder.metric, "ef_search": EF_SEARCH}}
                    self.collection = client.get_or_create_collection(name, embedding_function=None, configuration=hnsw)
                else:
                    self.collection = client.get_collection(name, embedding_function=None)
                self.batch_size = client.get_max_batch_size()
            except BaseException:
                self.close()
                raise

    def search(self, vector: NDArray[np.float32], k: int) -> list[int]:
        """The numbers of the `k` vectors nearest to one (d,), best first."""
        with _errors(self.where):
            # The last of many neighbours are found less surely: look for more than are needed.
            found = self.collection.query(query_embeddings=vector[np.newaxis], n_results=2 * k, include=[])
        return [int(id) for id in found["ids"][0]][:k]

    def numbers(self) -> set[int]:
        held: set[int] = set()
        with _errors(self.where):
            while page := self.collection.get(limit=self.batch_size, offset=len(held), include=[])["ids"]:
                held.update(map(int, page))
        return held


@contextmanager
def updating(manifest: Manifest, table: Table) -> Iterator[None]:
    """Give Chroma the vectors of a table of passages that it lacks; at the end remove those that have no passage.

    In between the state is published: until then the vectors of the one before are needed.
    """
    if manifest.store == EMBEDDED:
        # A process that is killed while Chroma writes can leave an index that gives wrong answers
        # (chroma-core/chroma#7678 and #7238): the one in use is not written to, a new one takes its place.
        manifest.generation += 1
        shutil.rmtree(_folder(manifest), ignore_errors=True)
    with closing(ChromaVectors(manifest, create=True)) as vectors:
        held, most = vectors.numbers(), vectors.batch_size
        with _errors(vectors.where):
            for page in table.pages(["number", "vector"], batch_size=most):
                numbers = page["number"].to_pylist()
                if new := [row for row, number in enumerate(numbers) if number not in held]:
                    ids = [str(numbers[row]) for row in new]
                    vectors.collection.add(ids, embeddings=stored_vectors(page["vector"])[new])
                held.difference_update(numbers)
        yield
        stale = list(map(str, held))
        with _errors(vectors.where):
            for start in range(0, len(stale), most):
                vectors.collection.delete(stale[start : start + most])
    if manifest.store == EMBEDDED:
        for folder in _folder(manifest).parent.iterdir():
            if folder != _folder(manifest):
                shutil.rmtree(folder, ignore_errors=True)


def problems(manifest: Manifest, table: Table) -> list[str]:
    """Return what is wrong with the vectors of a table of passages that Chroma searches, one sentence each.

    Raises KnowledgeBaseError where they cannot be read at all.
    """
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


def _connect(where: Path | str) -> Client:
    settings = Settings(anonymized_telemetry=False)
    with _connecting, _errors(where):
        if isinstance(where, Path):
            return cast(Client, chromadb.PersistentClient(str(where), settings=settings))
        if (url := _SERVER.fullmatch(where)) is None or int(url[3] or 0) > 65_535:
            raise InputError(
                f"The store {where!r} is neither 'chroma' nor the URL of a Chroma server: write it as http://host:port."
            )
        ssl = url[1].lower() == "https"
        port = int(url[3] or (443 if ssl else 8000))
        return cast(Client, chromadb.HttpClient(url[2], port, ssl=ssl, settings=settings))


def _disconnect(client: Client) -> None:
    # Chroma's HTTP client leaves its connections open, and those of the second one that it has for administration.
    servers: list[Any] = [client._server, cast(Any, client._admin_client)._server]
    with _connecting:
        client.close()
    for session in [server._session for server in servers if hasattr(server, "_session")]:
        session.close()


@contextmanager
def _errors(where: Path | str) -> Iterator[None]:
    """Raise whatever Chroma raises as a KnowledgeBaseError.

    That is its own errors, those of its HTTP client, and panics of its Rust core, which are no Exceptions.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, BriefContextError):
        raise
    except BaseException as error:
        raise KnowledgeBaseError(
            f"The vectors at {where} cannot be used ({str(error) or type(error).__name__}): check that the server runs "
            "where it is one, or run the index command again to make them anew."
        ) from error
