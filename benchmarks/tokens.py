"""How many input tokens a map-reduce reads against one vanilla call over the same documents.

Questions and abstracts are PubMedQA's; the k abstracts nearest to a question are read by both routes, with the
prompts as they are. A stand-in for the model quotes the sentences that come near the question, up to four from a
partition, and counts tokens with a WordPiece tokenizer; it does not reason, so no figure here says anything about
answers. The paper reports 5496.5 input tokens a question for BriefContext and 3066 for vanilla at k = 8: 1.79.

    python benchmarks/tokens.py [--data ../shared/data] [--questions 50] [--json FILE]
"""

import argparse
import gzip
import json
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr
from rich.console import Console
from rich.table import Table

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.sentences import split_sentences

PAPER_RATIO = 5496.5 / 3066
DOCUMENT = re.compile(r'<document key="(\w+)">\n(.*?)\n</document \1>', re.DOTALL)
EVIDENCE_KEY = re.compile(r"^\[(\w+)\]", re.MULTILINE)
MOST_QUOTES = 4
LEAST_SIMILARITY = 0.4
"""Of a quote and the question; 99% of sentences that have nothing to do with a question are below it."""


class QuotingModel(BaseChatModel):
    """Quotes the sentences that come near the question, and counts tokens."""

    encoder: Any
    _vectors: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = messages[-1].text
        question = prompt.splitlines()[0].removeprefix("Question: ")
        quotes = self._quotes(question, prompt)
        if "JSON" in messages[0].text:
            record = {"relevant": bool(quotes), "quotes": quotes, "finding": "", "choice": None, "confidence": 0.8}
            record["finding"] = quotes[0]["quote"] if quotes else ""
            text = json.dumps(record if quotes else {"relevant": False})
        else:
            keys = dict.fromkeys([quote["key"] for quote in quotes] or EVIDENCE_KEY.findall(prompt))
            text = "So it is " + "".join(f"[{key}]" for key in keys) + "."
        given = sum(self._count(message.text) for message in messages)
        made = self._count(text)
        usage: Any = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))])

    def _quotes(self, question: str, prompt: str) -> list[dict[str, str]]:
        found = [
            {"key": key, "quote": text[start:end]}
            for key, text in DOCUMENT.findall(prompt)
            for start, end in split_sentences(text)
        ]
        if not found:
            return []
        new = [quote["quote"] for quote in found if quote["quote"] not in self._vectors]
        if new:
            self._vectors.update(zip(new, self.encoder.encode_passages([("", text) for text in new]), strict=True))
        near = np.array([self._vectors[quote["quote"]] for quote in found]) @ self._query(question)
        order = [place for place in np.argsort(-near)[:MOST_QUOTES] if near[place] >= LEAST_SIMILARITY]
        return [found[place] for place in order]

    def _query(self, question: str) -> Any:
        if question not in self._vectors:
            self._vectors[question] = self.encoder.encode_queries([question])[0]
        return self._vectors[question]

    def _count(self, text: str) -> int:
        return len(self.encoder.token_offsets(text))


class NearestAbstracts(BaseRetriever):
    """Returns the abstracts whose vectors are nearest to the question's."""

    encoder: Any
    documents: list[Document]
    vectors: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int = 16
    ) -> list[Document]:
        near = self.vectors @ self.encoder.encode_queries([query])[0]
        return [self.documents[place] for place in np.argsort(-near, kind="stable")[:k]]


def open_abstracts(data: Path, encoder: Any) -> NearestAbstracts:
    """Read and encode PubMedQA's abstracts."""
    path = data / "pubmedqa" / "corpus.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"There is no {path}. Name the folder that holds pubmedqa/corpus.jsonl.gz: --data DIR")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    documents = [Document(id=row["id"], page_content=row["text"]) for row in rows]
    vectors = encoder.encode_passages([("", row["text"]) for row in rows])
    return NearestAbstracts(encoder=encoder, documents=documents, vectors=vectors)


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--questions", type=int, default=50, help="how many questions to ask")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    arguments = parser.parse_args()

    encoder = load_encoder("minilm")
    retriever = open_abstracts(arguments.data, encoder)
    with open(arguments.data / "pubmedqa" / "queries.jsonl", encoding="utf-8") as file:
        questions = [json.loads(line)["question"] for line in file][: arguments.questions]
    graph = build_graph(reader=QuotingModel(encoder=encoder), retriever=retriever)

    def used(question: str, **settings: Any) -> dict[str, Any]:
        usage: dict[str, Any] = dict(
            graph.invoke({"question": question}, context=Settings(**settings))["answer"]["usage"]
        )
        return usage

    table = Table(
        title=f"Input tokens a question, {len(questions)} PubMedQA questions; the paper's ratio at k = 8: 1.79"
    )
    for heading in ("k", "partition", "vanilla", "map", "reduce", "map-reduce", "ratio", "estimated ratio"):
        table.add_column(heading, justify="right")
    rows = []
    for k in (8, 16):
        vanilla = [used(question, route="vanilla", top_k=k) for question in questions]
        for size in (2, 4, 8):
            mapped = [used(question, route="map_reduce", top_k=k, partition_size=size) for question in questions]
            stages = {
                stage: statistics.mean(usage["stages"].get(stage, {}).get("input_tokens", 0) for usage in mapped)
                for stage in ("extract", "reduce")
            }
            row = {
                "k": k,
                "partition_size": size,
                "vanilla_input_tokens": statistics.mean(usage["input_tokens"] for usage in vanilla),
                "extract_input_tokens": stages["extract"],
                "reduce_input_tokens": stages["reduce"],
                "input_tokens": statistics.mean(usage["input_tokens"] for usage in mapped),
                "estimated_ratio": statistics.mean(usage["input_ratio"] for usage in mapped),
            }
            row["ratio"] = row["input_tokens"] / row["vanilla_input_tokens"]
            rows.append(row)
            table.add_row(
                *(str(k), str(size), f"{row['vanilla_input_tokens']:,.0f}"),
                *(f"{row['extract_input_tokens']:,.0f}", f"{row['reduce_input_tokens']:,.0f}"),
                *(f"{row['input_tokens']:,.0f}", f"{row['ratio']:.2f}", f"{row['estimated_ratio']:.2f}"),
            )
    Console().print(table)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"questions": len(questions), "paper_ratio_k8": PAPER_RATIO, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
