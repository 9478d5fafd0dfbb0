"""One published state of a knowledge base, to be searched and read."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.store.filters import LABELLED, Filters
from briefcontext.knowledge.store.indexes import nearest, terms_query
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.passages import DOCUMENT_COLUMNS, PASSAGES, documents, stored_vectors
from briefcontext.knowledge.store.place import Place
from briefcontext.knowledge.store.table import Table
from briefcontext.knowledge.store.term_statistics import TermStatistics, corpus_statistics
from briefcontext.knowledge.store.tokenizer import tokenize
from briefcontext.knowledge.store.vector_search import VectorSearch, open_vector_search

MORE = 16
"""How many more than the best `k` are looked at: so many may change their order when scores are exact."""

_SAMPLE = 2000
"""Passages whose labels are looked at."""
_MOST_LABELS = 200

_SCORED_COLUMNS = (*DOCUMENT_COLUMNS, "vector")

_Candidates = Callable[[int], tuple[pa.Table, NDArray[np.float64], bool]]


class Snapshot:
    """The passages of one state. Safe to share between threads."""

    def __init__(self, place: Place, manifest: Manifest) -> None:
        """For a state that was published."""
        assert manifest.versions is not None
        self.manifest = manifest
        self._place = place
        self._table = Table(place.table(PASSAGES), manifest.versions.passages)

    @cached_property
    def _vector_search(self) -> VectorSearch | None:
        return open_vector_search(self._place, self.manifest)

    def close(self) -> None:
        """Close the connection to where vectors are searched, if it is elsewhere."""
        if "_vector_search" in self.__dict__ and self._vector_search is not None:
            self._vector_search.close()

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """The passages held under these ids."""
        return {str(document.id): document for document in documents(self._table.find(DOCUMENT_COLUMNS, "id", ids))}

    def sources(self, source_ids: Sequence[str]) -> dict[str, list[Document]]:
        """The passages of records, in their order."""
        rows = self._table.find([*DOCUMENT_COLUMNS, "number"], "source_id", source_ids)
        found: dict[str, list[Document]] = {}
        for document in documents(rows.sort_by("number")):
            found.setdefault(document.metadata["source_id"], []).append(document)
        return found

    def ids(self) -> list[str]:
        """The ids of all passages, sorted."""
        return sorted(id for page in self._table.pages(["id"]) for id in page["id"].to_pylist())

    def listing(self) -> list[dict[str, Any]]:
        """`source_id`, `title`, `kind`, `year` and the number of `passages` of each record, by source id."""
        found: dict[str, dict[str, Any]] = {}
        for page in self._table.pages(["source_id", "title", "kind", "year"]):
            for row in page.to_pylist():
                known = found.setdefault(row["source_id"], {**row, "passages": 0})
                known["passages"] += 1
        return [found[id] for id in sorted(found)]

    def count(self, where: str) -> int:
        """How many passages fulfil a condition."""
        return self._table.count(where)

    def labels(self) -> dict[str, list[str]]:
        """The most frequent labels of each kind in the first passages; kinds without any are left out."""
        sample = self._table.read(LABELLED, limit=_SAMPLE)
        counts = {name: Counter(label for row in sample[name].to_pylist() for label in row or ()) for name in LABELLED}
        return {
            name: [label for label, _ in count.most_common(_MOST_LABELS)] for name, count in counts.items() if count
        }

    def search(self, vector: NDArray[np.float32], k: int, filters: Filters) -> list[Document]:
        """The `k` passages nearest to a vector (d,), best first, with `rank` and `score`."""
        where = filters.where()
        filtered = None if where is None else self._table.count(where)
        most = len(self._table) if filtered is None else filtered

        def candidates(asked: int) -> tuple[pa.Table, NDArray[np.float64], bool]:
            if self._vector_search is None:
                wanted = min(asked, most)
                found = self._nearest(vector, wanted, where, filtered)
                if len(found) < wanted:
                    # What the filter leaves lies in other partitions than those that were looked into.
                    found = self._nearest(vector, wanted, where, 0)
                everything = wanted == most
            else:
                numbers = self._vector_search.search(vector, asked)
                found = self._table.find(_SCORED_COLUMNS, "number", numbers, where)
                everything = len(numbers) < asked
            return found, self._similarities(found, vector), everything

        return _best(candidates, k) if most else []

    def _nearest(self, vector: NDArray[np.float32], k: int, where: str | None, filtered: int | None) -> pa.Table:
        options = nearest(vector, k, self.manifest.encoder.metric, len(self._table), filtered)
        return self._table.read([*_SCORED_COLUMNS, "_distance"], where, prefilter=True, nearest=options)

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
            found = self._table.read(
                [*DOCUMENT_COLUMNS, "_score"], where, prefilter=True, full_text_query=terms_query(terms), limit=asked
            )
            return found, found["_score"].to_numpy().astype(np.float64), len(found) < asked

        return _best(candidates, k) if terms else []

    @cached_property
    def term_statistics(self) -> TermStatistics:
        """How often terms occur in its passages."""

        def top_score(term: str) -> tuple[float, list[str]] | None:
            found = self._table.read(["terms", "_score"], full_text_query=terms_query([term]), limit=1)
            return (found["_score"][0].as_py(), found["terms"][0].as_py().split()) if len(found) else None

        return corpus_statistics(self.manifest.texts, self.manifest.terms, top_score)


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
