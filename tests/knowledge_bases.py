"""Small knowledge bases: builds, broken builds, and contents to compare."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase, knowledge_base_info
from briefcontext.knowledge.sources.files import SkippedFile
from briefcontext.knowledge.sources.source import Entry, EntrySource, Source
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.manifest import PASSAGES, TERMS, Manifest
from briefcontext.knowledge.store.passages import documents, stored_vectors
from briefcontext.knowledge.store.place import open_place
from tests.hashing_encoder import HashingEncoder

NEW = "Ibuprofen is used now."


def record(id: str, text: str = "Aspirin helps.", **metadata: Any) -> Document:
    return Document(
        id=id, page_content=text, metadata={"source_id": id, "title": f"On {id}", **metadata}
    )


def source(name: str, *entries: Entry) -> EntrySource:
    """A source whose fingerprint is its name."""
    return EntrySource(entries, name=name, fingerprint=f"sha256:{name}", size=len(entries))


def build(folder: Path | str, *sources: EntrySource, **options: Any) -> BuildReport:
    return build_knowledge_base(sources, folder, **{"encoder": HashingEncoder(), **options})


def counts(**given: int) -> Counts:
    return Counts(read=sum(given.values()), **given)


def failing(entries: Iterable[Entry]) -> Iterator[Entry]:
    yield from entries
    raise KnowledgeBaseError("The disk is gone: put it back.")


class BrokenEncoder(HashingEncoder):
    """Gives vectors that are not numbers."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> Any:
        return super().encode_passages(passages) * np.float32(np.nan)


def passages(folder: Path) -> dict[str, str]:
    return {id: text for id, (text, _, _) in contents(folder)["passages"].items()}


def stored(folder: Path | str) -> pa.Table:
    """The table of passages that readers of a base see, in the order of adding."""
    manifest = Manifest.published(open_place(folder))
    assert manifest is not None
    table = manifest.table(PASSAGES)
    return table.read(table.data.schema.names).sort_by(
        [("source_id", "ascending"), ("place", "ascending")]
    )


def contents(
    folder: Path | str, encoder: HashingEncoder | None = None, *, questions: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return passages, vectors, counts and answers of a finished base; check that they agree."""
    with KnowledgeBase.open(folder, encoder=encoder or HashingEncoder()) as base:
        assert base.verify() == []
        rows = stored(folder)
        vectors = [vector.tobytes() for vector in stored_vectors(rows["vector"]).astype(np.float16)]
        held = {
            str(document.id): (document.page_content, document.metadata, vector)
            for document, vector in zip(documents(rows), vectors, strict=True)
        }
        assert len(base) == len(rows) == len(held)
        info = knowledge_base_info(folder)
        frequencies = base.published.table(TERMS).read(["term", "passages"])
        counted = Counter(
            term for terms in rows["terms"].to_pylist() for term in set(terms.split())
        )
        assert dict(zip(*frequencies.to_pydict().values(), strict=True)) == counted
        return {
            "passages": held,
            "sources": {source["name"]: source["finished"] for source in info["sources"]},
            "records": info["records"],
            "terms": {
                question: {
                    document.id: document.metadata["score"]
                    for document in base.search_terms(question, 1000)
                }
                for question in questions
            },
        }


def skipped_of(sources: Sequence[Source]) -> list[SkippedFile]:
    """The files among sources that are not read."""
    return [source for source in sources if isinstance(source, SkippedFile)]
