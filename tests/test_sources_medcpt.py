import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.medcpt_embeddings import DIMENSION
from briefcontext.knowledge.sources.source import Entry, Reject, VectorDocument
from briefcontext.knowledge.store.counts import Counts
from tests.hashing_encoder import HashingEncoder

ARTICLES: dict[str, Any] = {
    "31": {"d": "19980401", "t": "Title 31.", "a": "Abstract 31.", "m": "Humans; Asthma"},
    "7": {"d": "", "t": "Title 7.", "a": "", "m": ""},
    "12": {"d": "2001", "t": "[Not Available].", "a": "Abstract 12.", "m": ["Humans", "Gout"]},
    "1000": {"t": None, "a": None},
}
PMIDS = ["31", "7", "12", "1000"]


def vectors_of(pmids: Sequence[object]) -> NDArray[np.float32]:
    """A vector for each PMID, which begins with the PMID itself."""
    vectors = np.zeros((len(pmids), DIMENSION), np.float32)
    vectors[:, 0] = [int(str(pmid)) for pmid in pmids]
    return vectors


def write_chunk(
    folder: Path,
    *,
    articles: object = ARTICLES,
    pmids: object = PMIDS,
    vectors: NDArray[Any] | None = None,
    chunk: str = "0",
) -> Path:
    """The three files of a chunk; the path of its vectors."""
    path = folder / f"embeds_chunk_{chunk}.npy"
    np.save(path, vectors_of(PMIDS) if vectors is None else vectors)
    (folder / f"pmids_chunk_{chunk}.json").write_text(json.dumps(pmids))
    (folder / f"pubmed_chunk_{chunk}.json").write_text(json.dumps(articles))
    return path


def read(path: Path) -> list[Entry]:
    (source,) = open_sources([path])
    return list(source.entries())


def documents(entries: list[Entry]) -> list[VectorDocument]:
    return [entry for entry in entries if isinstance(entry, VectorDocument)]


def rejects(entries: list[Entry]) -> list[Reject]:
    return [entry for entry in entries if isinstance(entry, Reject)]


def test_articles_come_with_the_vectors_of_their_pmids(tmp_path: Path) -> None:
    entries = read(write_chunk(tmp_path))
    first, second, third = documents(entries)
    assert first.document.id == "31"
    assert first.document.page_content == "Abstract 31."
    assert first.document.metadata == {
        "source_id": "31",
        "title": "Title 31.",
        "kind": "abstract",
        "url": "https://pubmed.ncbi.nlm.nih.gov/31/",
        "chunk_index": 0,
        "start": 0,
        "end": 12,
        "year": 1998,
        "mesh": "Humans; Asthma",
    }
    assert (second.document.page_content, second.document.metadata["kind"]) == ("Title 7.", "title")
    assert "year" not in second.document.metadata
    assert (third.document.metadata["title"], third.document.metadata["mesh"]) == (
        "",
        "Humans; Gout",
    )
    for entry in (first, second, third):
        assert entry.vector.shape == (DIMENSION,)
        assert entry.vector.dtype == np.float32
        assert not isinstance(entry.vector, np.memmap)
        assert entry.vector[0] == int(entry.document.id or 0)
    assert rejects(entries) == [Reject("PMID 1000", "It has neither a title nor an abstract.")]


@pytest.mark.parametrize(
    ("encoder", "taken"),
    [("medcpt", True), ("medcpt:/weights", True), ("medcpt-like", False), ("hashing", False)],
)
def test_the_vectors_go_only_into_a_base_of_their_encoder(
    tmp_path: Path, encoder: str, taken: bool
) -> None:
    chunk = write_chunk(tmp_path)

    def build() -> BuildReport:
        given = HashingEncoder(name=encoder, dimension=DIMENSION, metric="ip")
        return build_knowledge_base(open_sources([chunk]), tmp_path / "kb", encoder=given)

    if taken:
        assert build().counts == Counts(read=4, indexed=3, rejected=1)
    else:
        with pytest.raises(KnowledgeBaseError, match="encoder 'medcpt'"):
            build()
        assert not (tmp_path / "kb").exists()


def test_articles_and_vectors_without_a_counterpart_are_rejected(tmp_path: Path) -> None:
    articles = {"31": ARTICLES["31"], "8": ARTICLES["7"], "x": ARTICLES["7"], "12": "no object"}
    entries = read(write_chunk(tmp_path, articles=articles))
    assert [entry.document.id for entry in documents(entries)] == ["31"]
    assert rejects(entries) == [
        Reject("PMID 8", "It is not among the chunk's PMIDs, and has no vector."),
        Reject("PMID x", "It is not among the chunk's PMIDs, and has no vector."),
        Reject("PMID 12", "Its article is not a JSON object."),
        Reject("PMID 7", "It has a vector, and no article in pubmed_chunk_0.json."),
        Reject("PMID 1000", "It has a vector, and no article in pubmed_chunk_0.json."),
    ]


@pytest.mark.parametrize(
    ("vectors", "pmids"),
    [
        (vectors_of(PMIDS[:3]), PMIDS),
        (np.zeros((4, 384), np.float32), PMIDS),
        (None, ["31", "x", "12", "1"]),
    ],
)
def test_parts_that_do_not_fit_are_an_error(
    tmp_path: Path, vectors: NDArray[Any] | None, pmids: object
) -> None:
    with pytest.raises(KnowledgeBaseError, match="damaged or incomplete"):
        open_sources([write_chunk(tmp_path, vectors=vectors, pmids=pmids)])
