"""What the log tells, and that nothing is sent anywhere unless the environment asks for it."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.forked_python import run_forked
from tests.openai_server import Call, OpenAIServer, Reply, faithful
from tests.studio_server import clean_environment


def test_the_log_tells_of_the_stages_and_of_no_text(
    chat_model: ChatOpenAI,
    server: OpenAIServer,
    disagreeing: FixedRetriever,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def last_fails(call: Call) -> Reply:
        return (
            Reply(f"cannot read: {call.prompt}", status=500)
            if "number 12 " in call.prompt
            else faithful(call)
        )

    server.script = last_fails
    with caplog.at_level(logging.INFO):
        answer = build_graph(model=chat_model, retriever=disagreeing).invoke(
            {"question": QUESTION}, context=Settings(max_retries=0)
        )["answer"]
    assert answer["extractions"][3]["status"] == "failed"
    ours = [
        record.getMessage() for record in caplog.records if record.name.startswith("briefcontext.")
    ]
    assert ours[:2] == ["retrieved documents=16", "route_decided route=map_reduce iou=0.0"]
    assert "partition_done index=0 partitions=4 status=evidence quotes=4" in ours
    assert "partition_failed index=3 partitions=4" in ours
    assert ours[-1] == "answered abstained=False citations=12 calls=6"
    assert "HTTP Request" in caplog.text, "other libraries' loggers were on, too"
    said = [
        QUESTION,
        answer["text"],
        *(document.page_content for document in disagreeing.documents),
    ]
    said += [word for text in said for word in text.split() if len(word) > 6]
    assert not [text for text in said if text in caplog.text]


ASK = """
import json, sys
connected = []
sys.addaudithook(lambda event, given: connected.append(str(given[1])) if event == "socket.connect" else None)
from briefcontext import graph
answer = graph.invoke({"question": "Which drug is first choice for type 2 diabetes?"})["answer"]
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
print(json.dumps({"citations": len(answer["citations"]), "connected": connected}))
"""


def _without_tracing() -> dict[str, str]:
    clean = clean_environment()
    return {
        name: value
        for name, value in clean.items()
        if not name.startswith(("LANGSMITH", "LANGCHAIN"))
    }


def _run(program: str, **environment: str) -> Any:
    done = run_forked(["-c", program], env={**_without_tracing(), **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_nothing_leaves_the_machine_by_default() -> None:
    command = [sys.executable, "-W", "ignore", "-c", ASK]
    done = subprocess.run(
        command, env=_without_tracing(), capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["citations"]
    assert told["connected"] == []


SPANS = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from briefcontext import graph
graph.invoke({"question": "Which drug is first choice for type 2 diabetes?"}, context={"route": "map_reduce"})
from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith.run_trees import get_cached_client
wait_for_all_tracers()
get_cached_client().flush()
spans = exporter.get_finished_spans()
print(json.dumps([[span.name, "first choice" in str(dict(span.attributes))] for span in spans]))
"""


@pytest.mark.slow
def test_langsmiths_opentelemetry_mode_makes_a_span_of_each_stage() -> None:
    hidden = dict.fromkeys(["LANGSMITH_HIDE_INPUTS", "LANGSMITH_HIDE_OUTPUTS"], "true")
    mode = dict.fromkeys(
        ["LANGSMITH_TRACING", "LANGSMITH_OTEL_ENABLED", "LANGSMITH_OTEL_ONLY"], "true"
    )
    spans: list[tuple[str, bool]] = _run(SPANS, **hidden, **mode)
    assert {"BriefContext", "retrieve", "preflight", "map_fanout", "extract", "reduce"} <= {
        name for name, _ in spans
    }
    assert not [name for name, told in spans if told]


class _Collector(BaseHTTPRequestHandler):
    """Takes whatever is sent, as a LangSmith server would."""

    def _take(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_PATCH = _take

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), _Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()


@pytest.mark.slow
def test_langsmith_traces_when_the_environment_asks_for_it(collector: int) -> None:
    told = _run(
        ASK,
        LANGSMITH_TRACING="true",
        LANGSMITH_ENDPOINT=f"http://127.0.0.1:{collector}",
        LANGSMITH_API_KEY="none",
    )
    assert told["citations"]
    assert str(("127.0.0.1", collector)) in told["connected"]
