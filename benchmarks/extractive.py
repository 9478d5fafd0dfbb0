"""How well the reader without a model answers, and whether it abstains where the documents do not answer.

It copies sentences, so what is measured is which. All settings are the defaults; the passages are 24,000 of BioASQ,
PubMedQA and other collections, encoded by minilm.

- BioASQ, PubMedQA and the demo's questions: of those answered, first = the first sentence comes from a gold document,
  cited = the share of gold among the documents cited; finding = the first sentence stands among the results or
  conclusions of its abstract, and not its background, aim or methods (PubMedQA's abstracts are labelled, and the reader
  sees no labels); findings = the share of all sentences that do; found = a gold document is among the 16 retrieved, and
  no reader can do more; missed = the share of these that are refused, as where none is found, abstaining is right.
  "gold out" asks the same with the gold documents taken out, and the demo's questions that have none: the more
  abstentions, the better, but some of these questions are answered by documents that nobody marked.
- "others, demo": those on BioASQ and PubMedQA, asked of the demo's base, which answers next to none of them.
- Evidence Inference: the whole text of a trial is read; first = the first sentence overlaps an annotated one. "another
  trial" asks the same of another text.

Half of the questions, by their ids, were seen when the reader's constants were chosen (tuned); the figures to quote are
those of the other half (held out).

    python benchmarks/extractive.py [--data ../shared/data] [--questions 300] [--trials 40] [--cache DIR] [--json FILE]

It encodes the passages and the sentences of those retrieved: half an hour on two cores; with --cache only once.
"""

import re
import statistics
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from parts.corpora import CachedEncoder, Question, Spans, overlaps, read_passages, read_questions, read_rows
from parts.report import Row, options, show, write
from pydantic import SkipValidation

from briefcontext.chains.answer import Answer
from briefcontext.chains.extractive_reader import ExtractiveReader
from briefcontext.graphs.graph import build_graph
from briefcontext.knowledge import demo_questions
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.knowledge_base import DenseRetriever
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.sentence_ranking import SentenceRanker

HALVES = ("tuned", "held out")
FINDING = re.compile("RESULT|FINDING|CONCLUSION|DISCUSSION|INTERPRETATION")


class WithoutGold(RankingRetriever):
    """Retrieves as another retriever does, as if some sources were not there."""

    retriever: RankingRetriever
    left_out: SkipValidation[dict[str, frozenset[str]]]
    """For each question, the sources to leave out."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those of the retriever behind."""
        return self.retriever.term_statistics

    def _search(self, query: str, k: int, filters: Filters, config: RunnableConfig) -> list[Document]:
        left_out = self.left_out[query]
        found = self.retriever.invoke(query, k=k + len(left_out), filters=filters)
        return [document for document in found if document.metadata["source_id"] not in left_out][:k]


def outcome(
    answer: Answer, *, found: bool, first: bool, cited: float | None = None, findings: Sequence[bool] = ()
) -> dict[str, Sequence[float]]:
    """What each measure says of an answer; `findings` tells of its sentences whether each reports a finding."""
    answered = not answer["abstained"]
    return {
        "abstained": [not answered],
        "sentences": [sum(len(citation["quotes"]) for citation in answer["citations"])] * answered,
        "found": [found],
        "missed": [not answered] * found,
        "first": [first] * answered,
        "cited": [] if cited is None else [cited],
        "finding": findings[:1],
        "findings": findings,
    }


def rows_of(group: str, documents: str, outcomes: Mapping[str, list[dict[str, Sequence[float]]]]) -> list[Row]:
    """The mean of each measure, by half; those that say nothing of a group are left out."""
    rows = []
    for half, some in outcomes.items():
        row: Row = {"questions on": group, "half": half, "documents": documents, "n": len(some)}
        for measure in some[0] if some else ():
            if measure == "found" and not any(one["found"][0] for one in some):
                break
            if values := [value for one in some for value in one[measure]]:
                row[measure] = statistics.fmean(values)
        rows += [row] if some else []
    return rows


def half_of(id: str) -> str:
    """Which half a question belongs to, whatever else is asked."""
    return HALVES[zlib.crc32(id.encode()) % 2]


def read_findings(path: Path) -> dict[str, Spans]:
    """Where the results and conclusions of abstracts stand, by PMID."""
    findings: dict[str, Spans] = {}
    for row in read_rows(path):
        at, places = 0, []
        for label, text in zip(row["labels"], row["sections"], strict=True):
            at = row["text"].index(text, at)
            places += [(at, at + len(text))] if FINDING.search(label) else []
            at += len(text)
        findings[row["id"]] = places
    return findings


def on_passages(
    group: str,
    questions: Iterable[Question],
    retriever: RankingRetriever,
    reader: Any,
    findings: Mapping[str, Spans],
) -> list[Row]:
    """Ask with the gold documents in the base, and without."""
    asked = list(questions)
    without = WithoutGold(retriever=retriever, left_out={question.text: question.gold for question in asked})
    rows = []
    for documents, searched in (("all", retriever), ("gold out", without)):
        graph = build_graph(reader=reader, retriever=searched)
        halves: dict[str, list[Any]] = {half: [] for half in HALVES}
        for question in asked:
            if documents == "all" and not question.gold:
                continue
            state = graph.invoke({"question": question.text}, output_keys=["answer", "ranking"])
            answer = state["answer"]
            retrieved = {document.metadata["source_id"] for document in state["ranking"]}
            cited = [citation["source_id"] in question.gold for citation in answer["citations"]]
            became = outcome(
                answer,
                found=not question.gold.isdisjoint(retrieved),
                first=bool(cited) and cited[0],
                cited=statistics.mean(cited) if cited and documents == "all" else None,
                findings=[
                    overlaps((quote["start"], quote["end"]), findings[citation["source_id"]])
                    for citation in answer["citations"]
                    if citation["source_id"] in findings
                    for quote in citation["quotes"]
                ],
            )
            halves[half_of(question.id)].append(became)
        rows += rows_of(group, documents, halves)
    return rows


def on_trials(data: Path, most: int, reader: Any) -> list[Row]:
    """Ask of the whole text of a trial, and of another one."""
    texts = {row["id"]: row for row in read_rows(data / "documents.jsonl.gz")}
    questions = list(read_rows(data / "questions.jsonl"))
    asked = list(dict.fromkeys(row["doc_id"] for row in questions))[:most]
    questions = [row for row in questions if row["doc_id"] in asked]
    graph = build_graph(reader=reader)
    rows = []
    for documents in ("all", "another trial"):
        halves: dict[str, list[Any]] = {half: [] for half in HALVES}
        for place, row in enumerate(questions):
            others = (other["doc_id"] for other in questions[place:] + questions[:place])
            wanted = row["doc_id"] if documents == "all" else next(id for id in others if id != row["doc_id"])
            text = texts[wanted]
            document = Document(id=wanted, page_content=text["text"], metadata={"title": text["title"]})
            answer = graph.invoke({"question": row["question"], "documents": [document]})["answer"]
            spans = [(span["start"], span["end"]) for span in row["evidence"]] if documents == "all" else []
            quotes = [quote for citation in answer["citations"] for quote in citation["quotes"]]
            first = any(overlaps((quote["start"], quote["end"]), spans) for quote in quotes[:1])
            became = outcome(answer, found=bool(spans), first=first)
            halves[half_of(row["doc_id"])].append(became)
        rows += rows_of("Evidence Inference", documents, halves)
    return rows


def on_demo(ranker: SentenceRanker, others: Iterable[Question]) -> list[Row]:
    """Ask the demo's questions, of which some have no answer in its base, and others, of which next to none has."""
    questions = [Question(row["id"], row["question"], frozenset(row["gold_ids"])) for row in demo_questions()]
    with KnowledgeBase.open("demo") as base:
        reader = ExtractiveReader(partial(ranker.rank, statistics=base.term_statistics))
        retriever = DenseRetriever(knowledge_base=base)
        foreign = [Question(question.id, question.text, frozenset()) for question in others]
        rows = on_passages("demo", questions, retriever, reader, {})
        return rows + on_passages("others, demo", foreign, retriever, reader, {})


def measure(data: Path, most: int, trials: int, cache: Path, work: Path) -> list[Row]:
    """All rows of the table."""
    encoder: Any = CachedEncoder(load_encoder("minilm"), cache)
    ranker = SentenceRanker(encoder)
    build_knowledge_base(read_passages(data), work / "base", encoder=encoder)
    with KnowledgeBase.open(work / "base", encoder=encoder) as base:
        retriever = DenseRetriever(knowledge_base=base)
        reader = ExtractiveReader(partial(ranker.rank, statistics=base.term_statistics))
        rows: list[Row] = []
        asked: list[Question] = []
        findings = read_findings(data / "pubmedqa" / "corpus.jsonl.gz")
        for group in ("BioASQ", "PubMedQA"):
            questions = read_questions(data, group.lower())
            encoder.encode_queries([question.text for question in questions])
            # Neighbours in the file are of one year's batch.
            questions.sort(key=lambda question: zlib.crc32(question.text.encode()))
            known_findings = findings if group == "PubMedQA" else {}
            rows += on_passages(group, questions[:most], retriever, reader, known_findings)
            asked += questions[:most]
    rows += on_trials(data / "evidence_inference", trials, ExtractiveReader(ranker.rank))
    return rows + on_demo(ranker, asked)


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = options(__doc__, "--data", "--cache", "--json")
    parser.add_argument("--questions", type=int, default=300, help="of BioASQ and of PubMedQA: %(default)s")
    parser.add_argument("--trials", type=int, default=40, help="of Evidence Inference: %(default)s")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="extractive-") as folder:
        work = Path(folder)
        rows = measure(given.data, given.questions, given.trials, given.cache or work / "cache", work)
    show("Answers without a model", rows, {"sentences": ".1f"})
    write(given.json, rows)


if __name__ == "__main__":
    main()
