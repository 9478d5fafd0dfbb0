"""The door of every server: whom it lets in, and how much of what one client may send, ask and hold open."""

import asyncio
import hmac
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from briefcontext.errors import InputError

_MIN_TOKEN_CHARACTERS = 16
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_READS = ("GET", "HEAD", "OPTIONS")
_TOLD = {401: ("TokenRequired", {"WWW-Authenticate": "Bearer"}), 429: ("Refused", {"Retry-After": "60"})}
"""The kind and the headers of refusals, by status, where they have some of their own."""
_LARGE_AT_ONCE = 8
"""Requests to paths of long bodies, of all clients together."""


@dataclass(frozen=True)
class Limits:
    """What clients may do. A client is an address with its token."""

    questions_per_minute: int = 60
    """Of one client; five times as many of all."""
    requests_at_once: int = 16
    """Of one client; four times as many of all."""
    body_bytes: int = 256 * 1024
    """Enough for the longest question that is taken, with options, however its characters are written."""
    seconds_to_send: float = 10.0
    """For the whole body of a request; six times as long for a file."""
    seconds_to_take: float = 30.0
    """For a piece of the reply."""

    @classmethod
    def from_environment(cls) -> "Limits":
        """Return the limits that the environment sets; raises InputError where one is no number above 0."""
        return cls(
            _number("BRIEFCONTEXT_QUESTIONS_PER_MINUTE", cls.questions_per_minute),
            _number("BRIEFCONTEXT_REQUESTS_AT_ONCE", cls.requests_at_once),
        )


def _number(variable: str, default: int) -> int:
    given = os.environ.get(variable) or str(default)
    if not given.isdecimal() or int(given) < 1:
        raise InputError(f"{variable} = {given!r}: it must be a whole number above 0.")
    return int(given)


class Refused(HTTPException):
    """A request that is not let in, with the HTTP status that says why."""


def refusal(status: int, message: str, *, kind: str = "Refused", headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as JSON: `{"error": {"kind": …, "message": …}}`."""
    return JSONResponse({"error": {"kind": kind, "message": message}}, status, headers)


def objects(body: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects that a body is or lists; nothing of what is no JSON."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, dict)]


def checked_tokens(given: str) -> tuple[str, ...]:
    """Return the tokens in a text, separated by spaces: none of them can be guessed soon, and all can be sent.

    Raises:
        InputError: there is none, one is too short, or cannot stand in a header.
    """
    tokens = tuple(given.split())
    if not tokens or any(
        len(token) < _MIN_TOKEN_CHARACTERS or not all("!" <= sign <= "~" for sign in token) for token in tokens
    ):
        raise InputError(
            f"The token must have at least {_MIN_TOKEN_CHARACTERS} letters, digits or signs, without spaces. Make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return tokens


def is_loopback(host: str) -> bool:
    """Return whether a host, without its port, is this machine by name or by address."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def admit(scope: Scope, tokens: Sequence[str]) -> str:
    """Return who sends a request: the owner of a token, by its fingerprint, or `local` where there are no tokens.

    With tokens, a client sends one as `Authorization: Bearer TOKEN`: a header is neither logged as an address is, nor
    sent along from other sites as a cookie is. Without any, only this machine may ask: the client and the name in the
    Host header, also of a page whose name was rebound to 127.0.0.1, must be loopback, and no proxy may stand between.

    Raises:
        Refused: the request is not let in.
    """
    connection = HTTPConnection(scope)
    headers = connection.headers
    if tokens:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        sent = given.strip().encode() if scheme.lower() == "bearer" else b""
        found = [token for token in tokens if hmac.compare_digest(sent, token.encode())]
        if not found:
            raise Refused(401, "This server needs its token, in the header Authorization: Bearer …")
        return sha256(found[0].encode()).hexdigest()[:32]
    if not is_loopback(_hostname(headers.get("host", ""))):
        raise Refused(421, "Without a token, this server answers only to the name localhost. Start it with a token.")
    forwarded = any(name in headers for name in _FORWARDED)
    if forwarded or connection.client is None or not is_loopback(connection.client.host):
        raise Refused(403, "Without a token, this server is for the machine that it runs on. Start it with a token.")
    return "local"


@dataclass(eq=False)
class Guard:
    """Lets in who may ask (`admit`), no page of another site, and of each client no more than the limits.

    A body is taken whole before it is passed on. When the client leaves, or takes nothing for too long, what works
    for it is cancelled.
    """

    app: ASGIApp
    """What it guards."""
    _: KW_ONLY
    tokens: Sequence[str] = ()
    """Those that clients may send; without any, only this machine may ask."""
    open_paths: Collection[str] = ()
    """What needs no token, since it is the same for everybody."""
    origins: Collection[str] = ()
    """Pages of other sites that may ask."""
    asked: Callable[[str, bytes], tuple[int, bytes]] = lambda path, body: (1, body)
    """Returns how many questions a POST asks, by its path and body, and the body that the app gets; may raise Refused.
    """
    limits: Limits = field(default_factory=Limits)
    """What clients may do."""
    large: Mapping[str, int] = field(default_factory=dict)
    """Paths that take longer bodies, of so many bytes, and few of them at once."""
    _asked: deque[tuple[float, str]] = field(default_factory=deque, init=False)
    _at_once: Counter[str] = field(default_factory=Counter, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "This server speaks HTTP."})
            return
        try:
            client = self._admit(scope)
            held = [client, *({scope["path"]} & self.large.keys())]
            self._at_once.update(held)
            with ExitStack() as place:
                place.callback(self._release, held)
                await self._serve(client, scope, receive, send, place)
        except Refused as error:
            kind, headers = _TOLD.get(error.status_code, ("Refused", {}))
            await refusal(error.status_code, error.detail, kind=kind, headers=headers)(scope, receive, send)

    def _admit(self, scope: Scope) -> str:
        """Return the client of a request that is let in."""
        connection = HTTPConnection(scope)
        is_open = scope["path"] in self.open_paths or scope["method"] == "OPTIONS"
        owner = "anyone" if self.tokens and is_open else admit(scope, self.tokens)
        _refuse_other_sites(connection, scope["method"], self.origins)
        client = f"{owner} {connection.client.host if connection.client else ''}"
        most, path = self.limits.requests_at_once, scope["path"]
        full = path in self.large and self._at_once[path] >= _LARGE_AT_ONCE
        if full or self._at_once[client] >= most or self._at_once.total() >= 4 * most:
            raise Refused(429, "Too many requests are open at once. Wait for the answers to some of them.")
        return client

    def _release(self, held: list[str]) -> None:
        self._at_once.subtract(held)
        self._at_once += Counter()  # Forget who has none open.

    async def _serve(self, client: str, scope: Scope, receive: Receive, send: Send, place: ExitStack) -> None:
        body = b"" if scope["method"] in _READS else await self._body(scope, receive)
        if scope["method"] == "POST":
            questions, body = self.asked(scope["path"], body)
            self._count(client, questions)
        left = asyncio.Event()
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_whole() -> Message:
            if whole:
                return whole.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self.limits.seconds_to_take):
                    await send(message)
            except TimeoutError:
                left.set()
                leaving.cancel()
                raise OSError("The client does not take the reply.") from None
            if message["type"] == "http.response.body" and not message.get("more_body"):
                # Whoever has the whole reply may ask again, though the app has still to end.
                place.close()

        working = asyncio.ensure_future(self.app(scope, receive_whole, send_in_time))
        leaving = asyncio.create_task(_left(receive, left))
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Cancelled once, and then waited for: a graph that is cancelled again while it ends leaves its branches,
            # and the calls that they pay for, running.
            leaving.cancel()
            working.cancel()
            await asyncio.wait({working, leaving})
        if not working.cancelled() and not left.is_set():
            working.result()

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Take the body of a request, of limited size, in limited time."""
        body = bytearray()
        large = self.large.get(scope["path"])
        most, seconds = large or self.limits.body_bytes, self.limits.seconds_to_send * (6 if large else 1)
        try:
            async with asyncio.timeout(seconds):
                async for part in Request(scope, receive).stream():
                    body += part
                    if len(body) > most:
                        what = "Give a smaller file." if large else "Shorten the question."
                        raise Refused(413, f"The request is longer than {most:,} bytes. {what}")
        except ClientDisconnect:
            raise Refused(400, "The request ended before its body did.") from None
        except TimeoutError:
            raise Refused(408, "The request took too long to arrive. Send it again.") from None
        kind = HTTPConnection(scope).headers.get("content-type", "").partition(";")[0].strip().lower()
        # A form of another site can send text, but not JSON, without asking the browser's leave first.
        if kind != "application/json" and (body or kind):
            raise Refused(415, "Send the question as application/json.")
        return bytes(body)

    def _count(self, client: str, questions: int) -> None:
        """Count questions, unless they are too many within a minute."""
        now, most = time.monotonic(), self.limits.questions_per_minute
        while self._asked and self._asked[0][0] < now - 60:
            self._asked.popleft()
        of_client = sum(asker == client for _, asker in self._asked)
        if of_client + questions > most or len(self._asked) + questions > 5 * most:
            raise Refused(429, "Too many questions within a minute. Wait for a minute.")
        self._asked.extend([(now, client)] * questions)


async def _left(receive: Receive, left: asyncio.Event) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    left.set()


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _refuse_other_sites(connection: HTTPConnection, method: str, origins: Collection[str]) -> None:
    """Refuse what a page of another site sends or reads; its links may lead here, and a client may be no browser."""
    headers = connection.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin in origins:
        return
    if method in ("GET", "HEAD") and origin is None and headers.get("sec-fetch-mode") == "navigate":
        return
    same = origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()
    if not same or site not in ("same-origin", "none"):
        raise Refused(403, "Another site sent this request. Ask on the page itself.")
