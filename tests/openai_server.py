"""A chat-completions server on loopback for the tests, with scripted replies and faults."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.loopback import PATIENCE, serve_app

DOCUMENT = re.compile(r'<document key="(?P<key>\w+)">\n(?P<text>.*?)\n</document>', re.DOTALL)
EVIDENCE = re.compile(r'^\[(?P<key>\w+)\](?: \([^)]*\))? "', re.MULTILINE)


@dataclass
class Call:
    """A request as the server received it."""

    number: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def system(self) -> str:
        """The system message."""
        return str(self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])

    @property
    def prompt(self) -> str:
        """All messages."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def stage(self) -> str:
        """Which of the prompts this is."""
        if self.system.startswith("Copy out"):
            return "extract"
        if self.system.startswith("You check sentences"):
            return "verify"
        return "reduce" if "that readers copied out" in self.system else "answer"

    @property
    def documents(self) -> list[tuple[str, str]]:
        """The documents in the prompt, as (key, text)."""
        return [(found["key"], found["text"]) for found in DOCUMENT.finditer(self.prompt)]


@dataclass
class Reply:
    """What the server sends."""

    content: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Sent in place of a well-formed body."""
    drop: bool = False
    """The connection breaks before a reply."""
    hold: bool = False
    """There is no reply before the client hangs up, or the server ends."""
    arguments: str | list[str] | None = None
    """Arguments of one call or several of the offered function, in place of the content."""
    refusal: str | None = None
    """In place of the content, why the model will not answer; not streamed."""
    finish: str | None = "stop"
    """Why the model stopped."""
    pieces: list[str] | None = None
    """In place of the content, the tokens that it is streamed in; otherwise they are its words."""
    cached_tokens: int = 0
    """Tokens of the prompt that the provider had in its cache."""
    reported: bool = True
    """Whether it says how many tokens there were."""

    def __post_init__(self) -> None:
        self.content = "".join(self.pieces) if self.pieces else self.content


Script = Callable[[Call], Reply]


def faithful(call: Call) -> Reply:
    """Quote the first sentence of every document, and cite all evidence."""
    sentences = [(key, _first_sentence(text)) for key, text in call.documents]
    if call.stage == "extract":
        quotes = [{"key": key, "quote": quote} for key, quote in sentences]
        found = {"relevant": True, "quotes": quotes, "finding": "It is so.", "confidence": 0.8}
        return Reply(json.dumps(found))
    if call.stage == "reduce":
        keys = EVIDENCE.findall(call.user)
        return Reply(" ".join(f"Point holds [{key}]." for key in keys))
    text = " ".join(f"Point holds [{key}]." for key, _ in sentences)
    return Reply(text + "\nQuotes:\n" + "\n".join(f'[{key}] "{quote}"' for key, quote in sentences))


def _first_sentence(text: str) -> str:
    return text.split("\n")[-1].split(". ")[0]


def all_supported(call: Call) -> Reply:
    """Verify each sentence as supported."""
    numbers = re.findall(r"<sentence number=(\d+)", call.user)
    return Reply(
        json.dumps({"verdicts": [verdict(int(number), "supported") for number in numbers]})
    )


def verdict(sentence: int, verdict: str, difference: str = "") -> dict[str, Any]:
    """Return a verdict as the model is asked for it."""
    return {"sentence": sentence, "verdict": verdict, "difference": difference}


class OpenAIServer:
    """Answers `POST /v1/chat/completions`, streamed or not, and remembers every call.

    `script` makes the replies, but for verifications, which `verify` answers. With `together = n`,
    extractions are answered only once n of them are in flight at the same time, and in reverse
    order.
    """

    def __init__(self) -> None:
        self.url = ""
        self.script: Script = faithful
        self.verify: Script = all_supported
        self.calls: list[Call] = []
        """All calls but verifications."""
        self.verifications: list[Call] = []
        self.arrived = 0
        """Requests begun; calls are those that were read to their end."""
        self.hang_up: Callable[[Any], None] = lambda client: None
        self.hung_up = threading.Semaphore(0)
        """Released for each held call whose client has hung up."""
        self.together = 0
        self._gathered: list[int] = []
        self._changed = asyncio.Condition()

    @property
    def all_calls(self) -> list[Call]:
        """Verifications, too."""
        return [*self.calls, *self.verifications]

    def stages(self) -> list[str]:
        """The stage of each call, in order of arrival."""
        return [call.stage for call in self.calls]

    async def complete(self, request: HTTPRequest) -> Response:
        """Answer one call."""
        self.arrived += 1
        body = await request.json()
        # Counted after the wait, so that no two calls have one number.
        call = Call(len(self.calls), body, dict(request.headers))
        (self.verifications if call.stage == "verify" else self.calls).append(call)
        if self.together and call.stage == "extract":
            await self._gather(call.number)
        reply = self.verify(call) if call.stage == "verify" else self.script(call)
        if reply.hold:
            await request.receive()
            self.hung_up.release()
        if reply.drop or reply.hold:
            self.hang_up(request.client)
            return Response()
        if reply.raw is not None:
            return Response(reply.raw, reply.status, reply.headers, media_type="application/json")
        if reply.status != 200:
            error = {
                "error": {"message": reply.content or "scripted", "type": "scripted", "code": None}
            }
            return JSONResponse(error, reply.status, reply.headers)
        usage = _usage(call, reply)
        if call.body.get("stream"):
            return StreamingResponse(_stream(call, reply, usage), media_type="text/event-stream")
        choice = {"index": 0, "message": _message(call, reply), "finish_reason": reply.finish}
        return JSONResponse({**_head(call, "chat.completion"), "choices": [choice], "usage": usage})

    async def _gather(self, number: int) -> None:
        async with self._changed:
            self._gathered.append(number)
            self._changed.notify_all()
            everybody = self._changed.wait_for(lambda: len(self._gathered) >= self.together)
            await asyncio.wait_for(everybody, PATIENCE)
            await self._changed.wait_for(lambda: max(self._gathered) == number)
            self._gathered.remove(number)
            self.together -= 1
            self._changed.notify_all()


def _head(call: Call, kind: str) -> dict[str, Any]:
    return {"id": f"call-{call.number}", "object": kind, "created": 0, "model": call.body["model"]}


def _message(call: Call, reply: Reply) -> dict[str, Any]:
    if reply.refusal is not None:
        return {"role": "assistant", "content": None, "refusal": reply.refusal}
    if reply.arguments is None:
        return {"role": "assistant", "content": reply.content}
    name = call.body["tools"][0]["function"]["name"]
    calls = [
        {
            "index": index,
            "id": f"function-{call.number}-{index}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, arguments in enumerate(
            [reply.arguments] if isinstance(reply.arguments, str) else reply.arguments
        )
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _usage(call: Call, reply: Reply) -> dict[str, Any] | None:
    if not reply.reported:
        return None
    given, made = len(call.prompt) // 4, max(1, len("".join(reply.arguments or reply.content)) // 4)
    counts = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return {**counts, "prompt_tokens_details": {"cached_tokens": reply.cached_tokens}}


async def _stream(call: Call, reply: Reply, usage: dict[str, Any] | None) -> AsyncIterator[str]:
    head = _head(call, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": piece}
        for piece in reply.pieces or re.findall(r"\S+\s*|\s+", reply.content)
    ]
    for delta in [_message(call, reply)] if reply.arguments is not None else deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
    if reply.finish is None:
        return
    last = {"index": 0, "delta": {}, "finish_reason": reply.finish}
    yield f"data: {json.dumps({**head, 'choices': [last]})}\n\n"
    if (call.body.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


@contextmanager
def serve(port: int = 0) -> Iterator[OpenAIServer]:
    """Run a server on loopback, on a free port unless one is named."""
    fake = OpenAIServer()
    app = Starlette(routes=[Route("/v1/chat/completions", fake.complete, methods=["POST"])])
    # LangChain keeps a client, and its idle connections, for as long as the process lives, and an
    # event loop that ends before them leaves them open. So there are none.
    with serve_app(app, port=port, headers=[("Connection", "close")]) as server:
        fake.url, fake.hang_up = f"{server.url}/v1", server.hang_up
        yield fake
