"""One published state of a knowledge base, to be searched and read."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.indexes import nearest, terms_query
from briefcontext.knowledge.store.manifest import PASSAGES, Manifest
from briefcontext.knowledge.store.passages import DOCUMENT_COLUMNS, documents, stored_vectors
from briefcontext.knowledge.store.terms import TermStatistics, tokenize

if TYPE_CHECKING:
    from briefcontext.knowledge.store.chroma import ChromaVectors

MORE = 16
"""How many more than the best `k` are looked at: so many may change their order when scores are exact."""

_SCORED_COLUMNS = (*DOCUMENT_COLUMNS, "vector")

_Candidates = Callable[[int], tuple[pa.Table, NDArray[np.float64], bool]]


class Snapshot:
    """The passages of one state. Safe to share between threads."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.table = manifest.table(PASSAGES)

    @cached_property
    def _vectors(self) -> "ChromaVectors | None":
        """Where vectors are searched, if that is not the table."""
        if self.manifest.store is None:
            return None
        from briefcontext.knowledge.store.chroma import ChromaVectors

        return ChromaVectors(self.manifest)

    def close(self) -> None:
        """Close the connection to where vectors are searched, if it is elsewhere."""
        if (vectors := self.__dict__.pop("_vectors", None)) is not None:
            vectors.close()

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """The passages held under these ids."""
        return {str(document.id): document for document in documents(self.table.find(DOCUMENT_COLUMNS, "id", ids))}

    def sources(self, source_ids: Sequence[str]) -> dict[str, list[Document]]:
        """The passages of records, in their order."""
        rows = self.table.find([*DOCUMENT_COLUMNS, "number"], "source_id", source_ids)
        found: dict[str, list[Document]] = {}
        for document in documents(rows.sort_by("number")):
            found.setdefault(document.metadata["source_id"], []).append(document)
        return found

    def search(self, vector: NDArray[np.float32], k: int, filters: Filters) -> list[Document]:
        """The `k` passages nearest to a vector (d,), best first, with `rank` and `score`."""
        where = filters.where()
        filtered = None if where is None else self.table.count(where)
        most = len(self.table) if filtered is None else filtered

        def candidates(asked: int) -> tuple[pa.Table, NDArray[np.float64], bool]:
            if self._vectors is None:
                wanted = min(asked, most)
                found = self._nearest(vector, wanted, where, filtered)
                if len(found) < wanted:
                    # What the filter leaves lies in other partitions than those that were looked into.
                    found = self._nearest(vector, wanted, where, 0)
                everything = wanted == most
            else:
                numbers = self._vectors.search(vector, asked)
                found = self.table.find(_SCORED_COLUMNS, "number", numbers, where)
                everything = len(numbers) < asked
            return found, self._similarities(found, vector), everything

        return _best(candidates, k) if most else []

    def _nearest(self, vector: NDArray[np.float32], k: int, where: str | None, filtered: int | None) -> pa.Table:
        options = nearest(vector, k, self.manifest.encoder.metric, len(self.table), filtered)
        return self.table.read([*_SCORED_COLUMNS, "_distance"], where, prefilter=True, nearest=options)

    def _similarities(self, rows: pa.Table, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        """The scores (n,) of rows by their whole vectors."""
        held, query = stored_vectors(rows["vector"]).astype(np.float64), vector.astype(np.float64)
        scores: NDArray[np.float64] = held @ query
        if self.manifest.encoder.metric == "cosine":
            # Half precision makes vectors a little longer or shorter.
            lengths = np.linalg.norm(held, axis=1) * np.linalg.norm(query)
            scores = scores / np.where(lengths > 0, lengths, 1)
        return scores.astype(np.float32).astype(np.float64)

    def search_terms(self, query: str, k: int, filters: Filters) -> list[Document]:
        """The `k` passages that BM25 scores highest for a question's terms, best first, with `rank` and `score`."""
        terms = tokenize(query)
        where = filters.where()

        def candidates(asked: int) -> tuple[pa.Table, NDArray[np.float64], bool]:
            found = self.table.read(
                [*DOCUMENT_COLUMNS, "_score"], where, prefilter=True, full_text_query=terms_query(terms), limit=asked
            )
            return found, found["_score"].to_numpy().astype(np.float64), len(found) < asked

        return _best(candidates, k) if terms else []

    @cached_property
    def term_statistics(self) -> TermStatistics:
        def top_score(term: str) -> tuple[float, list[str]] | None:
            found = self.table.read(["terms", "_score"], full_text_query=terms_query([term]), limit=1)
            return (found["_score"][0].as_py(), found["terms"][0].as_py().split()) if len(found) else None

        return TermStatistics(self.manifest.texts, self.manifest.terms, top_score)


def _best(candidates: _Candidates, k: int) -> list[Document]:
    """The best `k` of the rows that are found with their scores; equal scores in the order of ids.

    More are looked for as long as one that is not found yet might be among them.
    """
    asked = k + MORE
    while True:
        found, scores, everything = candidates(asked)
        ids = found["id"].to_pylist()
        order = sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place]))
        if everything or (len(order) > k and scores[order[-1]] < scores[order[k - 1]]):
            break
        asked *= 2
    best = documents(found.take(pa.array(order[:k], pa.int64())))
    for rank, (document, place) in enumerate(zip(best, order, strict=False), start=1):
        document.metadata.update(rank=rank, score=float(scores[place]))
    return best
