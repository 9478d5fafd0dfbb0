"""An interrupted run resumes, and repeats no extraction."""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from briefcontext.errors import ModelSetupError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.forked_python import ForkedPython, run_forked
from tests.loopback import PATIENCE
from tests.openai_server import Call, OpenAIServer, Reply, faithful
from tests.postgres_server import serve_postgres

pytestmark = pytest.mark.slow

ASKED: Any = {"question": QUESTION}
THREAD: Any = {"configurable": {"thread_id": "1"}}
FINISHED = {0, 2}
"""The partitions that the server answers before the process is killed."""
UNFINISHED = {1, 3}


def _partition(call: Call) -> int:
    """Return the number of the partition of a call, by the documents in its prompt."""
    places = sorted(
        int(place)
        for _, text in call.documents
        for place in re.findall(r"(?:number|group) (\d+)", text)
    )
    assert len(places) == 4
    return places[0] // 4


def _extracted(calls: Iterable[Call]) -> Counter[int]:
    """Count the extractions that the server saw, by partition."""
    return Counter(_partition(call) for call in calls if call.stage == "extract")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database for the checkpointer: a file, or a PostgreSQL server's."""
    if request.param == "sqlite":
        yield str(tmp_path / "threads.sqlite")
    else:
        pytest.importorskip("psycopg", reason="the checkpointer for PostgreSQL needs psycopg")
        with serve_postgres() as address:
            yield address


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_killed_run_resumes_without_repeating_extractions(
    way: str, server: OpenAIServer, database: str
) -> None:
    all_asked = threading.Event()

    def half(call: Call) -> Reply:
        if _extracted(server.calls).total() == 4:
            all_asked.set()
        return faithful(call) if _partition(call) in FINISHED else Reply(hold=True)

    server.script = half
    command = ["-m", "tests.resumed_run"]
    arguments = [way, server.url, database]
    with ForkedPython([*command, "start", *arguments]) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in FINISHED]
        reached = all_asked.wait(PATIENCE)
        process.kill()
        process.wait()
    assert reached
    assert lines == ["extraction 1\n", "extraction 2\n"]
    assert process.returncode == -9
    assert _extracted(server.calls) == dict.fromkeys(FINISHED | UNFINISHED, 1)

    server.script = faithful
    resumed = run_forked([*command, "resume", *arguments])
    assert resumed.returncode == 0, resumed.stderr
    answer = json.loads(resumed.stdout.splitlines()[-1])
    assert _extracted(server.calls) == dict.fromkeys(FINISHED, 1) | dict.fromkeys(UNFINISHED, 2)
    assert server.stages().count("reduce") == 1
    assert [extraction["status"] for extraction in answer["extractions"]] == ["evidence"] * 4
    assert [id for e in answer["extractions"] for id in e["document_ids"]] == [
        f"doc-{place}" for place in range(16)
    ]
    assert len(answer["citations"]) == 16
    assert answer["usage"]["calls"] == 6, "four extractions, the reduction and the verification"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failed_run_resumes_with_its_extractions(
    asynchronous: bool, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    failed: set[int] = set()

    def last_fails(call: Call) -> Reply:
        if call.stage == "extract" and _extracted(server.calls).total() == 4:
            failed.add(_partition(call))
            return Reply(status=401)
        return faithful(call)

    server.script = last_fails
    retriever = FixedRetriever(documents=make_documents(16, about=0))
    built = build_graph(model=chat_model, retriever=retriever, checkpointer=InMemorySaver())
    context = Settings(route="map_reduce", max_retries=0, max_concurrent_calls=1)

    def run() -> Any:
        with pytest.raises(ModelSetupError):
            built.invoke(ASKED, THREAD, context=context)
        return built.invoke(None, THREAD, context=context)

    async def arun() -> Any:
        with pytest.raises(ModelSetupError):
            await built.ainvoke(ASKED, THREAD, context=context)
        return await built.ainvoke(None, THREAD, context=context)

    answer = (asyncio.run(arun()) if asynchronous else run())["answer"]
    others = set(range(4)) - failed
    assert _extracted(server.calls) == dict.fromkeys(others, 1) | dict.fromkeys(failed, 2)
    assert [extraction["status"] for extraction in answer["extractions"]] == ["evidence"] * 4
    assert answer["usage"]["calls"] == 6, "four extractions, the reduction and the verification"
