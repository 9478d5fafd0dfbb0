"""The protocol of external vector stores, and their synchronisation with the table."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.passages import stored_vectors
from briefcontext.knowledge.store.place import Place
from briefcontext.knowledge.store.table import Table

EMBEDDED = "chroma"
"""The store of a base whose vectors are searched by Chroma in its own folder."""


class VectorSearch(Protocol):
    """Vectors by the numbers of their passages. Safe to share between threads.

    It may hold vectors of passages that are not published yet, or not any more: who searches leaves them out.
    """

    def search(self, vector: NDArray[np.float32], k: int) -> list[int]:
        """The numbers of the `k` vectors nearest to one (d,), best first."""

    def numbers(self) -> set[int]:
        """The numbers of all vectors that it holds."""

    def add(self, numbers: list[int], vectors: NDArray[np.float32]) -> None:
        """Add one vector a number, (n, d) float32."""

    def remove(self, numbers: list[int]) -> None:
        """Remove the vectors of these numbers."""

    def close(self) -> None:
        """Let go of files and connections."""


def open_vector_search(place: Place, manifest: Manifest, *, create: bool = False) -> VectorSearch | None:
    """Return where the vectors of a base are searched; None: in its table of passages. `create` it where it is missing.

    Raises:
        KnowledgeBaseError: it is missing or damaged, or the server does not answer.
    """
    if manifest.store is None:
        return None
    from briefcontext.knowledge.store.chroma import ChromaVectors

    return ChromaVectors(
        place.folder / EMBEDDED / str(manifest.generation) if manifest.store == EMBEDDED else manifest.store,
        name=f"briefcontext-{manifest.id}",
        metric=manifest.encoder.metric,
        create=create,
    )


def add_missing(search: VectorSearch, table: Table) -> set[int]:
    """Add the vectors of passages that are not held; the numbers that are held without a passage."""
    held = search.numbers()
    for page in table.pages(["number", "vector"]):
        numbers = [int(number) for number in page["number"].to_pylist()]
        new = [place for place, number in enumerate(numbers) if number not in held]
        held.difference_update(numbers)
        if new:
            search.add([numbers[place] for place in new], stored_vectors(page["vector"])[new])
    return held


def vector_problems(place: Place, manifest: Manifest, table: Table) -> list[str]:
    """Return what is wrong with the vectors that are searched elsewhere, one sentence each.

    Raises KnowledgeBaseError where they cannot be read at all.
    """
    if (search := open_vector_search(place, manifest)) is None:
        return []
    try:
        held = search.numbers()
    finally:
        search.close()
    wanted = {int(number) for page in table.pages(["number"]) for number in page["number"].to_pylist()}
    if wanted == held:
        return []
    found = (
        f"{len(wanted - held):,} passages have no vector in {manifest.store}, and {len(held - wanted):,} vectors there"
    )
    return [f"{found} have no passage: run the index command again."]
