"""How much time the graph adds to the model's own, over a map-reduce of M extractions and one reduction.

The model is a stand-in of fixed latency L, in this process, so that the ideal is 2 L however many extractions and
questions there are, the limit on calls in flight lifted. What is above it is the work that LangGraph, LangChain and
BriefContext do on one core.

    python benchmarks/fanout.py [--latency 0.2] [--repeat 3] [--json FILE]
"""

import argparse
import asyncio
import json
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from rich.console import Console
from rich.table import Table

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings

PARTITIONS = (4, 8, 16)
QUESTIONS = (1, 8, 64)
KEY = re.compile(r'key="(\w+)"|^\[(\w+)\]', re.MULTILINE)


class FixedLatencyModel(BaseChatModel):
    """Answers every call after the same time, by quoting the first document or citing the first evidence."""

    latency: float

    @property
    def _llm_type(self) -> str:
        return "fixed-latency"

    def _reply(self, messages: list[BaseMessage]) -> ChatResult:
        found = KEY.search(messages[-1].text)
        key = (found[1] or found[2]) if found else ""
        quote = {"key": key, "quote": "Aspirin was studied in group"}
        record = json.dumps({"relevant": True, "quotes": [quote], "finding": "So it is.", "confidence": 0.9})
        text = record if "JSON" in messages[0].text else f"So it is [{key}]."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        time.sleep(self.latency)
        return self._reply(messages)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(self.latency)
        return self._reply(messages)


class FixedRetriever(BaseRetriever):
    """Returns the same documents for every question."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self.documents

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.documents


def measure(latency: float, partitions: int, questions: int, asynchronous: bool) -> float:
    """Return the seconds that `questions` at once take, each with `partitions` extractions."""
    documents = [
        Document(id=f"d{place}", page_content=f"Aspirin was studied in group {place}.")
        for place in range(partitions * 4)
    ]
    graph = build_graph(reader=FixedLatencyModel(latency=latency), retriever=FixedRetriever(documents=documents))
    asked: list[Any] = [{"question": f"What was studied ({number})?"} for number in range(questions)]
    context: Any = Settings(route="map_reduce", top_k=len(documents), max_concurrent_calls=4096)
    run: Callable[[], Any]
    if asynchronous:

        def run() -> Any:
            return asyncio.run(graph.abatch(asked, context=context))
    else:
        # `batch` starts as many questions at once as its pool has threads.
        config: Any = {"max_concurrency": max(questions, partitions)}

        def run() -> Any:
            return graph.batch(asked, config, context=context)

    started = time.perf_counter()
    results = run()
    seconds = time.perf_counter() - started
    for result in results:
        extractions = result["answer"]["extractions"]
        assert len(extractions) == partitions
        assert all(extraction["quotes"] for extraction in extractions)
    return seconds


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds for one call")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each case; the median counts")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    arguments = parser.parse_args()

    measure(0.0, 4, 1, True)
    measure(0.0, 4, 1, False)
    table = Table(title=f"Wall time over the ideal, L = {arguments.latency * 1000:.0f} ms")
    for heading in ("questions", "M", "calls", "ideal s", "sync s", "ratio", "async s", "ratio"):
        table.add_column(heading, justify="right")
    rows = []
    for questions in QUESTIONS:
        for partitions in PARTITIONS:
            ideal = 2 * arguments.latency
            row: dict[str, Any] = {"questions": questions, "partitions": partitions, "ideal_s": ideal}
            for name, asynchronous in (("sync", False), ("async", True)):
                times = [
                    measure(arguments.latency, partitions, questions, asynchronous) for _ in range(arguments.repeat)
                ]
                row[f"{name}_s"] = statistics.median(times)
                row[f"{name}_ratio"] = statistics.median(times) / ideal
            rows.append(row)
            table.add_row(
                *(str(questions), str(partitions), str(questions * (partitions + 1)), f"{ideal:.2f}"),
                *(f"{row['sync_s']:.3f}", f"{row['sync_ratio']:.2f}"),
                *(f"{row['async_s']:.3f}", f"{row['async_ratio']:.2f}"),
            )
    Console().print(table)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"latency_s": arguments.latency, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
