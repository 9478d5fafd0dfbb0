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
from briefcontext.guard import Guard, Limits, checked_tokens

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
    guarded = client(limits=Limits(body_bytes=10), large={"/file": 20})
    statuses = [
        guarded.post(path, content=b"x" * size, headers={"Content-Type": "application/json"}).status_code
        for path in ("/file", "/file/", "/question")
        for size in (10, 20, 21)
    ]
    assert statuses == [200, 200, 413, 200, 413, 413, 200, 413, 413]


def test_open_paths_need_no_token_and_nothing_beside_them_is_open() -> None:
    guarded = client("192.0.2.7", tokens=TOKENS, open_paths={"/", "/page.js"})
    statuses = {path: guarded.get(path).status_code for path in ("/", "/page.js", "/page.js/", "/PAGE.JS", "/x")}
    assert statuses == {"/": 200, "/page.js": 200, "/page.js/": 401, "/PAGE.JS": 401, "/x": 401}


@pytest.mark.parametrize("token", TOKENS)
def test_each_token_lets_in_from_anywhere(token: str) -> None:
    answered = client("192.0.2.7", tokens=TOKENS).get("/x", headers={"Authorization": f"Bearer {token}"})
    assert answered.status_code == 200


def test_a_minutes_questions_of_one_client_and_of_all() -> None:
    guard = Guard(APP, tokens=TOKENS, limits=Limits(questions_per_minute=3))

    def ask(peer: str, token: str) -> int:
        asking = TestClient(guard, base_url="http://localhost", client=(peer, 1))
        return asking.post("/", json={}, headers={"Authorization": f"Bearer {token}"}).status_code

    assert [ask("192.0.2.7", TOKENS[0]) for _ in range(5)] == [200, 200, 200, 429, 429]
    assert ask("192.0.2.7", TOKENS[1]) == 200
    others = [ask(f"192.0.2.{number}", TOKENS[0]) for number in range(8, 23)]
    assert others.count(200) == 15 - 4


def test_a_request_may_ask_several_questions_and_reading_asks_none() -> None:
    guarded = client(limits=Limits(questions_per_minute=3), asked=lambda path, body: (len(body) - 2, body))
    assert [guarded.get("/").status_code for _ in range(5)] == [200] * 5
    assert [
        guarded.post("/", content=body, headers={"Content-Type": "application/json"}).status_code
        for body in (b"[11]", b"[11]", b"[1]", b"[]")
    ] == [200, 429, 200, 200]


class Client:
    """A client at this machine that sends and takes as it is told, in the same event loop as the guard."""

    def __init__(self, *messages: Message) -> None:
        self.sent = [*messages]
        self.left = asyncio.Event()
        self.takes = True
        self.told: list[Message] = []

    async def receive(self) -> Message:
        if self.sent:
            return self.sent.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self.takes:
            await asyncio.Event().wait()
        self.told.append(message)

    async def ask(self, guard: Guard) -> None:
        scope = {"type": "http", "method": "POST", "path": "/", "headers": JSON, "client": LOCAL, "query_string": b""}
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


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    caller = Client(HALF)
    await caller.ask(Guard(APP, limits=Limits(seconds_to_send=0.01)))
    assert caller.told[0]["status"] == 408


async def test_few_files_are_taken_at_once() -> None:
    working = Working()
    guard = Guard(working, large={"/": 100})
    callers = [Client(WHOLE) for _ in range(8)]
    asking = [asyncio.create_task(caller.ask(guard)) for caller in callers]
    while sum(len(caller.told) for caller in callers) < 8:
        await asyncio.sleep(0)
    more = Client(WHOLE)
    await more.ask(guard)
    assert more.told[0]["status"] == 429
    for caller in callers:
        caller.left.set()
    await asyncio.gather(*asking)


async def test_a_client_that_takes_nothing_is_not_waited_for() -> None:
    caller = Client(WHOLE)
    caller.takes = False
    await caller.ask(Guard(APP, limits=Limits(seconds_to_take=0.01)))
    assert caller.told == []


async def test_requests_at_once_of_one_client_are_limited_and_those_that_ended_do_not_count() -> None:
    working = Working()
    guard = Guard(working, limits=Limits(requests_at_once=2))
    callers = [Client(WHOLE) for _ in range(2)]
    asking = [asyncio.create_task(caller.ask(guard)) for caller in callers]
    while sum(len(caller.told) for caller in callers) < 2:
        await working.begun.wait()
        await asyncio.sleep(0)
    third = Client(WHOLE)
    await third.ask(guard)
    assert third.told[0]["status"] == 429
    for caller in callers:
        caller.left.set()
    await asyncio.gather(*asking)
    fourth = Client(WHOLE)
    fourth.left.set()
    await fourth.ask(guard)
    assert fourth.told[0]["status"] == 200


async def test_a_reply_that_is_whole_holds_no_place_while_the_app_still_ends() -> None:
    async def lingering(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"2"})
        await asyncio.Event().wait()

    guard = Guard(lingering, limits=Limits(requests_at_once=1))
    first, second, third = Client(WHOLE), Client(WHOLE), Client(WHOLE)
    asking = [asyncio.create_task(first.ask(guard))]
    while len(first.told) < 2:
        await asyncio.sleep(0)
    await second.ask(guard)
    while len(first.told) < 3:
        await asyncio.sleep(0)
    asking.append(asyncio.create_task(third.ask(guard)))
    while not third.told:
        await asyncio.sleep(0)
    assert [caller.told[0]["status"] for caller in (first, second, third)] == [200, 429, 200]
    for caller in (first, third):
        caller.left.set()
    await asyncio.gather(*asking)


async def test_nothing_but_http_is_spoken() -> None:
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    await Guard(APP)({"type": "websocket", "path": "/", "headers": JSON}, Client().receive, send)
    assert [message["type"] for message in told] == ["websocket.close"]


@pytest.mark.parametrize("variable", ["BRIEFCONTEXT_QUESTIONS_PER_MINUTE", "BRIEFCONTEXT_REQUESTS_AT_ONCE"])
def test_limits_come_from_the_environment(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "7")
    assert 7 in (Limits.from_environment().questions_per_minute, Limits.from_environment().requests_at_once)
    for given in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv(variable, given)
        with pytest.raises(InputError, match=f"{variable} = '{given}': it must be a whole number above 0"):
            Limits.from_environment()


def test_several_tokens_stand_with_spaces_between() -> None:
    assert checked_tokens(" ".join(TOKENS)) == TOKENS
    with pytest.raises(InputError, match="at least 16"):
        checked_tokens(f"{TOKENS[0]} short")
