"""What a knowledge base holds, to compare two of them."""

from pathlib import Path
from typing import Any

import numpy as np

from briefcontext.knowledge.knowledge_base import KnowledgeBase
from tests.hashing_encoder import HashingEncoder

Contents = dict[str, Any]


def contents(folder: Path, encoder: HashingEncoder | None = None, *, questions: tuple[str, ...] = ()) -> Contents:
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
