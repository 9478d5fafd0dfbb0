"""What retrieval finds, and how fast a knowledge base is built beside the bare encoder.

- build: passages a second of `build_knowledge_base`, from documents in memory to a base ready for questions, against
  the bare encoder on the same passages, in turn. The CPU ratio compares CPU seconds, which other work on the machine
  disturbs less, and which hide no waiting.
- quality: dense (minilm), BM25 and hybrid retrieval on BioASQ's yes/no questions and on PubMedQA, with and without
  distractors. hit@k is the share of questions with at least one gold passage among the first k; recall@16 is the mean
  share of a question's gold passages among the first 16.

How long searches take, and in how much memory, is for `store.py`. In full this encodes some 24,000 passages: half an
hour on two cores. The ratios stand when the machine does other work, the absolute figures do not.

    python benchmarks/retrieval.py [--data ../shared/data] [--cache DIR] [--json FILE]
"""

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from parts.corpora import CachedEncoder, Corpus, read_bioasq, read_distractors, read_pubmedqa
from parts.report import Row, options, show, write

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.knowledge_base import retriever_over

METHODS = ("dense", "bm25", "hybrid")
DEPTHS = (1, 3, 16)
SNIPPETS = 2048
"""Short passages in one build; one of abstracts has half as many."""
ROUNDS = 2


def build_rate(snippets: list[Document], abstracts: list[Document], encoder: Encoder, folder: Path) -> list[Row]:
    """Encode and build in turn, each round with passages of its own."""
    rows = []
    for name, passages, count in (("snippets", snippets, SNIPPETS), ("abstracts", abstracts, SNIPPETS // 2)):
        # The first build loads Lance.
        build_knowledge_base(passages[:16], folder / f"{name} first", encoder=encoder)
        total: Counter[str] = Counter()
        for number in range(ROUNDS):
            some = passages[number * count : (number + 1) * count]
            total["passages"] += len(some)
            # Which of the two goes first changes, so that neither has the quieter half of every round.
            for what in ("bare", "build") if number % 2 else ("build", "bare"):
                started, cpu = time.perf_counter(), time.process_time()
                if what == "build":
                    build_knowledge_base(some, folder / f"{name} {number}", encoder=encoder)
                else:
                    encoder.encode_passages([title_and_text(passage) for passage in some])
                total[f"{what}_s"] += time.perf_counter() - started
                total[f"{what}_cpu_s"] += time.process_time() - cpu
        rates = {
            "bare/s": total["passages"] / total["bare_s"],
            "build/s": total["passages"] / total["build_s"],
            "ratio": total["bare_s"] / total["build_s"],
            "CPU ratio": total["bare_cpu_s"] / total["build_cpu_s"],
        }
        rows.append({"texts": f"{ROUNDS} x {count:,} {name}", **rates, **total})
    return rows


def quality(corpora: Sequence[Corpus], distractors: list[Document], encoder: Any, folder: Path) -> list[Row]:
    """Ask all questions of each corpus, with and without distractors."""
    rows = []
    for alone in corpora:
        for corpus in (alone, alone.among(distractors)):
            build_knowledge_base(corpus.passages, folder / corpus.name, encoder=encoder)
            encoder.encode_queries([question.text for question in corpus.questions])
            with KnowledgeBase.open(folder / corpus.name, encoder=encoder) as base:
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


FORMS = dict.fromkeys(("bare/s", "build/s"), ".1f")


def main() -> None:
    """Measure, print the tables, and write the figures."""
    given = options(__doc__, "--data", "--cache", "--json").parse_args()
    bioasq, pubmedqa, distractors = (read(given.data) for read in (read_bioasq, read_pubmedqa, read_distractors))
    encoder = load_encoder("minilm")
    with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
        work = Path(folder)
        figures = {"build": build_rate(bioasq.passages, distractors, encoder, work)}
        show("build", figures["build"], FORMS, ".2f")
        cached = CachedEncoder(encoder, given.cache or work / "cache")
        figures["quality"] = quality((bioasq, pubmedqa), distractors, cached, work)
    show("quality", figures["quality"])
    write(given.json, figures)


if __name__ == "__main__":
    main()
