"""How well the reader without a model answers, and whether it abstains where the documents do not answer.

It copies sentences, so what is measured is which. All settings are the defaults; the passages are 24,000 of BioASQ,
PubMedQA and other collections, encoded by minilm.

- BioASQ, PubMedQA and the demo's questions: of those answered, first = the first sentence comes from a gold document,
  cited = the share of gold among the documents cited; finding = the first sentence stands among the results or
  conclusions of its abstract, and not its background, aim or methods (PubMedQA's abstracts are labelled, and the reader
  sees no labels); findings = the share of all sentences that do; found = a gold document is among the 16 retrieved, and
  no reader can do more; missed = the share of these that are refused, as where none is found, abstaining is right.
  "gold out" asks the same with the gold documents taken out, and the demo's questions that have none: the more
  abstentions, the better, but some of these questions are answered by documents that nobody marked. warned = the share
  of answers with the caution that a passage cited does not mention words of the question; rightly = of those whose
  first sentence is from no gold document.
- "others, demo": those on BioASQ and PubMedQA, asked of the demo's base, which answers next to none of them.
- Evidence Inference: the whole text of a trial is read; first = the first sentence overlaps an annotated one. "another
  trial" asks the same of another text.

Half of the questions, by their ids, were seen when the reader's constants were chosen (tuned); the figures to quote are
those of the other half (held out).

    python benchmarks/extractive.py [--data ../shared/data] [--questions 300] [--trials 40] [--cache DIR] [--json FILE]

It encodes the passages and the sentences of those retrieved: half an hour on two cores; with --cache only once.
"""

import argparse
import gzip
import json
import re
import statistics
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from pydantic import SkipValidation
from retrieval_parts.corpora import UNSAFE_DISTRACTORS, CachedEncoder, read_bioasq, read_distractors, read_pubmedqa
from rich.console import Console
from rich.table import Table

from briefcontext.chains.answer import Answer
from briefcontext.chains.extractive_reader import ExtractiveReader
from briefcontext.chains.reader import Quote
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.nodes import CITED_UNMENTIONED
from briefcontext.knowledge import demo_knowledge_base, demo_questions
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.knowledge_base import DenseRetriever
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.sentence_ranking import SentenceRanker

HALVES = ("tuned", "held out")
WARNING = CITED_UNMENTIONED.partition("{")[0]
FINDING = re.compile("RESULT|FINDING|CONCLUSION|DISCUSSION|INTERPRETATION")
Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question on the passages, and the sources that answer it."""

    id: str
    text: str
    gold: frozenset[str]


class WithoutGold(RankingRetriever):
    """Retrieves as another retriever does, as if some sources were not there."""

    retriever: RankingRetriever
    left_out: SkipValidation[dict[str, frozenset[str]]]
    """For each question, the sources to leave out."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Those of the retriever behind."""
        return self.retriever.term_statistics

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        left_out = self.left_out[query]
        found = self.retriever.invoke(query, k=k + len(left_out), filters=filters)
        return [document for document in found if document.metadata["source_id"] not in left_out][:k]


class Outcomes:
    """What became of a group of questions."""

    def __init__(self, group: str, half: str, documents: str) -> None:
        self.names = {"questions on": group, "half": half, "documents": documents}
        self.abstained: list[bool] = []
        self.found: list[bool] = []
        self.first: list[bool] = []
        self.warned: list[bool] = []
        self.cited: list[float] = []
        self.finding: list[bool] = []
        self.findings: list[bool] = []
        self.lengths: list[int] = []

    def add(
        self, answer: Answer, *, found: bool, first: bool, cited: float | None = None, findings: Sequence[bool] = ()
    ) -> None:
        """Record an answer; `findings` tells of its sentences, in order, whether each reports a finding."""
        self.abstained.append(answer["abstained"])
        self.found.append(found)
        if not answer["abstained"]:
            self.first.append(first)
            self.warned.append(any(caution.startswith(WARNING) for caution in answer["cautions"]))
            self.lengths.append(sum(len(citation["quotes"]) for citation in answer["citations"]))
            if cited is not None:
                self.cited.append(cited)
            self.finding += findings[:1]
            self.findings += findings

    def row(self) -> dict[str, Any]:
        """The figures; those that say nothing of a group are left out."""
        row: dict[str, Any] = {**self.names, "n": len(self.abstained), "abstained": statistics.mean(self.abstained)}
        row["sentences"] = statistics.mean(self.lengths) if self.lengths else 0.0
        row["warned"] = statistics.mean(self.warned) if self.warned else 0.0
        if any(self.found):
            missed = [abstained for abstained, found in zip(self.abstained, self.found, strict=True) if found]
            row |= {"found": statistics.mean(self.found), "missed": statistics.mean(missed)}
            row |= {"first": statistics.mean(self.first)}
            wrong = [warned for warned, first in zip(self.warned, self.first, strict=True) if not first]
            row |= {"rightly": statistics.mean(wrong)} if wrong else {}
            row |= {"cited": statistics.mean(self.cited)} if self.cited else {}
            row |= {"finding": statistics.mean(self.finding)} if self.finding else {}
            row |= {"findings": statistics.mean(self.findings)} if self.findings else {}
        return row


def shown(column: str, value: object) -> str:
    """Write a figure for the table, shares in per cent."""
    if isinstance(value, float):
        return f"{value:.1f}" if column == "sentences" else f"{value:.1%}"
    return "" if value is None else str(value)


def half_of(id: str) -> str:
    """Which half a question belongs to, whatever else is asked."""
    return HALVES[zlib.crc32(id.encode()) % 2]


def read_questions(path: Path, gold: str) -> list[Question]:
    """Questions with all their gold documents; those with the same words share theirs."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    together: dict[str, set[str]] = {}
    for row in rows:
        together.setdefault(row["question"], set()).update(row[gold])
    return [Question(str(row["id"]), row["question"], frozenset(together[row["question"]])) for row in rows]


def read_findings(path: Path) -> dict[str, Spans]:
    """Where the results and conclusions of abstracts stand, by PMID."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    findings: dict[str, Spans] = {}
    for row in rows:
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
) -> list[Outcomes]:
    """Ask with the gold documents in the base, and without."""
    asked = list(questions)
    without = WithoutGold(retriever=retriever, left_out={question.text: question.gold for question in asked})
    outcomes = []
    for documents, searched in (("all", retriever), ("gold out", without)):
        graph = build_graph(reader=reader, retriever=searched)
        halves = {half: Outcomes(group, half, documents) for half in HALVES}
        for question in asked:
            if documents == "all" and not question.gold:
                continue
            state = graph.invoke({"question": question.text}, output_keys=["answer", "ranking"])
            answer = state["answer"]
            retrieved = {document.metadata["source_id"] for document in state["ranking"]}
            cited = [citation["source_id"] in question.gold for citation in answer["citations"]]
            halves[half_of(question.id)].add(
                answer,
                found=not question.gold.isdisjoint(retrieved),
                first=bool(cited) and cited[0],
                cited=statistics.mean(cited) if cited and documents == "all" else None,
                findings=[
                    overlaps(quote, findings[citation["source_id"]])
                    for citation in answer["citations"]
                    if citation["source_id"] in findings
                    for quote in citation["quotes"]
                ],
            )
        outcomes += [each for each in halves.values() if each.abstained]
    return outcomes


def on_trials(data: Path, most: int, reader: Any) -> list[Outcomes]:
    """Ask of the whole text of a trial, and of another one."""
    with gzip.open(data / "documents.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = {row["id"]: row for row in map(json.loads, file)}
    with (data / "questions.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    asked = list(dict.fromkeys(row["doc_id"] for row in rows))[:most]
    rows = [row for row in rows if row["doc_id"] in asked]
    graph = build_graph(reader=reader)
    outcomes = []
    for documents in ("all", "another trial"):
        halves = {half: Outcomes("Evidence Inference", half, documents) for half in HALVES}
        for place, row in enumerate(rows):
            others = (other["doc_id"] for other in rows[place:] + rows[:place])
            wanted = row["doc_id"] if documents == "all" else next(id for id in others if id != row["doc_id"])
            text = texts[wanted]
            document = Document(id=wanted, page_content=text["text"], metadata={"title": text["title"]})
            answer = graph.invoke({"question": row["question"], "documents": [document]})["answer"]
            spans = [(span["start"], span["end"]) for span in row["evidence"]] if documents == "all" else []
            halves[half_of(row["doc_id"])].add(answer, found=bool(spans), first=overlaps(first_quote(answer), spans))
        outcomes += list(halves.values())
    return outcomes


def first_quote(answer: Answer) -> Quote | None:
    """Return the answer's first sentence; None where it has none."""
    return next((quote for citation in answer["citations"] for quote in citation["quotes"]), None)


def overlaps(quote: Quote | None, spans: Spans) -> bool:
    """Whether a quote overlaps one of the places in its document."""
    start, end = (quote["start"] or 0, quote["end"] or 0) if quote else (0, 0)
    return any(start < last and first < end for first, last in spans)


def on_demo(ranker: SentenceRanker, others: Iterable[Question]) -> list[Outcomes]:
    """Ask the demo's questions, of which some have no answer in its base, and others, of which next to none has."""
    questions = [Question(row["id"], row["question"], frozenset(row["gold_ids"])) for row in demo_questions()]
    with demo_knowledge_base() as base:
        reader = ExtractiveReader(partial(ranker.rank, statistics=base.term_statistics))
        retriever = DenseRetriever(knowledge_base=base)
        foreign = [Question(question.id, question.text, frozenset()) for question in others]
        outcomes = on_passages("demo", questions, retriever, reader, {})
        return outcomes + on_passages("others, demo", foreign, retriever, reader, {})


def measure(data: Path, most: int, trials: int, cache: Path, work: Path) -> list[dict[str, Any]]:
    """All rows of the table."""
    encoder = CachedEncoder(load_encoder("minilm"), cache)
    ranker = SentenceRanker(encoder)
    bioasq, pubmedqa = read_bioasq(data), read_pubmedqa(data)
    known = {passage.id for passage in bioasq.passages}
    passages = [*bioasq.passages, *(passage for passage in pubmedqa.passages if passage.id not in known)]
    passages += [passage for passage in read_distractors(data) if passage.id not in UNSAFE_DISTRACTORS]
    build_knowledge_base(passages, work / "base", encoder=encoder)
    with KnowledgeBase.open(work / "base", encoder=encoder) as base:
        retriever = DenseRetriever(knowledge_base=base)
        reader = ExtractiveReader(partial(ranker.rank, statistics=base.term_statistics))
        outcomes = []
        asked: list[Question] = []
        findings = read_findings(data / "pubmedqa" / "corpus.jsonl.gz")
        for group, folder in (("BioASQ", "bioasq"), ("PubMedQA", "pubmedqa")):
            questions = read_questions(data / folder / "queries.jsonl", "gold_pmids")
            encoder.encode_queries([question.text for question in questions])
            # Neighbours in the file are of one year's batch.
            questions.sort(key=lambda question: zlib.crc32(question.text.encode()))
            known_findings = findings if group == "PubMedQA" else {}
            outcomes += on_passages(group, questions[:most], retriever, reader, known_findings)
            asked += questions[:most]
    outcomes += on_trials(data / "evidence_inference", trials, ExtractiveReader(ranker.rank))
    outcomes += on_demo(ranker, asked)
    return [outcome.row() for outcome in outcomes]


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--questions", type=int, default=300, help="of BioASQ and of PubMedQA: %(default)s")
    parser.add_argument("--trials", type=int, default=40, help="of Evidence Inference: %(default)s")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors there for another run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="extractive-") as folder:
        work = Path(folder)
        rows = measure(given.data, given.questions, given.trials, given.cache or work / "cache", work)
    table = Table(title="Answers without a model")
    for column in (columns := list(dict.fromkeys(column for row in rows for column in row))):
        table.add_column(column, justify="left" if isinstance(rows[0].get(column), str) else "right")
    for row in rows:
        table.add_row(*(shown(column, row.get(column)) for column in columns))
    Console(width=120).print(table)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
