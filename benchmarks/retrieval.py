"""What retrieval finds, and how fast a knowledge base is built beside the bare encoder.

- build: passages a second of `build_knowledge_base`, from documents in memory to a base ready for questions, against
  the bare encoder on the same passages, in turn. The CPU ratio compares CPU seconds, which other work on the machine
  disturbs less, and which hide no waiting. encoding is the share of the build in the encoder, after that behind its
  last call.
- quality: dense (minilm), BM25 and hybrid retrieval on BioASQ's yes/no questions and on PubMedQA, with and without
  distractors. hit@k is the share of questions with at least one gold passage among the first k; recall@16 is the mean
  share of a question's gold passages among the first 16.

How long searches take, and in how much memory, is for `store.py`. In full this encodes some 24,000 passages: half an
hour on two cores. The ratios stand when the machine does other work, the absolute figures do not.

    python benchmarks/retrieval.py [--data ../shared/data] [--quick] [--parts build,quality] [--cache DIR] [--json FILE]
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from parts.corpora import (
    CachedEncoder,
    Corpus,
    WrappedEncoder,
    read_bioasq,
    read_distractors,
    read_pubmedqa,
    titled_texts,
)
from parts.report import Row, options, show, write

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.knowledge_base import retriever_over

METHODS = ("dense", "bm25", "hybrid")
DEPTHS = (1, 3, 16)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured with, and how much of it."""

    bioasq: Corpus
    pubmedqa: Corpus
    distractors: list[Document]
    encoder: CachedEncoder
    folder: Path
    snippets: int
    """Short passages in one build; one of abstracts has half as many."""
    rounds: int


class TimedEncoder(WrappedEncoder):
    """Adds up the time that it is in use."""

    seconds = 0.0
    finished = 0.0
    """When its last call ended."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        started = time.perf_counter()
        vectors: NDArray[np.float32] = self.encoder.encode_passages(passages)
        self.finished = time.perf_counter()
        self.seconds += self.finished - started
        return vectors


def build_rate(bench: Bench) -> list[Row]:
    """Encode and build in turn, each round with passages of its own."""
    rows = []
    for name, passages, count in (
        ("snippets", bench.bioasq.passages, bench.snippets),
        ("abstracts", bench.distractors, bench.snippets // 2),
    ):
        # The first build loads Lance.
        _build(bench, passages[:16], f"{name} first")
        rounds = []
        for number in range(bench.rounds):
            some = passages[number * count : (number + 1) * count]
            measured: Row = {"passages": len(some)}
            # Which of the two goes first changes, so that neither has the quieter half of every round.
            for what in ("bare", "build") if number % 2 else ("build", "bare"):
                started, cpu = time.perf_counter(), time.process_time()
                if what == "build":
                    measured |= _build(bench, some, f"{name} {number}")
                else:
                    bench.encoder.encoder.encode_passages(titled_texts(some))
                measured[f"{what}_s"] = time.perf_counter() - started
                measured[f"{what}_cpu_s"] = time.process_time() - cpu
            rounds.append(measured)
        rows.append({"texts": f"{len(rounds)} x {count:,} {name}", **rates(rounds), "rounds": rounds})
    return rows


def rates(rounds: list[Row]) -> Row:
    """The rates over all rounds, and the ratios of build to bare."""
    total = {name: sum(measured[name] for measured in rounds) for name in rounds[0]}
    return {
        "bare/s": total["passages"] / total["bare_s"],
        "build/s": total["passages"] / total["build_s"],
        "ratio": total["bare_s"] / total["build_s"],
        "CPU ratio": total["bare_cpu_s"] / total["build_cpu_s"],
        "encoding": total["encoding_s"] / total["build_s"],
        "after": total["after_s"] / total["build_s"],
    }


def _build(bench: Bench, passages: list[Document], name: str) -> Row:
    encoder: Any = TimedEncoder(bench.encoder.encoder)
    build_knowledge_base(passages, bench.folder / name, encoder=encoder)
    return {"encoding_s": encoder.seconds, "after_s": time.perf_counter() - encoder.finished}


def quality(bench: Bench) -> list[Row]:
    """Ask all questions of each corpus, with and without distractors."""
    rows = []
    encoder: Any = bench.encoder
    for alone in (bench.bioasq, bench.pubmedqa):
        for corpus in (alone, alone.among(bench.distractors)):
            folder = bench.folder / corpus.name
            build_knowledge_base(corpus.passages, folder, encoder=encoder)
            encoder.encode_queries([question.text for question in corpus.questions])
            with KnowledgeBase.open(folder, encoder=encoder) as base:
                for method in METHODS:
                    retriever = retriever_over(base, method)
                    found = [
                        [passage.id or "" for passage in retriever.invoke(question.text, k=max(DEPTHS))]
                        for question in corpus.questions
                    ]
                    row = {"corpus": corpus.name, "passages": len(base), "questions": len(found), "retriever": method}
                    rows.append(row | hits(corpus, found))
    return rows


def hits(corpus: Corpus, found: list[list[str]]) -> Row:
    """The measures of what was found, the ids of passages for each question of a corpus."""
    pairs = [(question.gold, ids) for question, ids in zip(corpus.questions, found, strict=True)]
    return {
        **{f"hit@{k}": statistics.fmean(not gold.isdisjoint(ids[:k]) for gold, ids in pairs) for k in DEPTHS},
        "recall@16": statistics.fmean(len(gold.intersection(ids[:16])) / len(gold) for gold, ids in pairs),
    }


FULL, QUICK = (1000, 100_000, 100_000, 2048, 2), (25, 200, 60, 96, 1)
"""Questions and passages of a data set, distractors, snippets in a build, and builds."""
PARTS = {"build": build_rate, "quality": quality}
FORMS = {**dict.fromkeys(("bare/s", "build/s"), ".1f"), "ratio": ".2f", "CPU ratio": ".2f"}


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = options(__doc__, "--data", "--cache", "--json")
    parser.add_argument("--quick", action="store_true", help="a minute or two; the figures mean little")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, with commas: %(default)s")
    given = parser.parse_args()
    wanted = given.parts.split(",")
    if unknown := set(wanted).difference(PARTS):
        parser.error(f"there is no part {min(unknown)!r}: use some of {','.join(PARTS)}")
    questions, passages, distractors, snippets, rounds = QUICK if given.quick else FULL
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
        bench = Bench(
            bioasq=read_bioasq(given.data).cut(questions, passages),
            pubmedqa=read_pubmedqa(given.data).cut(questions, passages),
            distractors=read_distractors(given.data)[:distractors],
            encoder=CachedEncoder(load_encoder("minilm"), given.cache or Path(folder) / "cache"),
            folder=Path(folder),
            snippets=snippets,
            rounds=rounds,
        )
        for part in (part for part in PARTS if part in wanted):
            figures[part] = PARTS[part](bench)
            show(part, figures[part], FORMS)
            write(given.json, figures)  # After each part, so that a run that is stopped leaves what it has.


if __name__ == "__main__":
    main()
