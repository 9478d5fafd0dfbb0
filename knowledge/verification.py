"""Whether the parts of a knowledge base agree with each other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import BriefContextError
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.manifest import Counts, Manifest
from briefcontext.knowledge.passage_schema import INDEXED
from briefcontext.knowledge.passages import EncodablePassage, PassageStore
from briefcontext.knowledge.source_ledger import SourceLedger
from briefcontext.knowledge.vectors import VectorStore

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

SAMPLE = 32
"""Passages, spread evenly, whose vectors are looked at."""

LEAST_LIKENESS = 0.99
"""Cosine similarity of a kept vector and the same text encoded now: half precision and other devices lower it."""

REMEDY = "run the index command again"


def verify(knowledge_base: KnowledgeBase) -> list[str]:
    """What is wrong with a knowledge base, one sentence each, with what to do; nothing when it is sound.

    Reads the whole passage file, compares the counts of passages, vectors and terms with each other and with the
    manifest, and encodes a few passages again.
    """
    passages = knowledge_base.passages
    manifest = Manifest.read(knowledge_base.path)
    if manifest.state != "complete":
        return [
            f"An update of {knowledge_base.path} is not complete, and questions are answered from the state before it: "
            f"wait until it has ended, or {REMEDY} to finish it."
        ]
    problems = [*_file_problems(passages), *_count_problems(manifest, passages)]
    problems += [
        f"The source {name!r} was read in part only: index it again." for name in SourceLedger(passages).unfinished()
    ]
    if held := _count(passages, "passages"):
        try:
            if (bm25 := knowledge_base.bm25) is not None and len(bm25) != held:
                problems.append(f"The BM25 index holds {len(bm25):,} of {held:,} passages: {REMEDY}.")
        except BriefContextError as error:
            problems.append(str(error))
        try:
            if (vectors := knowledge_base.vectors) is not None:
                problems += _vector_problems(vectors, passages, knowledge_base.encoder)
        except BriefContextError as error:
            problems.append(str(error))
    return problems


def _file_problems(passages: PassageStore) -> Iterator[str]:
    for (message,) in passages.rows("PRAGMA quick_check(10)"):
        if message != "ok":
            yield f"{passages.path} is damaged ({message}): restore it, or build again in another folder."


def _count_problems(manifest: Manifest, passages: PassageStore) -> Iterator[str]:
    for name, listed, held in (
        ("records", manifest.records, _count(passages, "records")),
        ("passages", manifest.passages, _count(passages, "passages")),
        ("passages of retracted records", manifest.retracted, _count(passages, "passages WHERE retracted = 1")),
        ("passages that are not indexed", 0, _count(passages, f"passages WHERE number > {passages.mark(INDEXED)}")),
        ("vectors of passages", manifest.passages, _count(passages, "vectors")),
    ):
        if listed != held:
            yield f"There are {held:,} {name}, and there should be {listed:,}: {REMEDY}."
    counts = Counts.total(source.counts for source in manifest.sources)
    if counts.read != counts.indexed + counts.updated + counts.unchanged + counts.deleted + counts.rejected:
        yield f"What became of the {counts.read:,} records that were read does not add up ({counts})."
    if counts.indexed - counts.deleted != manifest.records:
        yield f"The sources left {counts.indexed - counts.deleted:,} records, and {manifest.records:,} are listed."


def _vector_problems(vectors: VectorStore, passages: PassageStore, encoder: "Encoder") -> Iterator[str]:
    count, held = vectors.count(), _count(passages, "passages")
    if count != held:
        yield f"The vector index holds {count:,} vectors, and there are {held:,} passages: {REMEDY}."
    sample = passages.sample(SAMPLE)
    numbers = [passage.number for passage in sample]
    documents, indexed = passages.fetch_numbers(numbers), vectors.get(numbers)
    encoded = encoder.encode_passages([title_and_text(passage.title, passage.text) for passage in sample])
    for passage, now in zip(sample, encoded, strict=True):
        problem = _vector_problem(passage, indexed.get(passage.number), now)
        if problem is not None:
            yield f"The passage {documents[passage.number].id!r} {problem}."


def _vector_problem(
    passage: EncodablePassage, indexed: NDArray[np.float32] | None, encoded: NDArray[np.float32]
) -> str | None:
    if passage.vector is None or indexed is None:
        return f"has no vector: {REMEDY}"
    if not np.allclose(passage.vector, indexed, rtol=1e-4, atol=1e-6):
        return f"has another vector in the index than the one kept: {REMEDY}"
    likeness = float(encoded @ passage.vector / np.linalg.norm(encoded) / np.linalg.norm(passage.vector))
    if likeness < LEAST_LIKENESS:
        return f"has a vector that its text no longer gives (cosine {likeness:.3f}): build again with this encoder"
    return None


def _count(passages: PassageStore, what: str) -> int:
    return int(passages.value(f"SELECT count(*) FROM main.{what}"))
