"""Streams many runs, each in a given time: `python -m tests.streamed_runs URL COMBINATIONS`, these as JSON.

A combination is whether to stream asynchronously, the stream modes, `max_concurrent_calls`, and the
number of partitions. It writes a line of JSON for each; one that hangs ends the process, with the
stacks of all threads on standard error.
"""

import asyncio
import faulthandler
import json
import sys
from collections import Counter
from typing import Any

from langchain_openai import ChatOpenAI

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents

LONGEST = 60.0
"""Seconds for one run."""


def _collect(
    runner: asyncio.Runner,
    url: str,
    asynchronous: bool,
    modes: list[str],
    in_flight: int,
    partitions: int,
) -> list[Any]:
    model = ChatOpenAI(model="scripted", base_url=url, api_key="none", max_retries=0)
    built: Any = build_graph(
        model=model, retriever=FixedRetriever(documents=make_documents(partitions, about=0))
    )
    context = Settings(
        route="map_reduce",
        top_k=partitions,
        partition_size=1,
        max_concurrent_calls=in_flight,
        max_retries=0,
    )
    arguments = {"context": context, "stream_mode": modes if len(modes) > 1 else modes[0]}

    async def collect() -> list[Any]:
        return [part async for part in built.astream({"question": QUESTION}, **arguments)]

    parts = (
        runner.run(collect())
        if asynchronous
        else list(built.stream({"question": QUESTION}, **arguments))
    )
    return parts if len(modes) > 1 else [(modes[0], part) for part in parts]


def _summary(parts: list[Any]) -> dict[str, Any]:
    """Say how many parts came in each mode, which events, the text of the messages, and the last values."""
    by_mode: dict[str, list[Any]] = {}
    for mode, part in parts:
        by_mode.setdefault(mode, []).append(part)
    values = by_mode.get("values", [{}])[-1]
    return {
        "parts": {mode: len(found) for mode, found in by_mode.items()},
        "events": Counter(event["event"] for event in by_mode.get("custom", [])),
        "updates": Counter(node for update in by_mode.get("updates", []) for node in update),
        "text": "".join(message.text for message, _ in by_mode.get("messages", [])),
        "extractions": len(values["answer"]["extractions"]) if values else None,
    }


def main(url: str, combinations: str) -> None:
    # One event loop for all, since the client's pool keeps connections that belong to the first.
    with asyncio.Runner() as runner:
        for combination in json.loads(combinations):
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            summary = _summary(_collect(runner, url, *combination))
            sys.stdout.write(json.dumps(summary) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
