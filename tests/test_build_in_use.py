"""Questions that are asked while a knowledge base is being updated."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.pipeline import Progress
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import Deletion
from briefcontext.retrievers.knowledge_base import SearchMethod, retriever_over
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source

METHODS: tuple[SearchMethod, ...] = ("dense", "bm25", "hybrid")
SIZE = 40


def trials(version: int) -> list[Document]:
    return [
        record(f"d{number}", f"Aspirin for stroke, version {version}, trial {number}.")
        for number in range(SIZE)
    ]


def begin(folder: Path, **options: Any) -> None:
    build(folder, source("old", *trials(1)), **options)


def update(folder: Path, **options: Any) -> None:
    """Replace all but the last two, and delete the last one."""
    build(
        folder,
        source("new", *trials(2)[:-2], Deletion(f"d{SIZE - 1}"), record("added", "Aspirin again.")),
        **options,
    )


def versions(base: KnowledgeBase) -> dict[str, int]:
    """How many passages of each version (or other text) each way of asking finds."""
    found = {
        method: retriever_over(base, method).invoke("Aspirin for stroke", k=10)
        for method in METHODS
    }
    found["get"] = base.get(["d0", "d7"])
    found["source"] = base.source("d3")
    return {
        f"{way}: {version}": count
        for way, documents in found.items()
        for version in ("version 1", "version 2", "again")
        if (count := sum(version in document.page_content for document in documents))
    }


OLD = {
    f"{way}: version 1": count
    for way, count in (*dict.fromkeys(METHODS, 10).items(), ("get", 2), ("source", 1))
}


def opened(folder: Path) -> KnowledgeBase:
    return KnowledgeBase.open(folder, encoder=HashingEncoder())


@pytest.fixture
def base(tmp_path: Path) -> Iterator[KnowledgeBase]:
    begin(tmp_path)
    with opened(tmp_path) as base:
        yield base


def during(folder: Path, look: Callable[[], None], **options: Any) -> int:
    """Update, and look each time that a batch is done; how many times."""
    looks = []

    def progress(_: Progress) -> None:
        look()
        looks.append(1)

    update(folder, progress=progress, **options)
    return len(looks)


def test_an_open_base_answers_from_its_old_state_during_an_update(base: KnowledgeBase) -> None:
    def look() -> None:
        assert versions(base) == OLD
        assert len(base) == SIZE
        assert base.source(f"d{SIZE - 1}")
        with pytest.raises(KnowledgeBaseError, match="no passage 'added'"):
            base.get(["added"])
        assert len(base.search("Aspirin", 2 * SIZE)) == SIZE

    assert during(base.path, look) >= 1
    found = base.search("Aspirin", 2 * SIZE)
    assert sorted(document.id or "" for document in found) == sorted(
        ["added", *(f"d{number}" for number in range(SIZE - 1))]
    )
    assert sum("version 2" in document.page_content for document in found) == SIZE - 2
    with pytest.raises(KnowledgeBaseError, match="holds no source"):
        base.source(f"d{SIZE - 1}")
    assert base.verify() == []
