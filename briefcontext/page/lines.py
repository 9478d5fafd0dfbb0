"""A run of the graph as lines of JSON for a browser."""

import json
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.documents import Document
from langgraph.graph.state import CompiledStateGraph
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from briefcontext.chains.answer import Answer
from briefcontext.chains.plain_text import answer_text, describe_passage, quotes_text
from briefcontext.chains.references import REFERENCE_FORMATS, write_references
from briefcontext.errors import BriefContextError
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.resources import fitting
from briefcontext.graphs.settings import Settings

Line = dict[str, Any]

_log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024
"""Limit of bytes for one question's reply."""
_MOST_CHARACTERS = 500_000
"""Limit of characters of a whole source, about 80,000 words."""
_TOO_LONG: Line = {
    "event": "error",
    "kind": "ReplyTooLong",
    "message": f"The reply exceeds {MOST_BYTES // 1024**2} MiB. Ask for fewer documents.",
}
UNEXPECTED = "Unexpected error. See the server's log."


async def run(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    question: Mapping[str, Any],
    settings: Settings,
    *,
    ranking: str = "retrieved",
) -> AsyncGenerator[Line]:
    """Answer a question, and yield each step.

    These events are added to those of the graph and the answer's tokens (`graphs/events.py`):
    `documents` (all that were retrieved), `preflight` (both rankings), `partitions` (the ids of
    each one's documents), `extraction`, and finally `answer` or `error` with its kind and message.
    `ranking` is the page's name of the documents' order. The answer follows its verification.
    """
    parts: Any = graph.astream(
        question, context=settings, stream_mode=["custom", "messages", "updates"]
    )
    tokens = AnswerTokens()
    answers: list[Answer] = []
    try:
        async for mode, part in parts:
            if mode == "messages":
                for token in tokens.read(part):
                    yield dict(token)
            elif mode == "updates":
                for update in filter(lambda each: isinstance(each, Mapping), part.values()):
                    answers += [update["answer"]] if "answer" in update else []
                    for line in _told(update, ranking):
                        yield line
            elif isinstance(part, Mapping) and isinstance(part.get("event"), str):
                yield dict(part)
        for answer in answers[-1:]:
            formats = {
                name: write_references(answer["references"], name) for name in REFERENCE_FORMATS
            }
            cited = f"References:\n{formats['nlm']}".strip() if formats["nlm"] else ""
            copied = [answer_text(answer), quotes_text(answer), cited]
            yield {
                "event": "answer",
                "answer": answer,
                "formats": formats,
                "text": "\n\n".join(filter(None, copied)),
            }
    except BriefContextError as error:
        yield {"event": "error", "kind": type(error).__name__, "message": str(error)}
    except Exception:  # noqa: BLE001 - whatever it is, the page must learn that no answer comes
        _log.exception("A question of the page failed.")
        yield {"event": "error", "kind": "UnexpectedError", "message": UNEXPECTED}


def _told(update: Mapping[str, Any], ranking: str) -> Iterator[Line]:
    if "ranking" in update:
        documents = [
            {**describe_passage(document), "rank": place}
            for place, document in enumerate(update["ranking"], 1)
        ]
        yield {
            "event": "documents",
            "documents": documents,
            "retracted": update.get("retracted", []),
        }
    if "preflight" in update:
        yield {
            "event": "preflight",
            "preflight": update["preflight"],
            "route": update.get("route"),
            "ranking": ranking,
        }
    if "partitions" in update:
        partitions = [
            [str(document.id) for document in partition] for partition in update["partitions"]
        ]
        yield {"event": "partitions", "partitions": partitions}
    for extraction in update.get("extractions", []) if "ranking" not in update else ():
        yield {"event": "extraction", "extraction": extraction}


def listed(documents: Sequence[Document]) -> Line:
    """Return the passages of a source, up to the limit of characters."""
    shown = fitting(documents, _MOST_CHARACTERS)
    return {
        "passages": [describe_passage(document) for document in shown],
        "left_out": len(documents) - len(shown),
    }


class JSONLines(Response):
    """Sends lines as they come, up to a length. When the client leaves, it cancels their source."""

    media_type = "application/x-ndjson"

    def __init__(self, lines: AsyncGenerator[Line]) -> None:
        self._lines = lines
        self.status_code = 200
        self.background = None
        self.init_headers({"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = MOST_BYTES
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async with aclosing(self._lines) as lines:
            async for line in lines:
                # ASCII, because lone surrogates in a model's words cannot be encoded otherwise.
                body = json.dumps(line, default=str).encode("ascii") + b"\n"
                left -= len(body)
                if left < 0:
                    body = json.dumps(_TOO_LONG).encode("ascii") + b"\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
                if left < 0:
                    break
        await send({"type": "http.response.body", "body": b"", "more_body": False})
