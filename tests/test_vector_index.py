"""Bases that are large enough for an index over their vectors."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge import EntrySource, Filters, KnowledgeBase, VectorDocument
from briefcontext.knowledge.store import table
from briefcontext.knowledge.store.place import open_place
from briefcontext.knowledge.store.table import Table
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build

SIZE, DIMENSION, EXACT_BELOW = 6000, 64, 1000
ENCODER = HashingEncoder(dimension=DIMENSION)


def vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors in clusters, as those of texts are."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(40, DIMENSION))
    made = centres[random.integers(40, size=count)] + 0.8 * random.normal(size=(count, DIMENSION))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def source(name: str, numbers: range, given: NDArray[np.float32]) -> EntrySource:
    entries = [
        VectorDocument(
            Document(
                id=f"p{number:05d}",
                page_content=f"Passage {number} by {name}.",
                metadata={
                    "source_id": f"p{number:05d}",
                    "year": 1980 + number % 40,
                    "mesh": f"Topic {number % 500}",
                },
            ),
            vector,
        )
        for number, vector in zip(numbers, given, strict=True)
    ]
    return EntrySource(entries, name=name, fingerprint=f"sha256:{name}")


@pytest.fixture(autouse=True)
def _indexed_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "EXACT_BELOW", EXACT_BELOW)
    monkeypatch.setattr(table, "EXACT_FILTERED", 20)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that is only read."""
    folder = tmp_path_factory.mktemp("indexed") / "kb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "EXACT_BELOW", EXACT_BELOW)
        build(folder, source("a", range(SIZE), vectors(SIZE, 1)), encoder=ENCODER)
    return folder


@pytest.fixture
def base(built: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(built, encoder=ENCODER) as opened:
        yield opened


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """The same base, for this test alone."""
    return shutil.copytree(built, tmp_path / "kb")


def recall(
    base: KnowledgeBase, held: dict[str, NDArray[np.float32]], filters: Filters | None = None
) -> float:
    """How many of the 16 nearest a search finds."""
    ids, matrix = list(held), np.stack(list(held.values()))
    shares = []
    for query in vectors(40, 9):
        nearest = {ids[place] for place in np.argsort(-(matrix @ query))[:16]}
        found = base.search_by_vector(query, 16, *([filters] if filters else []))
        assert len(found) == min(16, len(ids))
        shares.append(len(nearest & {str(document.id) for document in found}) / len(nearest))
    return float(np.mean(shares))


def indexed(folder: Path) -> dict[str, int]:
    """How many segments each index has."""
    passages = Table(str(open_place(folder).locate("passages.lance")))
    return {index.name: len(index.segments) for index in passages.data.describe_indices()}


def test_the_index_finds_what_is_nearest(base: KnowledgeBase) -> None:
    assert "vector_idx" in indexed(Path(base.path))
    held = {f"p{number:05d}": vector for number, vector in enumerate(vectors(SIZE, 1))}
    assert recall(base, held) >= 0.98


@pytest.mark.slow
def test_an_update_adds_to_the_index_until_much_has_changed(folder: Path) -> None:
    held = {f"p{number:05d}": vector for number, vector in enumerate(vectors(SIZE, 1))}
    segments = []
    with KnowledgeBase.open(folder, encoder=ENCODER) as base:
        for update in range(3):
            numbers = range(100 * update, 100 * update + 200)
            build(folder, source(f"u{update}", numbers, vectors(200, 20 + update)), encoder=ENCODER)
            held |= {
                f"p{n:05d}": v for n, v in zip(numbers, vectors(200, 20 + update), strict=True)
            }
            segments.append(indexed(folder)["vector_idx"])
            assert recall(base, held) >= 0.98
    assert segments[0] == 2
    assert 1 in segments


@pytest.mark.parametrize(
    "filters", [Filters(mesh=("Topic 7",)), Filters(first_year=1990, last_year=1991)]
)
def test_a_filter_leaves_k_passages_wherever_they_lie(
    base: KnowledgeBase, filters: Filters
) -> None:
    held = {
        f"p{number:05d}": vector
        for number, vector in enumerate(vectors(SIZE, 1))
        if (not filters.mesh or number % 500 == 7)
        and (filters.first_year or 0) <= 1980 + number % 40 <= (filters.last_year or 9999)
    }
    assert recall(base, held, filters) >= 0.98
