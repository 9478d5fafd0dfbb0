"""The log, and that nothing leaves this machine by default."""

import json
import logging
import subprocess
import sys

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply, faithful
from tests.studio_server import clean_environment


def test_the_log_names_stages_and_contains_no_text(
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
def note(event, given):
    if event == "socket.connect":
        connected.append(str(given[1]))
sys.addaudithook(note)
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


@pytest.mark.slow
def test_nothing_leaves_the_machine_by_default() -> None:
    command = [sys.executable, "-W", "ignore", "-c", ASK]
    done = subprocess.run(
        command, env=_without_tracing(), capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert result["citations"]
    assert result["connected"] == []
