"""How many input tokens a map-reduce reads against one vanilla call over the same documents.

Questions and abstracts are PubMedQA's; the k abstracts nearest to a question are read by both routes, with the
prompts as they are. A stand-in for the model quotes the sentences that come near the question, up to four from a
partition, and counts tokens with a WordPiece tokenizer; it does not reason, so no figure here says anything about
answers. The paper reports 5496.5 input tokens a question for BriefContext and 3066 for vanilla at k = 8: 1.79.

With --reduce: what the setting `reduce: auto` saves of the calls and tokens of a map, over 24,000 passages of BioASQ,
PubMedQA and other collections. The stand-in then quotes a sentence of each gold document, and of no other; which
partitions have evidence is thus as the annotators have it, and how many findings are one sentence is not measured.

    python benchmarks/tokens.py [--data ../shared/data] [--questions 50] [--reduce] [--cache DIR] [--json FILE]
"""

import json
import re
import statistics
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from parts.corpora import CachedEncoder, read_bioasq, read_passages, read_pubmedqa
from parts.report import Row, options, show, write
from pydantic import Field

from briefcontext.evaluation.methods.models import DOCUMENT
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.knowledge_base import DenseRetriever
from briefcontext.sentences import split_sentences

PAPER_RATIO = 5496.5 / 3066
EVIDENCE_KEY = re.compile(r"^\[(\w+)\]", re.MULTILINE)
MOST_QUOTES = 4
LEAST_SIMILARITY = 0.4
"""Of a quote and the question; 99% of sentences that have nothing to do with a question are below it."""


class QuotingModel(BaseChatModel):
    """Quotes the sentences that come near the question, and counts tokens."""

    encoder: Any
    gold: dict[str, list[str]] = Field(default_factory=dict)
    """For each question, the texts to quote from, in place of those that come near it."""

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = messages[-1].text
        question = prompt.splitlines()[0].removeprefix("Question: ")
        quotes = [] if self.gold else self._quotes(question, prompt)
        if "JSON" in messages[0].text:
            if self.gold:
                quotes = self._of_gold(question, prompt)
            record = {"relevant": bool(quotes), "quotes": quotes, "finding": "", "choice": None, "confidence": 0.8}
            record["finding"] = "So it is." if self.gold else quotes[0]["quote"] if quotes else ""
            text = json.dumps(record if quotes else {"relevant": False})
        else:
            keys = dict.fromkeys([quote["key"] for quote in quotes] or EVIDENCE_KEY.findall(prompt))
            text = "So it is " + "".join(f"[{key}]" for key in keys) + "."
        given = sum(self._count(message.text) for message in messages)
        made = self._count(text)
        usage: Any = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))])

    def _of_gold(self, question: str, prompt: str) -> list[dict[str, str]]:
        found = [
            (key, gold) for key, text in DOCUMENT.findall(prompt) for gold in self.gold[question] if text.endswith(gold)
        ]
        first = [(key, gold, split_sentences(gold)[0]) for key, gold in found]
        return [{"key": key, "quote": gold[start:end]} for key, gold, (start, end) in first][:MOST_QUOTES]

    def _quotes(self, question: str, prompt: str) -> list[dict[str, str]]:
        found = [
            {"key": key, "quote": text[start:end]}
            for key, text in DOCUMENT.findall(prompt)
            for start, end in split_sentences(text)
        ]
        if not found:
            return []
        sentences = self.encoder.encode_passages([("", quote["quote"]) for quote in found])
        near = sentences @ self.encoder.encode_queries([question])[0]
        order = [place for place in np.argsort(-near)[:MOST_QUOTES] if near[place] >= LEAST_SIMILARITY]
        return [found[place] for place in order]

    def _count(self, text: str) -> int:
        return len(self.encoder.token_offsets(text))


def nearest(documents: list[Document], encoder: Any, folder: Path) -> DenseRetriever:
    """What finds the documents whose vectors are nearest to a question's."""
    build_knowledge_base(documents, folder, encoder=encoder)
    return DenseRetriever(knowledge_base=KnowledgeBase.open(folder, encoder=encoder))


def measure_reduce(data: Path, most: int, encoder: Any, folder: Path) -> list[Row]:
    """What a map costs where it is always reduced, and where a sole finding is the answer."""
    documents = read_passages(data)
    retriever = nearest(documents, encoder, folder)
    passages = {document.id: document for document in documents}
    rows = []
    for corpus in (read_bioasq(data), read_pubmedqa(data)):
        # Neighbours in the file are of one year's batch.
        questions = sorted(corpus.questions, key=lambda question: zlib.crc32(question.text.encode()))[:most]
        encoder.encode_queries([question.text for question in questions])
        gold = {q.text: [passages[id].page_content.strip() for id in sorted(q.gold)] for q in questions}
        graph = build_graph(reader=QuotingModel(encoder=encoder, gold=gold), retriever=retriever)
        for k, size in ((8, 4), (16, 4), (16, 2)):
            for reduce in ("always", "auto"):
                context = Settings(route="map_reduce", top_k=k, partition_size=size, reduce=reduce)
                answers = [graph.invoke({"question": q.text}, context=context)["answer"] for q in questions]
                sole = [sum(part["status"] == "evidence" for part in answer["extractions"]) == 1 for answer in answers]
                used = [answer["usage"] for answer in answers]
                rows.append(
                    {
                        **{"questions on": corpus.name, "n": len(questions), "k": k, "partition": size},
                        "one has evidence": statistics.fmean(sole),
                        "reduce": reduce,
                        "reduced": statistics.fmean("reduce" in usage["stages"] for usage in used),
                        **{"calls": mean(used, "calls"), "input tokens": mean(used, "input_tokens")},
                    }
                )
    return rows


def measure_tokens(data: Path, most: int, encoder: Any, folder: Path) -> list[Row]:
    """Mean tokens of a question, by k and the size of partitions."""
    corpus = read_pubmedqa(data)
    # Nothing but their texts, as the paper has it.
    documents = [Document(id=d.id, page_content=d.page_content, metadata={"title": ""}) for d in corpus.passages]
    graph = build_graph(reader=QuotingModel(encoder=encoder), retriever=nearest(documents, encoder, folder))

    def used(**settings: Any) -> list[Mapping[str, Any]]:
        context = Settings(**settings)
        asked = [{"question": question.text} for question in corpus.questions[:most]]
        return [graph.invoke(question, context=context)["answer"]["usage"] for question in asked]

    rows = []
    for k in (8, 16):
        vanilla = mean(used(route="vanilla", top_k=k), "input_tokens")
        for size in (2, 4, 8):
            mapped = used(route="map_reduce", top_k=k, partition_size=size)
            row: Row = {"k": k, "partition_size": size, "vanilla_input_tokens": vanilla}
            for stage in ("extract", "reduce"):
                row[f"{stage}_input_tokens"] = mean([use["stages"].get(stage, {}) for use in mapped], "input_tokens")
            row |= {"input_tokens": mean(mapped, "input_tokens"), "estimated_ratio": mean(mapped, "input_ratio")}
            rows.append(row | {"ratio": row["input_tokens"] / vanilla})
    return rows


def mean(used: list[Mapping[str, Any]], what: str) -> float:
    """The mean of a figure of the questions' usage; it is 0 where it is not told."""
    return statistics.fmean(usage.get(what, 0) for usage in used)


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = options(__doc__, "--data", "--cache", "--json")
    parser.add_argument("--questions", type=int, default=50, help="how many questions to ask")
    parser.add_argument("--reduce", action="store_true", help="measure what the setting reduce: auto saves")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        encoder = CachedEncoder(load_encoder("minilm"), given.cache or work)
        if given.reduce:
            rows = measure_reduce(given.data, given.questions, encoder, work / "base")
            show("Calls and input tokens a question", rows, dict.fromkeys(("calls", "input tokens"), ",.2f"), ".0%")
            write(given.json, rows)
            return
        rows = measure_tokens(given.data, given.questions, encoder, work / "base")
    title = (
        f"Input tokens a question, {given.questions} PubMedQA questions; the paper's ratio at k = 8: {PAPER_RATIO:.2f}"
    )
    show(title, rows, dict.fromkeys(("ratio", "estimated_ratio"), ".2f"), ",.0f")
    write(given.json, {"questions": given.questions, "paper_ratio_k8": PAPER_RATIO, "rows": rows})


if __name__ == "__main__":
    main()
