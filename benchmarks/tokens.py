"""Input tokens of a map-reduce and of one vanilla call over the same documents.

Questions and abstracts are PubMedQA's. Both routes read the k abstracts nearest to a question, with
the bundled prompts. A simulated model quotes the sentences close to the question, up to four from a
partition, and counts tokens with a WordPiece tokenizer. It does not reason, so no figure here says
anything about answers. The paper reports 5496.5 input tokens a question for BriefContext and 3066
for vanilla at k = 8: 1.79.

The verification of the answer is counted separately: one more call, which reads each cited passage
once.

    python benchmarks/tokens.py [--data ../shared/data] [--questions 50] [--cache DIR] [--json FILE]
"""

import json
import re
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from parts.corpora import CachedEncoder, read_pubmedqa
from parts.report import Row, options, show, write

from briefcontext.evaluation.methods.models import DOCUMENT
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sentences import split_sentences
from briefcontext.retrievers.knowledge_base import DenseRetriever

PAPER_RATIO = 5496.5 / 3066
EVIDENCE_KEY = re.compile(r"^\[(\w+)\]", re.MULTILINE)
SENTENCE = re.compile(r"<sentence number=(\d+)")
MOST_QUOTES = 4
LEAST_SIMILARITY = 0.4
"""Smallest similarity of a quote to the question; 99% of unrelated sentences are below it."""


class QuotingModel(BaseChatModel):
    """Quotes the sentences close to the question, and counts tokens."""

    encoder: Any

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = messages[-1].text
        question = prompt.splitlines()[0].removeprefix("Question: ")
        text = (
            self._verdicts(prompt)
            if SENTENCE.search(prompt)
            else self._written(messages[0].text, question, prompt)
        )
        given = sum(self._count(message.text) for message in messages)
        made = self._count(text)
        usage: Any = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))]
        )

    def _written(self, instruction: str, question: str, prompt: str) -> str:
        quotes = self._quotes(question, prompt)
        if "JSON" in instruction:
            if not quotes:
                return json.dumps({"relevant": False})
            record = {
                "relevant": True,
                "quotes": quotes,
                "finding": quotes[0]["quote"],
                "choice": None,
            }
            return json.dumps(record | {"confidence": 0.8})
        keys = dict.fromkeys([quote["key"] for quote in quotes] or EVIDENCE_KEY.findall(prompt))
        return " ".join(f"So it is [{key}]." for key in keys)

    def _verdicts(self, prompt: str) -> str:
        numbers = SENTENCE.findall(prompt)
        verdicts = [
            {"sentence": int(number), "verdict": "supported", "difference": ""}
            for number in numbers
        ]
        return json.dumps({"verdicts": verdicts})

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
        order = [
            place for place in np.argsort(-near)[:MOST_QUOTES] if near[place] >= LEAST_SIMILARITY
        ]
        return [found[place] for place in order]

    def _count(self, text: str) -> int:
        return len(self.encoder.token_offsets(text))


def nearest(documents: list[Document], encoder: Any, folder: Path) -> DenseRetriever:
    """Return a retriever of the documents nearest to a question."""
    build_knowledge_base(documents, folder, encoder=encoder)
    return DenseRetriever(knowledge_base=KnowledgeBase.open(folder, encoder=encoder))


def measure_tokens(data: Path, most: int, encoder: Any, folder: Path) -> list[Row]:
    """Return the mean tokens of a question, by k and partition size."""
    corpus = read_pubmedqa(data)
    # Only the texts, as in the paper.
    documents = [
        Document(id=d.id, page_content=d.page_content, metadata={"title": ""})
        for d in corpus.passages
    ]
    graph = build_graph(
        reader=QuotingModel(encoder=encoder), retriever=nearest(documents, encoder, folder)
    )

    def used(**settings: Any) -> list[Mapping[str, Any]]:
        context = Settings(**settings)
        asked = [{"question": question.text} for question in corpus.questions[:most]]
        return [graph.invoke(question, context=context)["answer"]["usage"] for question in asked]

    rows = []
    for k in (8, 16):
        alone = used(route="vanilla", top_k=k)
        vanilla = mean(alone, "input_tokens") - mean_of(alone, "verify")
        for size in (2, 4, 8):
            mapped = used(route="map_reduce", top_k=k, partition_size=size)
            row: Row = {
                "k": k,
                "partition": size,
                "vanilla": vanilla,
                "verify vanilla": mean_of(alone, "verify"),
            }
            row |= {stage: mean_of(mapped, stage) for stage in ("extract", "reduce", "verify")}
            unverified = row["extract"] + row["reduce"]
            row |= {"ratio": unverified / vanilla, "estimated ratio": mean(mapped, "input_ratio")}
            row["ratio verified"] = mean(mapped, "input_tokens") / mean(alone, "input_tokens")
            rows.append(row)
    return rows


def mean_of(used: list[Mapping[str, Any]], stage: str) -> float:
    """Return the mean input tokens of a stage."""
    return mean([usage["stages"].get(stage, {}) for usage in used], "input_tokens")


def mean(used: list[Mapping[str, Any]], what: str) -> float:
    """Return the mean of a figure of the questions' usage; 0 if unknown."""
    return statistics.fmean(usage.get(what, 0) for usage in used)


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = options(__doc__, "--data", "--cache", "--json")
    parser.add_argument("--questions", type=int, default=50, help="how many questions to ask")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        encoder = CachedEncoder(load_encoder("minilm"), given.cache or work)
        rows = measure_tokens(given.data, given.questions, encoder, work / "base")
    title = (
        f"Input tokens a question, {given.questions} PubMedQA questions; "
        f"the paper's ratio at k = 8: {PAPER_RATIO:.2f}"
    )
    show(title, rows, dict.fromkeys(("ratio", "estimated ratio", "ratio verified"), ".2f"), ",.0f")
    write(given.json, {"questions": given.questions, "paper_ratio_k8": PAPER_RATIO, "rows": rows})


if __name__ == "__main__":
    main()
