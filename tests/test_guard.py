"""The guard of the servers, in front of an application of a few lines."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from briefcontext.guard import Guard

TOKENS = ("correct-horse-battery-staple", "incorrect-donkey-battery-staple")
LOCAL = ("127.0.0.1", 50000)
JSON = [(b"content-type", b"application/json"), (b"host", b"localhost")]


async def echo(request: Request) -> Response:
    return JSONResponse({"body": (await request.body()).decode()})


APP = Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST"])])


def client(peer: str = LOCAL[0], **guard: Any) -> TestClient:
    return TestClient(Guard(APP, **guard), base_url="http://localhost", client=(peer, 1))


OURS = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("127.0.0.1", {"Host": "127.8.8.8:9"}, 200),
        ("127.0.0.1", {"Host": "[::1]:8000"}, 200),
        ("127.0.0.1", OURS, 200),
        ("192.168.1.9", {}, 403),
        ("::ffff:10.0.0.1", {}, 403),
        ("unknown", {}, 403),
        ("127.0.0.1", {"Host": "attacker.example"}, 421),
        ("127.0.0.1", {"Host": "127.0.0.1.attacker.example"}, 421),
        ("127.0.0.1", {"Host": "["}, 421),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 403),
        ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}, 403),
        ("127.0.0.1", {"Origin": "https://attacker.example"}, 403),
        ("127.0.0.1", {"Origin": "http://localhost:9999"}, 403),
        ("127.0.0.1", {"Origin": "null"}, 403),
        ("127.0.0.1", {**OURS, "Sec-Fetch-Site": "cross-site"}, 403),
        ("127.0.0.1", {"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_without_a_token_only_this_machine_may_ask(
    peer: str, headers: dict[str, str], status: int
) -> None:
    answered = client(peer).post("/", json={}, headers=headers)
    assert answered.status_code == status


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Basic {TOKENS[0]}", 401),
        (f"Bearer {TOKENS[0]}x", 401),
        ("Bearer t\u00f6ken", 401),
        (f"Bearer {TOKENS[0]}", 200),
        (f"bearer {TOKENS[1]}", 200),
    ],
)
def test_with_a_token_any_machine_may_ask(authorization: str | None, status: int) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    answered = client("192.0.2.7", tokens=TOKENS).get("/x", headers=headers)
    assert answered.status_code == status


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json; charset=utf-8", b"{}", 200),
        ("", b"x", 415),
        ("text/plain", b"{}", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
    ],
)
def test_only_json_is_accepted(kind: str, body: bytes, status: int) -> None:
    headers = {"Content-Type": kind} if kind else {}
    assert client().post("/", content=body, headers=headers).status_code == status


def test_an_upload_path_accepts_longer_bodies() -> None:
    guarded = client(body_bytes=10, large={"/file": 20})
    statuses = [
        guarded.post(
            path, content=b"x" * size, headers={"Content-Type": "application/json"}
        ).status_code
        for path in ("/file", "/file/", "/question")
        for size in (10, 20, 21)
    ]
    assert statuses == [200, 200, 413, 200, 413, 413, 200, 413, 413]


def test_only_open_paths_need_no_token() -> None:
    guarded = client("192.0.2.7", tokens=TOKENS, open_paths={"/", "/page.js"})
    statuses = {
        path: guarded.get(path).status_code
        for path in ("/", "/page.js", "/page.js/", "/PAGE.JS", "/x")
    }
    assert statuses == {"/": 200, "/page.js": 200, "/page.js/": 401, "/PAGE.JS": 401, "/x": 401}


class Client:
    """A client at this machine that sends and takes that its messages describe."""

    def __init__(self, *messages: Message) -> None:
        self.sent = [*messages]
        self.left = asyncio.Event()
        self.replies: list[Message] = []

    async def receive(self) -> Message:
        if self.sent:
            return self.sent.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.replies.append(message)

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


async def test_a_disconnect_cancels_the_work() -> None:
    working, caller = Working(), Client(WHOLE)
    asking = asyncio.create_task(caller.ask(Guard(working)))
    await working.begun.wait()
    assert not working.ended.is_set()
    caller.left.set()
    await asking
    assert working.ended.is_set()


async def test_a_disconnect_before_the_end_of_the_body_starts_nothing() -> None:
    working, caller = Working(), Client(HALF)
    caller.left.set()
    await caller.ask(Guard(working))
    assert not working.begun.is_set()
    assert caller.replies[0]["status"] == 400
