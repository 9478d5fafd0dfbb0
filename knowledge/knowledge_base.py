"""A knowledge base that is ready for questions."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.build_lock import is_being_built
from briefcontext.knowledge.manifest import Counts, Manifest
from briefcontext.knowledge.passages import PassageStore
from briefcontext.knowledge.term_index import TERMS_GENERATION, open_terms
from briefcontext.knowledge.vector_index import COLLECTION, GENERATION, HELD, open_vectors
from briefcontext.knowledge.vectors import VectorStore

if TYPE_CHECKING:
    from briefcontext.knowledge.bm25_index import BM25Index, TermStatistics
    from briefcontext.knowledge.encoders import Encoder

_T = TypeVar("_T")


class KnowledgeBase:
    """Passages with their vectors and terms, in a folder. Safe to share between threads.

    Opening reads little: the encoder, the vectors and the BM25 index are loaded when first needed. A base that is
    updated while it is open answers from its old state until the new one is complete, and from the new one then. So
    does one that is opened meanwhile, or after the update was stopped half-way. Close it when done, or use it in a
    `with` statement.

    Passages of retracted records are found like others, with `retracted` true in their metadata: what to do with them
    is for the caller to say. `manifest.retracted` counts them.
    """

    def __init__(self, path: Path, manifest: Manifest, encoder: "Encoder | None") -> None:
        """For `open`."""
        self.path = path
        self.manifest = manifest
        """As it was on opening; `info` has it as it is."""
        self.passages = PassageStore(path)
        self._encoder = encoder
        self._loading = threading.RLock()
        self._in_use: tuple[int, ...] = ()
        self._vectors: VectorStore | None = None
        self._bm25: BM25Index | None = None
        self._outdated: list[VectorStore] = []

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, encoder: "Encoder | None" = None) -> Self:
        """Open the knowledge base in a folder, with its own encoder, or with one loaded already.

        Raises:
            KnowledgeBaseError: there is none, its first build is not complete, it is damaged, or of a newer format; or
                the encoder given is not the one it was built with.
        """
        folder = Path(path)
        manifest = Manifest.read(folder)
        if manifest.state != "complete" and not _was_complete(folder):
            what = (
                "is being built at this moment: wait until that has ended"
                if is_being_built(folder)
                else "is half-built: run the same index command again to finish it"
            )
            raise KnowledgeBaseError(f"The knowledge base {folder} {what}.")
        if encoder is not None:
            manifest.check_encoder(encoder, folder)
        return cls(folder, manifest, encoder)

    def close(self) -> None:
        """Close its files."""
        with self._loading:
            self.passages.close()
            for vectors in self._outdated + ([self._vectors] if self._vectors else []):
                vectors.close()
            self._outdated, self._vectors, self._bm25 = [], None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """How many passages it holds."""
        return self.passages.mark(HELD)

    def __bool__(self) -> bool:
        """True, also when it is empty."""
        return True

    def __repr__(self) -> str:
        return f"KnowledgeBase({str(self.path)!r}, {len(self):,} passages, encoder {self.manifest.encoder.name!r})"

    @property
    def encoder(self) -> "Encoder":
        """The encoder that its vectors were made with; loaded when first needed.

        Raises MissingExtraError or KnowledgeBaseError when it cannot be loaded, or is another one by now.
        """
        with self._loading:
            if self._encoder is None:
                from briefcontext.knowledge.encoders import load_encoder

                encoder = load_encoder(self.manifest.encoder.name)
                self.manifest.check_encoder(encoder, self.path)
                self._encoder = encoder
            return self._encoder

    def search(self, query: str, k: int) -> list[Document]:
        """The `k` passages most similar to a question, best first; all of them when the base has fewer.

        Each has `rank` (from 1) and `score` in its metadata: cosine similarity or inner product, by the
        encoder's metric, higher is better. Equal scores are in the order of their ids.
        """
        return self.search_by_vector(self.encoder.encode_queries([query])[0], k)

    def search_by_vector(self, vector: NDArray[np.float32], k: int) -> list[Document]:
        """The `k` passages nearest to a query's vector (d,) float32; otherwise like `search`."""
        if k < 1:
            raise InputError(f"k is {k}, and at least 1 passage must be asked for.")
        return self._retried(lambda: self._search(vector, k))

    def _search(self, vector: NDArray[np.float32], k: int) -> list[Document]:
        if (vectors := self.vectors) is None:
            return []
        asked = k
        while True:
            scores = dict(vectors.search(vector, asked))
            found = self.passages.fetch_numbers(list(scores))
            if len(found) == len(scores) or len(found) >= k:
                break
            if self.manifest.store is None:
                raise KnowledgeBaseError(
                    f"{self.path} is being changed, and {len(scores) - len(found)} of the {len(scores)} passages found "
                    "are gone: open it again, and ask again."
                )
            # A server's collection is changed in place, and holds vectors of passages to come and of some that went.
            if len(scores) < asked:
                break
            asked *= 2
        ranking = sorted(found, key=lambda number: (-scores[number], str(found[number].id)))[:k]
        for rank, number in enumerate(ranking, start=1):
            found[number].metadata.update(rank=rank, score=scores[number])
        return [found[number] for number in ranking]

    def get(self, ids: Sequence[str]) -> list[Document]:
        """The passages with these ids, in the order asked for.

        Raises KnowledgeBaseError when one is not held.
        """
        found = self.passages.fetch(ids)
        missing = [id for id in ids if id not in found]
        if missing:
            raise KnowledgeBaseError(
                f"{self.path} holds no passage {missing[0]!r}"
                + (f" (nor {len(missing) - 1} more that were asked for)" if len(missing) > 1 else "")
                + ": check the id, or open the knowledge base again if it was updated."
            )
        return [found[id] for id in ids]

    def source(self, source_id: str) -> list[Document]:
        """All passages of one source, in its order: those whose metadata has this `source_id`.

        Raises KnowledgeBaseError when none is held.
        """
        if not (found := self.passages.of_source(source_id)):
            raise KnowledgeBaseError(f"{self.path} holds no source {source_id!r}: check the id.")
        return found

    @property
    def vectors(self) -> VectorStore | None:
        """The vectors of its passages, by passage number; None when the base is empty."""
        if not len(self):
            return None
        with self._loading:
            return self._retried(self._current_vectors)

    def _current_vectors(self) -> VectorStore:
        generation, collection, _ = self._catch_up()
        if self._vectors is None:
            self._vectors = open_vectors(self.path, self.manifest, generation, collection)
        return self._vectors

    @property
    def bm25(self) -> "BM25Index | None":
        """The BM25 index over its passages; None when the base is empty."""
        if not len(self):
            return None
        with self._loading:
            return self._retried(self._current_bm25)

    def _current_bm25(self) -> "BM25Index":
        *_, generation = self._catch_up()
        if self._bm25 is None:
            self._bm25 = open_terms(self.path, generation)
        return self._bm25

    @property
    def term_statistics(self) -> "TermStatistics | None":
        """How often terms occur in its passages, for BM25; None when the base is empty."""
        bm25 = self.bm25
        return None if bm25 is None else bm25.statistics

    def _published(self) -> tuple[int, ...]:
        """What names the indexes in use; it changes when a build is complete."""
        return self.passages.marks(GENERATION, COLLECTION, TERMS_GENERATION)

    def _catch_up(self) -> tuple[int, ...]:
        published = self._published()
        if published != self._in_use:
            if self._vectors is not None:
                # Another thread may be searching it.
                self._outdated.append(self._vectors)
            self._vectors, self._bm25, self._in_use = None, None, published
        return published

    def _retried(self, read: Callable[[], _T]) -> _T:
        """What `read` gives; once more where a build became complete meanwhile, and took away what it was reading."""
        while True:
            published = self._published()
            try:
                return read()
            except KnowledgeBaseError:
                if self._published() == published:
                    raise

    def info(self) -> dict[str, Any]:
        """The manifest as it is now, with `path`, the `counts` of all sources, and the `bytes` of the folder."""
        manifest = Manifest.read(self.path)
        counts = Counts.total(source.counts for source in manifest.sources)
        size = sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())
        return {
            "path": str(self.path),
            **manifest.model_dump(),
            "counts": counts.model_dump(),
            "bytes": size,
        }

    def verify(self) -> list[str]:
        """What is wrong with it, one sentence each, with what to do; nothing when it is sound."""
        from briefcontext.knowledge.verification import verify

        return verify(self)


def _was_complete(folder: Path) -> bool:
    """Whether a base that is being built has been complete before."""
    try:
        passages = PassageStore(folder)
    except KnowledgeBaseError:
        return False
    with closing(passages):
        return passages.is_published()
