"""Accuracy of dense, BM25 and hybrid retrieval on BioASQ's yes/no questions and PubMedQA.

Each is measured with and without distractors. hit@k is the share of questions with at least one
gold passage among the first k; recall@16 is the mean share of a question's gold passages among the
first 16. Encoding 24,000 passages takes half an hour on two cores with minilm, and hours with e5.

    python benchmarks/retrieval.py [--data ../shared/data] [--encoder e5] [--cache DIR]
        [--json FILE]
"""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from parts.corpora import CachedEncoder, Corpus, read_bioasq, read_distractors, read_pubmedqa
from parts.report import Row, options, show, write

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.knowledge_base import retriever_over

METHODS = ("dense", "bm25", "hybrid")
DEPTHS = (1, 3, 16)


def quality(
    corpora: Sequence[Corpus], distractors: list[Document], encoder: Any, folder: Path
) -> list[Row]:
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
                        [
                            passage.id or ""
                            for passage in retriever.invoke(question.text, k=max(DEPTHS))
                        ]
                        for question in corpus.questions
                    ]
                    row = {
                        "corpus": corpus.name,
                        "passages": len(base),
                        "questions": len(found),
                        "retriever": method,
                    }
                    rows.append(row | hits(corpus, found))
    return rows


def hits(corpus: Corpus, found: list[list[str]]) -> Row:
    """Return the measures of the retrieved ids for each question of a corpus."""
    pairs = [(question.gold, ids) for question, ids in zip(corpus.questions, found, strict=True)]
    return {
        **{
            f"hit@{k}": statistics.fmean(not gold.isdisjoint(ids[:k]) for gold, ids in pairs)
            for k in DEPTHS
        },
        "recall@16": statistics.fmean(
            len(gold.intersection(ids[:16])) / len(gold) for gold, ids in pairs
        ),
    }


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = options(__doc__, "--data", "--cache", "--json")
    parser.add_argument("--encoder", default="e5", help="%(default)s")
    given = parser.parse_args()
    bioasq, pubmedqa, distractors = (
        read(given.data) for read in (read_bioasq, read_pubmedqa, read_distractors)
    )
    with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
        work = Path(folder)
        encoder = CachedEncoder(load_encoder(given.encoder), given.cache or work / "cache")
        rows = quality((bioasq, pubmedqa), distractors, encoder, work)
    show("quality", rows)
    write(given.json, rows)


if __name__ == "__main__":
    main()
