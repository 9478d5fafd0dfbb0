"""BM25 over a whole knowledge base, in files that are memory-mapped: opening an index reads almost nothing.

An index is a folder of NumPy arrays: ids and terms as UTF-8 bytes with offsets, the terms sorted, and for
each term its postings, the numbers of the passages that hold it in ascending order with its score in each.
BM25's score of a passage is a sum over the query's terms, so that all of it but the sum is done at build
time (Lù, "BM25S", arXiv:2407.03618).
"""

import json
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.bm25_build import BM25_B, BM25_K1, INDEX_FILE, INDEX_FORMAT, build_index
from briefcontext.knowledge.tokenizer import tokenize

__all__ = ["BM25_B", "BM25_K1", "BM25Index", "TermStatistics"]


class TermStatistics(Protocol):
    """How often terms occur in a corpus: what BM25 has to know beyond the passages that it ranks."""

    @property
    def n_documents(self) -> int:
        """Number of passages in the corpus."""

    @property
    def average_length(self) -> float:
        """Mean number of terms in a passage."""

    def document_frequency(self, term: str) -> int:
        """Return how many passages hold the term, written as `tokenize` writes it."""


class BM25Index:
    """A search index from terms to passages. Safe to read from several threads at once."""

    def __init__(self, folder: Path) -> None:
        """Open an index; see `open`."""
        try:
            header = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
            built_with = {name: header[name] for name in INDEX_FORMAT}
            self.n_documents = int(header["n_documents"])
            self.average_length = float(header["average_length"])
            self._ids = _Strings(folder, "ids")
            self._terms = _Strings(folder, "terms")
            self._postings = _array(folder, "postings", np.int64)
            self._documents = _array(folder, "documents", np.int32)
            self._scores = _array(folder, "scores", np.float32)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise KnowledgeBaseError(
                f"The BM25 index in {folder} is missing or damaged ({error}): build the knowledge base again."
            ) from error
        if built_with != INDEX_FORMAT:
            raise KnowledgeBaseError(
                f"The BM25 index in {folder} was built with {built_with}, and this BriefContext uses "
                f"{INDEX_FORMAT}: build the knowledge base again."
            )
        size = int(self._postings[-1]) if len(self._postings) else -1
        if not (
            len(self._ids) == self.n_documents
            and len(self._postings) == len(self._terms) + 1
            and len(self._documents) == len(self._scores) == size
        ):
            raise KnowledgeBaseError(
                f"The BM25 index in {folder} is damaged (its files do not belong together): "
                "build the knowledge base again."
            )

    @classmethod
    def build(cls, passages: Iterable[tuple[str, str]], folder: Path) -> Self:
        """Index passages, each an id and its text (see `lexical_text`), into a folder, and open it.

        The passages are read once and not kept: memory holds the vocabulary, and tens of bytes for each of
        them. An index that is there already is replaced once the new one is whole. One process may build at a
        time.
        """
        build_index(passages, folder)
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the index in a folder.

        Raises:
            KnowledgeBaseError: there is no index, or it is damaged, or made by another version's tokenizer.
        """
        return cls(folder)

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the `k` best passages as (id, score), best first, equal scores in the order of indexing.

        Passages without any term of the query are left out, so that fewer than `k` may come back.
        """
        scores = np.zeros(self.n_documents, dtype=np.float32)
        for term in tokenize(query):
            if (postings := self._postings_of(term)) is not None:
                scores[self._documents[postings]] += self._scores[postings]
        found = np.flatnonzero(scores)
        if k < len(found):
            worst = np.partition(scores[found], -k)[-k]
            found = found[scores[found] >= worst]
        best = found[np.argsort(-scores[found], kind="stable")][:k]
        return [(self._ids[int(number)], float(scores[number])) for number in best]

    @property
    def statistics(self) -> TermStatistics:
        """Document frequencies in the corpus, for ranking a pool of its passages."""
        return self

    def document_frequency(self, term: str) -> int:
        """Return how many passages hold the term, written as `tokenize` writes it."""
        postings = self._postings_of(term)
        return 0 if postings is None else postings.stop - postings.start

    def __len__(self) -> int:
        """Number of passages."""
        return self.n_documents

    def _postings_of(self, term: str) -> slice | None:
        number = self._terms.find(term)
        return None if number is None else slice(int(self._postings[number]), int(self._postings[number + 1]))


class _Strings:
    """Strings in a memory-mapped file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._bytes = _array(folder, name, np.uint8)
        self._offsets = _array(folder, f"{name}_offsets", np.int64)
        if not len(self._offsets) or self._offsets[-1] != len(self._bytes):
            raise ValueError(f"{name}.npy and {name}_offsets.npy do not belong together")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        return self._encoded(number).decode()

    def find(self, string: str) -> int | None:
        """Return the number of a string, where they are sorted."""
        encoded = string.encode()
        number = bisect_left(range(len(self)), encoded, key=self._encoded)
        return number if number < len(self) and self._encoded(number) == encoded else None

    def _encoded(self, number: int) -> bytes:
        return self._bytes[int(self._offsets[number]) : int(self._offsets[number + 1])].tobytes()


def _array(folder: Path, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    mapped: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    if mapped.dtype != dtype or mapped.ndim != 1:
        raise ValueError(f"{name}.npy holds {mapped.ndim}-dimensional {mapped.dtype}, not a list of {dtype.__name__}")
    # A plain view: slicing np.memmap itself is many times slower.
    return mapped.view(np.ndarray)
