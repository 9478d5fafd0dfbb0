"""Time and CPU that the graph adds to the model's own, for M extractions and one reduction.

The model is a server of fixed latency L on loopback in another process, so the ideal is 2 L for any
number of extractions and questions; the limit of calls in flight is lifted. The comparison is a
bare LangGraph graph of the same shape: the documents, M branches that call the same ChatOpenAI with
a prompt of the same documents, and a call over their replies, without grounding, limits, retries or
an answer. CPU time is that of this process.

    python benchmarks/fanout.py [--latency 0.2] [--repeat 3] [--questions 1 8 64]
        [--partitions 4 8 16] [--json FILE]
"""

import asyncio
import json
import multiprocessing
import operator
import re
import socket
import statistics
import time
from contextlib import suppress
from itertools import product
from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from parts.report import options, show, write
from typing_extensions import TypedDict

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings

DOCUMENTS_A_PARTITION = 4
KEY = re.compile(r'key="(\w+)"|^\[(\w+)\]', re.MULTILINE)


def serve(listener: socket.socket, latency: float) -> None:
    """Answer each chat completion after a fixed time with a quote or a citation."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                asked = json.loads(await reader.readexactly(int(length[1]) if length else 0))
                await asyncio.sleep(latency)
                body = json.dumps(_completion(asked)).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                )
                writer.write(b"%d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(connect, sock=listener, backlog=4096)
        await server.serve_forever()

    asyncio.run(run())


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    messages = asked["messages"]
    found = KEY.search(messages[-1]["content"])
    key = (found[1] or found[2]) if found else ""
    quote = {"key": key, "quote": "Aspirin was studied in group"}
    record = {
        "relevant": True,
        "quotes": [quote],
        "finding": "So it is.",
        "choice": None,
        "confidence": 0.9,
    }
    text = json.dumps(record) if "JSON" in messages[0]["content"] else f"So it is [{key}]."
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


class _Bare(TypedDict):
    question: str
    documents: list[Document]
    findings: Annotated[list[str], operator.add]
    answer: str


def bare_graph(chat: ChatOpenAI, documents: list[Document]) -> Any:
    """Build a graph of the same shape that only makes the calls."""

    async def retrieve(state: _Bare) -> dict[str, Any]:
        return {"documents": documents}

    def send(state: _Bare) -> list[Send]:
        found, size = state["documents"], DOCUMENTS_A_PARTITION
        return [
            Send(
                "extract", {"question": state["question"], "documents": found[start : start + size]}
            )
            for start in range(0, len(found), size)
        ]

    async def extract(branch: _Bare) -> dict[str, Any]:
        text = "\n".join(
            f'<document key="{d.id}">\n{d.page_content}\n</document>' for d in branch["documents"]
        )
        reply = await chat.ainvoke(
            [("system", "Copy out, as JSON."), ("user", f"{branch['question']}\n{text}")]
        )
        return {"findings": [reply.text]}

    async def reduce(state: _Bare) -> dict[str, Any]:
        text = "\n".join(state["findings"])
        reply = await chat.ainvoke(
            [("system", "Answer."), ("user", f"{state['question']}\n{text}")]
        )
        return {"answer": reply.text}

    builder: Any = StateGraph(_Bare)
    builder.add_node("retrieve", retrieve)
    builder.add_node("extract", extract)
    builder.add_node("reduce", reduce)
    builder.add_edge(START, "retrieve")
    builder.add_conditional_edges("retrieve", send, ["extract"])
    builder.add_edge("extract", "reduce")
    builder.add_edge("reduce", END)
    return builder.compile()


def measure(
    runner: asyncio.Runner, url: str, partitions: int, questions: int, *, bare: bool
) -> tuple[float, float]:
    """Return the seconds and CPU seconds of concurrent questions."""
    documents = [
        Document(id=f"d{place}", page_content=f"Aspirin was studied in group {place}.")
        for place in range(partitions * DOCUMENTS_A_PARTITION)
    ]
    asked: list[Any] = [
        {"question": f"What was studied ({number})?"} for number in range(questions)
    ]
    # LangChain shares a client between models of one address, and its connections belong to one
    # event loop. The two graphs use different loops.
    address = f"{url}/{'bare' if bare else 'ours'}"
    chat = ChatOpenAI(model="fixed-latency", base_url=address, api_key="none", max_retries=0)

    async def retrieve(question: str) -> list[Document]:
        return documents

    if bare:
        graph, context = bare_graph(chat, documents), None
    else:
        graph = build_graph(model=chat, retriever=RunnableLambda(retrieve))
        context = Settings(
            verify=False, route="map_reduce", top_k=len(documents), max_concurrent_calls=4096
        )

    async def run() -> tuple[float, float, list[Any]]:
        started, used = time.perf_counter(), time.process_time()
        results = await graph.abatch(asked, context=context)
        return time.perf_counter() - started, time.process_time() - used, results

    seconds, cpu, results = runner.run(run())
    for result in results:
        found = result["findings"] if bare else result["answer"]["extractions"]
        assert len(found) == partitions
        assert bare or all(extraction["quotes"] for extraction in found)
    return seconds, cpu


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = options(__doc__, "--json")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds for one call")
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of each case; the median counts"
    )
    parser.add_argument(
        "--questions", type=int, nargs="+", default=[1, 8, 64], help="questions at once"
    )
    parser.add_argument(
        "--partitions", type=int, nargs="+", default=[4, 8, 16], help="extractions of a question"
    )
    arguments = parser.parse_args()

    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    # Connections inherit it. Otherwise a reply's body waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=[listener, arguments.latency], daemon=True
    )
    server.start()
    with asyncio.Runner() as runner:
        for bare in (True, False):
            measure(runner, url, 4, 1, bare=bare)
        rows = []
        for questions, partitions in product(arguments.questions, arguments.partitions):
            ideal, calls = 2 * arguments.latency, questions * (partitions + 1)
            row: dict[str, Any] = {
                "questions": questions,
                "partitions": partitions,
                "calls": calls,
                "ideal_s": ideal,
            }
            for name in ("bare", "ours"):
                runs = [
                    measure(runner, url, partitions, questions, bare=name == "bare")
                    for _ in range(arguments.repeat)
                ]
                row[f"{name}_s"] = statistics.median(seconds for seconds, _ in runs)
                row[f"{name} / ideal"] = row[f"{name}_s"] / ideal
                row[f"{name}_cpu_ms_a_call"] = (
                    statistics.median(cpu for _, cpu in runs) / calls * 1000
                )
            rows.append(row | {"CPU ratio": row["ours_cpu_ms_a_call"] / row["bare_cpu_ms_a_call"]})
    server.terminate()
    show(
        f"Wall time over the ideal and CPU time a call, L = {arguments.latency * 1000:.0f} ms",
        rows,
        form=".2f",
    )
    write(arguments.json, {"latency_s": arguments.latency, "rows": rows})


if __name__ == "__main__":
    main()
