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

import argparse
import gzip
import json
import re
import statistics
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr
from retrieval_parts.corpora import CachedEncoder, read_bioasq, read_distractors, read_pubmedqa, titled_texts
from rich.console import Console
from rich.table import Table

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.sentences import split_sentences

PAPER_RATIO = 5496.5 / 3066
DOCUMENT = re.compile(r'<document key="(\w+)">\n(.*?)\n</document>', re.DOTALL)
EVIDENCE_KEY = re.compile(r"^\[(\w+)\]", re.MULTILINE)
MOST_QUOTES = 4
LEAST_SIMILARITY = 0.4
"""Of a quote and the question; 99% of sentences that have nothing to do with a question are below it."""


class QuotingModel(BaseChatModel):
    """Quotes the sentences that come near the question, and counts tokens."""

    encoder: Any
    gold: dict[str, list[str]] = Field(default_factory=dict)
    """For each question, the texts to quote from, in place of those that come near it."""
    _vectors: dict[str, Any] = PrivateAttr(default_factory=dict)

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


def measure_reduce(data: Path, most: int, encoder: Any) -> list[dict[str, Any]]:
    """What a map costs where it is always reduced, and where a sole finding is the answer."""
    corpora = [read_bioasq(data), read_pubmedqa(data)]
    passages = {passage.id: passage for corpus in corpora for passage in corpus.among(read_distractors(data)).passages}
    documents = list(passages.values())
    retriever = NearestAbstracts(
        encoder=encoder, documents=documents, vectors=encoder.encode_passages(titled_texts(documents))
    )
    rows = []
    for corpus in corpora:
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
                by_stage = [answer["usage"]["stages"] for answer in answers]
                rows.append(
                    {
                        **{"questions on": corpus.name, "n": len(questions), "k": k, "partition": size},
                        "one has evidence": f"{statistics.mean(sole):.0%}",
                        "reduce": reduce,
                        "reduced": f"{statistics.mean('reduce' in stages for stages in by_stage):.0%}",
                        "calls": statistics.mean(answer["usage"]["calls"] for answer in answers),
                        "input tokens": statistics.mean(answer["usage"]["input_tokens"] for answer in answers),
                    }
                )
    return rows


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--questions", type=int, default=50, help="how many questions to ask")
    parser.add_argument("--reduce", action="store_true", help="measure what the setting reduce: auto saves")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="with --reduce: keep vectors there for another run")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    arguments = parser.parse_args()

    encoder: Any = load_encoder("minilm")
    if arguments.reduce:
        with tempfile.TemporaryDirectory() as folder:
            cached = CachedEncoder(encoder, arguments.cache or Path(folder))
            rows = measure_reduce(arguments.data, arguments.questions, cached)
        table = Table(*rows[0], title="Calls and input tokens a question")
        for row in rows:
            table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row.values()))
        Console(width=120).print(table)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
        return
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
