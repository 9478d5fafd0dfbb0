"""Small knowledge bases: making them, breaking the making, and what they hold, to compare two of them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.manifest import Counts
from briefcontext.knowledge.sources.source import EntrySource, SourceEntry
from tests.hashing_encoder import HashingEncoder

NEW = "Ibuprofen is used now."


def record(id: str, text: str = "Aspirin helps.", **metadata: Any) -> Document:
    return Document(id=id, page_content=text, metadata={"source_id": id, "title": f"On {id}", **metadata})


def source(name: str, *entries: SourceEntry) -> EntrySource:
    """A source whose fingerprint is its name."""
    return EntrySource(entries, name=name, fingerprint=f"sha256:{name}", size=len(entries))


def build(folder: Path, *sources: EntrySource, **options: Any) -> BuildReport:
    return build_knowledge_base(sources, folder, **{"encoder": HashingEncoder(), **options})


def counts(**given: int) -> Counts:
    return Counts(read=sum(given.values()), **given)


def failing(entries: Iterable[SourceEntry]) -> Iterator[SourceEntry]:
    yield from entries
    raise KnowledgeBaseError("The disk is gone: put it back.")


class BrokenEncoder(HashingEncoder):
    """Gives vectors that are not numbers."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> Any:
        return super().encode_passages(passages) * np.float32(np.nan)


def passages(folder: Path) -> dict[str, str]:
    return {id: text for id, (text, _, _) in contents(folder)["passages"].items()}


def contents(folder: Path, encoder: HashingEncoder | None = None, *, questions: tuple[str, ...] = ()) -> dict[str, Any]:
    """Passages with their vectors, counts and answers of a finished base, and that its parts agree."""
    with KnowledgeBase.open(folder, encoder=encoder or HashingEncoder()) as base:
        assert base.verify() == []
        numbers = dict(base.passages.rows("SELECT number, id FROM passages"))
        vectors = base.vectors.get(list(numbers)) if base.vectors else {}
        kept = dict(base.passages.rows("SELECT id, vector FROM passages JOIN vectors USING (number)"))
        passages = {str(document.id): document for document in base.passages.all()}
        bm25 = base.bm25
        terms = {question: dict(bm25.search(question, 1000)) if bm25 else {} for question in questions}
        assert {numbers[number] for number in vectors} == set(kept) == set(passages)
        for number, vector in vectors.items():
            # Chroma scales vectors to unit length once more where the metric is the cosine.
            np.testing.assert_allclose(vector, np.frombuffer(kept[numbers[number]], np.float32), rtol=1e-4)
        assert len(base) == len(passages) == (0 if bm25 is None else len(bm25))
        return {
            "passages": {id: (document.page_content, document.metadata, kept[id]) for id, document in passages.items()},
            "counts": {source["name"]: source["counts"] for source in base.info()["sources"]},
            "records": base.info()["records"],
            "terms": terms,
        }
