"""Verification that the parts of a knowledge base agree."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.store import indexes
from briefcontext.knowledge.store.manifest import PASSAGES, RECORDS, Counts, Manifest, unfinished
from briefcontext.knowledge.store.passages import stored_vectors
from briefcontext.knowledge.store.table import Table

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

SAMPLE = 32
"""Passages, spread evenly, whose vectors are looked at."""

LEAST_LIKENESS = 0.99
"""Cosine similarity of a kept vector and the same text encoded now: half precision and other devices lower it."""

REMEDY = "run the index command again"


def verify(manifest: Manifest, encoder: "Encoder") -> list[str]:
    """Return what is wrong with a published state, one sentence each, with what to do; nothing when it is sound.

    Reads the whole table of passages, compares what is counted in the tables, the indexes and the manifest, and
    encodes a few passages again.
    """
    if Manifest.draft(manifest.place) is not None:
        return [
            f"An update of {manifest.place} is not complete, and questions are answered from the state before it: "
            f"wait until it has ended, or {REMEDY} to finish it."
        ]
    problems = [f"The source {name!r} was read in part only: index it again." for name in unfinished(manifest.sources)]
    try:
        passages, records = manifest.table(PASSAGES), manifest.table(RECORDS)
        problems += _count_problems(manifest, passages, records)
        problems += [
            f"The index of {column} has {held:,} of {len(passages):,} passages: {REMEDY}."
            for column, held in indexes.indexed(passages).items()
            if held < len(passages)
        ]
        problems += search_problems(manifest, passages)
        if len(passages):
            problems += _sample_problems(passages, encoder)
    except KnowledgeBaseError as error:
        problems.append(str(error))
    return problems


def search_problems(manifest: Manifest, passages: Table) -> list[str]:
    """Return what is wrong with vectors that are searched elsewhere than in the table of passages.

    Raises KnowledgeBaseError where what is searched cannot be read at all.
    """
    indexes.check(passages, manifest.encoder.metric if manifest.store is None else None)
    if manifest.store is None:
        return []
    from briefcontext.knowledge.store.chroma import problems

    return problems(manifest, passages)


def _count_problems(manifest: Manifest, passages: Table, records: Table) -> Iterator[str]:
    readable = sum(len(page) for page in passages.pages(passages.data.schema.names))
    for name, listed, held in (
        ("records", manifest.records, records.count("NOT deleted")),
        ("passages", manifest.passages, readable),
        ("passages of retracted records", manifest.retracted, passages.count("retracted")),
    ):
        if listed != held:
            yield f"There are {held:,} {name}, and there should be {listed:,}: {REMEDY}."
    counts = Counts.total(source.counts for source in manifest.sources)
    if counts.read != counts.indexed + counts.updated + counts.unchanged + counts.deleted + counts.rejected:
        yield f"What became of the {counts.read:,} records that were read does not add up ({counts})."
    if counts.indexed - counts.deleted != manifest.records:
        yield f"The sources left {counts.indexed - counts.deleted:,} records, and {manifest.records:,} are listed."


def _sample_problems(passages: Table, encoder: "Encoder") -> Iterator[str]:
    size = len(passages)
    places = sorted({size * step // SAMPLE for step in range(SAMPLE)})
    rows = passages.take(places, ["id", "title", "text", "vector"])
    texts = zip(rows["title"].to_pylist(), rows["text"].to_pylist(), strict=True)
    encoded = encoder.encode_passages([title_and_text(title, text) for title, text in texts])
    for id, held, now in zip(rows["id"].to_pylist(), stored_vectors(rows["vector"]), encoded, strict=True):
        likeness = float(now @ held / np.linalg.norm(now) / np.linalg.norm(held))
        # Also where it is not a number.
        if not likeness >= LEAST_LIKENESS:
            yield (
                f"The passage {id!r} has a vector that its text no longer gives (cosine {likeness:.3f}): build again "
                "with this encoder."
            )
