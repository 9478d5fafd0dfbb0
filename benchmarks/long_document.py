"""Answers from one long document: questions on Evidence Inference's annotated trial reports.

For each question: whether a retrieved chunk contains an annotated span (chunk hit), whether the
first excerpt of the passage reader overlaps one (hit@1), whether one of its excerpts does (hit@4),
and whether the reader abstains, although every document answers its questions.

    python benchmarks/long_document.py [--data ../shared/data] [--documents 30]
        [--methods dense hybrid] [--json FILE]
"""

import random
import time
from typing import Any

from langchain_core.documents import Document
from parts.corpora import overlaps, read_rows
from parts.report import options, show, write

from briefcontext.chains.passage_reader import PassageReader
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.retrievers.knowledge_base import retriever_over
from briefcontext.retrievers.long_document import LongDocumentRetriever
from briefcontext.retrievers.passage_ranking import PassageRanker
from briefcontext.retrievers.ranking_retriever import RankingRetriever

MEASURES = ("chunk hit", "hit@1", "hit@4", "wrong abstention")


def main() -> None:
    """Print the share of questions by measure, for each search method."""
    parser = options(__doc__, "--data", "--json")
    parser.add_argument("--documents", type=int, default=120, help="how many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", default="e5")
    parser.add_argument("--methods", nargs="+", default=["dense", "bm25", "hybrid"])
    asked = parser.parse_args()
    documents = list(read_rows(asked.data / "evidence_inference" / "documents.jsonl.gz"))
    questions = list(read_rows(asked.data / "evidence_inference" / "questions.jsonl"))
    documents = random.Random(asked.seed).sample(documents, min(asked.documents, len(documents)))
    encoder = load_encoder(asked.encoder)
    found: dict[str, list[list[bool]]] = {method: [] for method in asked.methods}
    began = time.monotonic()
    for row in documents:
        metadata = {"source_id": str(row["id"]), "title": row["title"], "kind": "text"}
        document = Document(id=str(row["id"]), page_content=row["text"], metadata=metadata)
        retriever = LongDocumentRetriever.from_document(document, encoder)
        for method in asked.methods:
            searched = retriever_over(retriever, method)
            ranker = PassageRanker(encoder=encoder.name)
            graph = build_graph(reader=PassageReader(ranker), retriever=searched)
            for question in (question for question in questions if question["doc_id"] == row["id"]):
                found[method].append(_measured(graph, searched, question))
    rows = []
    for method, hits in found.items():
        shares = (sum(hit) / len(hits) for hit in zip(*hits, strict=True))
        rows.append({"method": method, **dict(zip(MEASURES, shares, strict=True))})
    asked_of_all = len(next(iter(found.values())))
    show(
        f"{len(documents)} documents, {asked_of_all} questions, {time.monotonic() - began:.0f} s",
        rows,
    )
    write(asked.json, rows)


def _measured(graph: Any, retriever: RankingRetriever, question: dict[str, Any]) -> list[bool]:
    """Return the measures of a question, by `MEASURES`."""
    answer = graph.invoke(
        {"question": question["question"]}, context=Settings(route="order_preserving")
    )["answer"]
    spans = [(span["start"], span["end"]) for span in question["evidence"]]
    chunks = {str(chunk.id): chunk.metadata for chunk in retriever.invoke(question["question"])}
    places = {}
    for citation in answer["citations"]:
        for quote in citation["quotes"]:
            start = chunks[quote["document_id"]]["start"]
            places[" ".join(quote["text"].split())] = (start + quote["start"], start + quote["end"])
    # The answer has the sentences in the order of its ranking; citations are by document.
    text = " ".join(answer["text"].split())
    hits = [overlaps(places[quote], spans) for quote in sorted(places, key=text.find)]
    found = any(overlaps((chunk["start"], chunk["end"]), spans) for chunk in chunks.values())
    return [found, any(hits[:1]), any(hits[:4]), answer["abstained"]]


if __name__ == "__main__":
    main()
