"""The guard of the servers, in front of an application of a few lines."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from briefcontext.errors import InputError
from briefcontext.guard import Guard, Refused, checked_tokens

TOKENS = ("correct-horse-battery-staple", "incorrect-donkey-battery-staple")
LOCAL = ("127.0.0.1", 50000)
JSON = [(b"content-type", b"application/json"), (b"host", b"localhost")]


async def echo(request: Request) -> Response:
    return JSONResponse({"body": (await request.body()).decode()})


APP = Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST"])])


def client(peer: str = LOCAL[0], **guard: Any) -> TestClient:
    return TestClient(Guard(APP, **guard), base_url="http://localhost", client=(peer, 1))


def test_a_body_is_passed_on_whole() -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b'{"question"', b": ", b'"x"}')

    answered = client().post("/", content=pieces(), headers={"Content-Type": "application/json"})
    assert answered.json() == {"body": '{"question": "x"}'}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 200),
        ("application/json; charset=utf-8", b"{}", 200),
        ("", b"", 200),
        ("", b"x", 415),
        ("text/plain", b"{}", 415),
        ("text/plain", b"", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
    ],
)
def test_only_json_is_taken(kind: str, body: bytes, status: int) -> None:
    headers = {"Content-Type": kind} if kind else {}
    assert client().post("/", content=body, headers=headers).status_code == status


def test_a_path_that_takes_files_takes_longer_bodies_than_the_others() -> None:
    guarded = client(body_bytes=10, large={"/file": 20})
    statuses = [
        guarded.post(
            path, content=b"x" * size, headers={"Content-Type": "application/json"}
        ).status_code
        for path in ("/file", "/file/", "/question")
        for size in (10, 20, 21)
    ]
    assert statuses == [200, 200, 413, 200, 413, 413, 200, 413, 413]


def test_open_paths_need_no_token_and_nothing_beside_them_is_open() -> None:
    guarded = client("192.0.2.7", tokens=TOKENS, open_paths={"/", "/page.js"})
    statuses = {
        path: guarded.get(path).status_code
        for path in ("/", "/page.js", "/page.js/", "/PAGE.JS", "/x")
    }
    assert statuses == {"/": 200, "/page.js": 200, "/page.js/": 401, "/PAGE.JS": 401, "/x": 401}


@pytest.mark.parametrize("token", TOKENS)
def test_each_token_lets_in_from_anywhere(token: str) -> None:
    answered = client("192.0.2.7", tokens=TOKENS).get(
        "/x", headers={"Authorization": f"Bearer {token}"}
    )
    assert answered.status_code == 200


def test_a_request_can_be_checked_and_its_body_replaced() -> None:
    def check(scope: Any, body: bytes) -> bytes:
        if scope["path"] == "/refused":
            raise Refused(403, "No.")
        return body.upper()

    guarded = client(check=check)
    assert guarded.post("/x", json="abc").json() == {"body": '"ABC"'}
    assert guarded.get("/refused").json() == {"error": {"kind": "Refused", "message": "No."}}


class Client:
    """A client at this machine that sends and takes as it is told, in the same event loop as the guard."""

    def __init__(self, *messages: Message) -> None:
        self.sent = [*messages]
        self.left = asyncio.Event()
        self.told: list[Message] = []

    async def receive(self) -> Message:
        if self.sent:
            return self.sent.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.told.append(message)

    async def ask(self, guard: Guard) -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": JSON,
            "client": LOCAL,
            "query_string": b"",
        }
        await guard(scope, self.receive, self.send)


WHOLE: Message = {"type": "http.request", "body": b"{}", "more_body": False}
HALF: Message = {"type": "http.request", "body": b"{", "more_body": True}


class Working:
    """An application that works until it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_a_client_that_leaves_stops_what_works_for_it() -> None:
    working, caller = Working(), Client(WHOLE)
    asking = asyncio.create_task(caller.ask(Guard(working)))
    await working.begun.wait()
    assert not working.ended.is_set()
    caller.left.set()
    await asking
    assert working.ended.is_set()


async def test_a_client_that_leaves_before_its_body_ends_starts_nothing() -> None:
    working, caller = Working(), Client(HALF)
    caller.left.set()
    await caller.ask(Guard(working))
    assert not working.begun.is_set()
    assert caller.told[0]["status"] == 400


async def test_nothing_but_http_is_spoken() -> None:
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    await Guard(APP)({"type": "websocket", "path": "/", "headers": JSON}, Client().receive, send)
    assert [message["type"] for message in told] == ["websocket.close"]


def test_several_tokens_stand_with_spaces_between() -> None:
    assert checked_tokens(" ".join(TOKENS)) == TOKENS
    with pytest.raises(InputError, match="at least 16"):
        checked_tokens(f"{TOKENS[0]} short")
