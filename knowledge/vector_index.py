"""The vector index of a knowledge base: made from the vectors kept with the passages, and replaced as a whole."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.manifest import Manifest
from briefcontext.knowledge.passages import INDEXED, PassageStore
from briefcontext.knowledge.vectors import VectorStore, copy_collection

VECTORS_FOLDER = "chroma"

GENERATION = "vector_generation"
"""The mark that numbers the index in use; 0: there is none."""
HELD = "vectors_held"
"""The mark that counts the vectors in the index in use."""
REMOVED = "vectors_removed"
"""The mark that counts the vectors removed from the index since it was made from nothing."""

MOST_REMOVED = 0.25
"""HNSW keeps what is removed from it as stepping stones: an index with more of them than this is made anew."""


def open_vectors(folder: Path, manifest: Manifest, generation: int) -> VectorStore:
    """The vectors of a finished knowledge base."""
    return VectorStore(_place(folder, manifest, generation), name=manifest.collection, metric=manifest.encoder.metric)


def _place(folder: Path, manifest: Manifest, generation: int) -> Path | str:
    return manifest.store or folder / VECTORS_FOLDER / str(generation)


class VectorIndexBuild:
    """The next generation of a base's vector index.

    A process that is killed while Chroma writes its graph can leave an embedded index that gives wrong answers, or
    that crashes whoever opens it (chroma-core/chroma#7678 and #7238). So the index in use is never written to: a
    copy is, and takes its place when it is complete. What an unfinished build leaves is thrown away. On a server,
    whose own process does the writing, the collection is changed in place.
    """

    def __init__(self, folder: Path, manifest: Manifest, passages: PassageStore) -> None:
        self._folder = folder
        self._manifest = manifest
        self._passages = passages
        self._generation = passages.mark(GENERATION)
        self._store: VectorStore | None = None

    def intact(self) -> bool:
        """Whether the index in use can be opened and holds what it should."""
        if not self._passages.mark(INDEXED):
            return True
        try:
            with closing(open_vectors(self._folder, self._manifest, self._generation)) as store:
                count, held = store.count(), self._passages.mark(HELD)
        except KnowledgeBaseError:
            return False
        if self._manifest.store is None:
            return count == held
        # A build that was stopped may have added some there, and removed some.
        return held - len(self._passages.stale()) <= count <= held + self._passages.last_number()

    def prepare(self) -> None:
        """Choose whether to go on from the index in use, or to make it anew from the vectors that are kept."""
        removed = self._passages.mark(REMOVED) + len(self._passages.stale())
        if self.intact() and removed <= MOST_REMOVED * self._passages.mark(HELD):
            return
        with self._passages.transaction():
            self._passages.set_mark(INDEXED, 0)
            self._passages.set_mark(REMOVED, 0)
            self._passages.rows("DELETE FROM stale_vectors")

    def add(self, numbers: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add the vectors (n, d) float32 of passages."""
        self._opened().add(numbers, vectors)

    def commit(self) -> None:
        """Put the index to use, less the vectors of passages that are gone.

        Raises KnowledgeBaseError when it does not hold what it should.
        """
        stale = self._passages.stale()
        wanted = self._passages.value("SELECT count(*) FROM passages")
        if self._store is None and not stale and self._passages.mark(HELD) == wanted:
            return
        store = self._opened()
        store.remove(stale)
        store.settle()
        count = store.count()
        self.close()
        if count != wanted:
            raise KnowledgeBaseError(
                f"The vector index of {self._folder} holds {count:,} vectors where {wanted:,} are needed: run the "
                "index command again."
            )
        with self._passages.transaction():
            self._passages.rows("DELETE FROM stale_vectors")
            self._passages.set_mark(INDEXED, self._passages.last_number())
            self._passages.set_mark(GENERATION, self._generation + 1)
            self._passages.set_mark(HELD, count)
            self._passages.set_mark(REMOVED, self._passages.mark(REMOVED) + len(stale))
        for old in (self._folder / VECTORS_FOLDER).glob("*"):
            if old.name != str(self._generation + 1):
                shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> VectorStore:
        if self._store is None:
            place = _place(self._folder, self._manifest, self._generation + 1)
            from_nothing = not self._passages.mark(INDEXED)
            if isinstance(place, Path):
                shutil.rmtree(place, ignore_errors=True)
                place.parent.mkdir(exist_ok=True)
                if not from_nothing:
                    copy_collection(place.with_name(str(self._generation)), place)
            self._store = VectorStore(
                place, name=self._manifest.collection, metric=self._manifest.encoder.metric, create=True
            )
            if from_nothing and self._store.count():
                self._store.clear()
        return self._store
