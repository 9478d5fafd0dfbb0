"""What dense, BM25 and hybrid retrieval find."""

import statistics

from retrieval_parts.bench import Bench, Report, Row
from retrieval_parts.corpora import Corpus

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.knowledge_base import BM25Retriever, DenseRetriever, HybridRetriever

DEPTHS = (1, 3, 16)


def quality(bench: Bench) -> Report:
    """Ask all questions of each corpus, with and without distractors."""
    rows = []
    for alone in (bench.bioasq, bench.pubmedqa):
        for corpus in (alone, alone.among(bench.distractors)):
            folder = bench.folder / corpus.name
            build_knowledge_base(corpus.passages, folder, encoder=bench.encoder)
            bench.encoder.encode_queries([question.text for question in corpus.questions])
            with KnowledgeBase.open(folder, encoder=bench.encoder) as base:
                dense, bm25 = DenseRetriever(knowledge_base=base), BM25Retriever(knowledge_base=base)
                hybrid = HybridRetriever(retrievers=[dense, bm25])
                for name, retriever in (("dense", dense), ("BM25", bm25), ("hybrid", hybrid)):
                    found = [
                        [passage.id or "" for passage in retriever.invoke(question.text, k=max(DEPTHS))]
                        for question in corpus.questions
                    ]
                    row = {"corpus": corpus.name, "passages": len(base), "questions": len(found), "retriever": name}
                    rows.append(row | hits(corpus, found))
    measures = {**{f"hit@{k}": ".1%" for k in DEPTHS}, "recall@16": ".1%"}
    return Report(
        "Quality: hit@k = share of questions with at least one gold passage among the first k",
        {"corpus": "", "passages": ",", "questions": ",", "retriever": "", **measures},
        rows,
    )


def hits(corpus: Corpus, found: list[list[str]]) -> Row:
    """The measures of what was found, the ids of passages for each question of a corpus."""
    pairs = [(question.gold, ids) for question, ids in zip(corpus.questions, found, strict=True)]
    return {
        **{f"hit@{k}": statistics.mean(not gold.isdisjoint(ids[:k]) for gold, ids in pairs) for k in DEPTHS},
        "recall@16": statistics.mean(len(gold.intersection(ids[:16])) / len(gold) for gold, ids in pairs),
    }
