"""The vector index of a knowledge base: made from the vectors kept with the passages, and replaced as a whole."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.manifest import Manifest
from briefcontext.knowledge.passage_schema import INDEXED
from briefcontext.knowledge.passages import PassageStore
from briefcontext.knowledge.vectors import VectorStore, copy_collection

VECTORS_FOLDER = "chroma"

GENERATION = "vector_generation"
"""The mark that numbers the index in use; 0: there is none."""
HELD = "vectors_held"
"""The mark that counts the vectors in the index in use."""
REMOVED = "vectors_removed"
"""The mark that counts the vectors removed from the index since it was made from nothing."""

COLLECTION = "collection"
"""The mark that numbers the collection in use on a server: another one when the index is made from nothing."""

MOST_REMOVED = 0.25
"""HNSW keeps what is removed from it as stepping stones: an index with more of them than this is made anew."""


def open_vectors(folder: Path, manifest: Manifest, generation: int, collection: int) -> VectorStore:
    """The vectors of a finished knowledge base."""
    return VectorStore(
        _place(folder, manifest, generation), name=_name(manifest, collection), metric=manifest.encoder.metric
    )


def _place(folder: Path, manifest: Manifest, generation: int) -> Path | str:
    return manifest.store or folder / VECTORS_FOLDER / str(generation)


def _name(manifest: Manifest, collection: int) -> str:
    return f"{manifest.collection}-{collection}" if collection else manifest.collection


class VectorIndexBuild:
    """The next generation of a base's vector index.

    A process that is killed while Chroma writes its graph can leave an embedded index that gives wrong answers, or
    that crashes whoever opens it (chroma-core/chroma#7678 and #7238). So the index in use is never written to: a
    copy is, and takes its place when it is complete. What an unfinished build leaves is thrown away. On a server,
    whose own process does the writing, the collection is changed in place: it gets vectors before their passages are
    published and loses them after, so that readers find what they should among what they do not see.
    """

    def __init__(self, folder: Path, manifest: Manifest, passages: PassageStore) -> None:
        self._folder = folder
        self._manifest = manifest
        self._passages = passages
        self._generation, self._collection = passages.marks(GENERATION, COLLECTION)
        self._in_use = self._collection
        self._store: VectorStore | None = None
        self._changed = False
        self._stale: list[int] = []
        self._held = 0

    def intact(self) -> bool:
        """Whether the index in use can be opened and holds what it should."""
        if not self._passages.mark(INDEXED):
            return True
        try:
            with closing(open_vectors(self._folder, self._manifest, self._generation, self._in_use)) as store:
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

    def finish(self) -> None:
        """Complete the index.

        Raises KnowledgeBaseError when it does not hold what it should.
        """
        self._stale = self._passages.stale()
        wanted = self._passages.value("SELECT count(*) FROM passages")
        self._changed = self._store is not None or bool(self._stale) or self._passages.mark(HELD) != wanted
        if not self._changed:
            return
        store = self._opened()
        if self._manifest.store is None:
            store.remove(self._stale)
            store.settle()
            self._held = store.count()
            self.close()
        else:
            self._held = store.count() - store.held(self._stale)
        if self._held != wanted:
            raise KnowledgeBaseError(
                f"The vector index of {self._folder} holds {self._held:,} vectors where {wanted:,} are needed: run the "
                "index command again."
            )

    def publish(self) -> None:
        """Put the index to use, inside the caller's transaction."""
        if not self._changed:
            return
        if self._manifest.store is None:
            self._passages.rows("DELETE FROM stale_vectors")
        self._passages.set_mark(INDEXED, self._passages.last_number())
        self._passages.set_mark(GENERATION, self._generation + 1)
        self._passages.set_mark(COLLECTION, self._collection)
        self._passages.set_mark(HELD, self._held)
        self._passages.set_mark(REMOVED, self._passages.mark(REMOVED) + len(self._stale))

    def clean(self) -> None:
        """Remove what is not in use any more: on a server, also the vectors of passages that are gone."""
        if self._manifest.store is None:
            for old in (self._folder / VECTORS_FOLDER).glob("*"):
                if old.name != str(self._passages.mark(GENERATION)):
                    shutil.rmtree(old, ignore_errors=True)
        elif self._changed:
            store = self._opened()
            store.remove(self._stale)
            with self._passages.transaction():
                self._passages.rows("DELETE FROM stale_vectors")
            if self._collection != self._in_use:
                store.drop(_name(self._manifest, self._in_use))

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
            elif from_nothing and self._generation:
                # The one in use stays whole until this one is.
                self._collection = self._in_use + 1
            self._store = VectorStore(
                place,
                name=_name(self._manifest, self._collection if isinstance(place, str) else 0),
                metric=self._manifest.encoder.metric,
                create=True,
            )
            if from_nothing and self._store.count():
                self._store.clear()
        return self._store
