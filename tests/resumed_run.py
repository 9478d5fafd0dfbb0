"""A run to kill and resume: `python -m tests.resumed_run start|resume sync|async URL DATABASE`.

The database is an SQLite file, or the address of a PostgreSQL server. It writes a line "extraction
N" when the database has N extractions that a resumed run will find, and in the end the answer as
JSON.
"""

import asyncio
import faulthandler
import json
import sys
import threading
from collections.abc import Sequence
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents

THREAD: Any = {"configurable": {"thread_id": "killed"}}
SETTINGS = Settings(route="map_reduce", max_retries=0)
LONGEST = 60.0
"""Seconds after which a run that hangs ends itself."""


class Reporter:
    """Prints a line for each extraction whose checkpoint is stored."""

    def __init__(self) -> None:
        self._checkpoints: set[str] = set()
        self._extractions: list[str] = []
        self._reported = 0
        self._lock = threading.Lock()

    def checkpoint(self, id: str) -> None:
        with self._lock:
            self._checkpoints.add(id)
            self._report()

    def writes(self, config: Any, writes: Sequence[tuple[str, Any]]) -> None:
        if any(channel == "extractions" and isinstance(value, list) for channel, value in writes):
            with self._lock:
                self._extractions.append(config["configurable"]["checkpoint_id"])
                self._report()

    def _report(self) -> None:
        for _ in range(self._reported, sum(id in self._checkpoints for id in self._extractions)):
            self._reported += 1
            sys.stdout.write(f"extraction {self._reported}\n")
            sys.stdout.flush()


reporter = Reporter()


def reporting(saver: Any) -> Any:
    """Return a checkpointer's class that reports the contents of its database."""

    class Reporting(saver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            saved = super().put(config, checkpoint, metadata, new_versions)
            reporter.checkpoint(checkpoint["id"])
            return saved

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            reporter.writes(config, writes)

        async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            saved = await super().aput(config, checkpoint, metadata, new_versions)
            reporter.checkpoint(checkpoint["id"])
            return saved

        async def aput_writes(
            self, config: Any, writes: Any, task_id: str, task_path: str = ""
        ) -> None:
            await super().aput_writes(config, writes, task_id, task_path)
            reporter.writes(config, writes)

    return Reporting


def _graph(url: str, checkpointer: Any) -> Any:
    model = ChatOpenAI(model="scripted", base_url=url, api_key="none", max_retries=0)
    retriever = FixedRetriever(documents=make_documents(16, about=0))
    return build_graph(model=model, retriever=retriever, checkpointer=checkpointer)


def _run(given: Any, url: str, database: str) -> Any:
    if not database.startswith("postgresql:"):
        with reporting(SqliteSaver).from_conn_string(database) as saver:
            return _graph(url, saver).invoke(given, THREAD, context=SETTINGS)
    with reporting(PostgresSaver).from_conn_string(database) as saver:
        saver.setup()
        return _graph(url, saver).invoke(given, THREAD, context=SETTINGS)


async def _arun(given: Any, url: str, database: str) -> Any:
    if not database.startswith("postgresql:"):
        async with reporting(AsyncSqliteSaver).from_conn_string(database) as saver:
            return await _graph(url, saver).ainvoke(given, THREAD, context=SETTINGS)
    async with reporting(AsyncPostgresSaver).from_conn_string(database) as saver:
        await saver.setup()
        return await _graph(url, saver).ainvoke(given, THREAD, context=SETTINGS)


def main(step: str, way: str, *rest: str) -> None:
    given = {"question": QUESTION} if step == "start" else None
    result = asyncio.run(_arun(given, *rest)) if way == "async" else _run(given, *rest)
    sys.stdout.write(json.dumps(result["answer"]))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    main(*sys.argv[1:])
