"""What the parts of the retrieval benchmark share: sizes, data, knowledge bases, and the form of their results."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from retrieval_parts import isolated
from retrieval_parts.corpora import (
    CachedEncoder,
    SyntheticCorpus,
    read_bioasq,
    read_distractors,
    read_pubmedqa,
    titled_texts,
)

from briefcontext.knowledge.encoders import load_encoder

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one part."""

    title: str
    columns: dict[str, str]
    """The columns to show of the rows, each with the format of its numbers; "" for words."""
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    questions: int
    """At most so many of each data set; and of passages and distractors likewise."""
    passages: int
    distractors: int
    build_snippets: int
    """Short passages in one build; one of abstracts has half as many."""
    build_rounds: int
    real: int
    """Passages that a synthetic corpus is made of, half of them short and half abstracts."""
    synthetic: tuple[int, ...]
    """Passages in the synthetic corpora."""
    queries: int
    slow_queries: int
    """For rank_bm25."""


FULL = Sizes(
    questions=1000,
    passages=100_000,
    distractors=100_000,
    build_snippets=2048,
    build_rounds=2,
    real=5000,
    synthetic=(10_000, 30_000, 180_000),
    queries=100,
    slow_queries=10,
)
QUICK = Sizes(
    questions=25,
    passages=200,
    distractors=60,
    build_snippets=96,
    build_rounds=1,
    real=100,
    synthetic=(1000, 3000),
    queries=20,
    slow_queries=5,
)


@dataclass(frozen=True, slots=True)
class SyntheticBase:
    """A synthetic corpus and the knowledge base made of it."""

    corpus: SyntheticCorpus
    folder: Path
    built: Row
    """How fast it was built, and in how much memory."""


class Bench:
    """Data and knowledge bases, each read or made when first needed."""

    def __init__(self, data: Path, folder: Path, cache: Path, sizes: Sizes) -> None:
        self.folder = folder
        self.sizes = sizes
        self.encoder = CachedEncoder(load_encoder("minilm"), cache)
        self.distractors = read_distractors(data)[: sizes.distractors]
        self.bioasq = read_bioasq(data).cut(sizes.questions, sizes.passages)
        self.pubmedqa = read_pubmedqa(data).cut(sizes.questions, sizes.passages)

    @cached_property
    def synthetic(self) -> list[SyntheticBase]:
        """One of each size, from the smallest."""
        half = self.sizes.real // 2
        passages = self.bioasq.passages[:half] + self.distractors[:half]
        vectors = self.encoder.encode_passages(titled_texts(passages))
        made = []
        for size in self.sizes.synthetic:
            corpus = SyntheticCorpus(size, self.encoder.dimension, self.folder / f"corpus-{size}")
            corpus.write(passages, vectors)
            folder = self.folder / f"base-{size}"
            made.append(SyntheticBase(corpus, folder, isolated.run(isolated.build_given, corpus, folder)))
        return made

    @cached_property
    def queries(self) -> list[str]:
        """Questions to search the synthetic corpora for."""
        return [question.text for question in self.bioasq.questions[: self.sizes.queries]]
