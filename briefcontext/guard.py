"""The guard of every server: authentication, other sites, and the size of requests."""

import asyncio
import hmac
import json
from collections.abc import Callable, Collection, Mapping, Sequence
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

MAX_BODY_BYTES = 256 * 1024
"""Limit of a request's body, enough for the longest question with its options."""
_MIN_TOKEN_CHARACTERS = 16
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_READS = ("GET", "HEAD", "OPTIONS")


class Refused(HTTPException):
    """A refused request, with its HTTP status."""


def refusal(
    status: int,
    message: str,
    *,
    kind: str = "Refused",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error as JSON: `{"error": {"kind": …, "message": …}}`."""
    return JSONResponse({"error": {"kind": kind, "message": message}}, status, headers)


def checked_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens in a text, separated by spaces.

    Raises:
        InputError: There is no token, or one is too short or cannot be sent in a header.
    """
    tokens = tuple(text.split())
    long_enough = all(len(token) >= _MIN_TOKEN_CHARACTERS for token in tokens)
    if not (tokens and long_enough and "".join(tokens).isascii() and "".join(tokens).isprintable()):
        raise InputError(
            f"The token must have at least {_MIN_TOKEN_CHARACTERS} letters, digits or signs, "
            "without spaces. Make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return tokens


def is_loopback(host: str) -> bool:
    """Return whether a host, without its port, is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def admit(scope: Scope, tokens: Sequence[str]) -> str:
    """Return the sender of a request: a token's fingerprint, or `local` without tokens.

    Without tokens, the client and the Host header must both be loopback, because a page can bind
    its own name to 127.0.0.1. Requests through a proxy are refused.

    Raises:
        Refused: The request is not allowed.
    """
    connection = HTTPConnection(scope)
    headers = connection.headers
    if tokens:
        scheme, _, value = headers.get("authorization", "").partition(" ")
        sent = value.strip().encode() if scheme.lower() == "bearer" else b""
        owners = [token for token in tokens if hmac.compare_digest(sent, token.encode())]
        if not owners:
            raise Refused(
                401,
                "This server needs its token, in the header Authorization: Bearer …",
                {"WWW-Authenticate": "Bearer"},
            )
        return sha256(owners[0].encode()).hexdigest()[:32]
    if not is_loopback(_hostname(headers.get("host", ""))):
        raise Refused(
            421,
            "Without a token, this server answers only to the name localhost. Start it with a "
            "token.",
        )
    forwarded = any(name in headers for name in _FORWARDED)
    if forwarded or connection.client is None or not is_loopback(connection.client.host):
        raise Refused(
            403,
            "Without a token, this server answers only this machine. Start it with a token.",
        )
    return "local"


def _unchanged(scope: Scope, body: bytes) -> bytes:
    return body


@dataclass(eq=False)
class Guard:
    """ASGI middleware that admits requests of limited size from allowed clients and sites.

    When the client leaves, the app is cancelled.
    """

    app: ASGIApp
    """The guarded application."""
    _: KW_ONLY
    tokens: Sequence[str] = ()
    """The tokens of clients. Without any, only this machine is served."""
    open_paths: Collection[str] = ()
    """Paths that need no token."""
    origins: Collection[str] = ()
    """Other sites whose pages may send requests."""
    check: Callable[[Scope, bytes], bytes] = _unchanged
    """Checks a request and returns the body for the app; may raise Refused or InputError."""
    body_bytes: int = MAX_BODY_BYTES
    """Limit of a body."""
    large: Mapping[str, int] = field(default_factory=dict)
    """Limits of the bodies of some paths."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            reason = "This server speaks HTTP."
            await send({"type": "websocket.close", "code": 1008, "reason": reason})
            return
        try:
            body = await self._admitted(scope, receive)
        except (Refused, InputError) as error:
            await explain(error)(scope, receive, send)
            return
        await self._serve(body, scope, receive, send)

    async def _admitted(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of an allowed request."""
        if not (self.tokens and (scope["path"] in self.open_paths or scope["method"] == "OPTIONS")):
            admit(scope, self.tokens)
        _refuse_other_sites(HTTPConnection(scope), scope["method"], self.origins)
        body = b"" if scope["method"] in _READS else await self._body(scope, receive)
        return await asyncio.to_thread(self.check, scope, body)  # It may open files.

    async def _serve(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.Event()
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        working = asyncio.ensure_future(self.app(scope, replay, send))
        leaving = asyncio.create_task(_left(receive, left))
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Cancel once and wait: a second cancellation would leave the graph's branches and their
            # paid calls running.
            leaving.cancel()
            working.cancel()
            await asyncio.wait({working, leaving})
        if not working.cancelled() and not left.is_set():
            working.result()

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the body of a request, up to its limit."""
        body = bytearray()
        limit = self.large.get(scope["path"], self.body_bytes)
        try:
            async for part in Request(scope, receive).stream():
                body += part
                if len(body) > limit:
                    raise Refused(413, f"The request is longer than {limit:,} bytes. Shorten it.")
        except ClientDisconnect:
            raise Refused(400, "The request ended before its body did.") from None
        content_type = HTTPConnection(scope).headers.get("content-type", "")
        kind = content_type.partition(";")[0].strip().lower()
        # A form of another site can send text without a preflight request, but not JSON.
        if kind != "application/json" and (body or kind):
            raise Refused(415, "Send the question as application/json.")
        return bytes(body)


def explain(error: Exception) -> Response:
    """Return the response for an error, by default with status 400."""
    if isinstance(error, HTTPException):
        kind = "TokenRequired" if error.status_code == 401 else "Refused"
        return refusal(error.status_code, error.detail, kind=kind, headers=error.headers)
    return refusal(400, str(error), kind=type(error).__name__)


def read_json(body: bytes) -> Any:
    """Return the JSON of a body, or None."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def _left(receive: Receive, left: asyncio.Event) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    left.set()


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _refuse_other_sites(connection: HTTPConnection, method: str, origins: Collection[str]) -> None:
    """Refuse requests of other sites' pages. Their links are allowed."""
    headers = connection.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin in origins:
        return
    navigates = origin is None and headers.get("sec-fetch-mode") == "navigate"
    if method in ("GET", "HEAD") and navigates:
        return
    host = headers.get("host", "").lower()
    same = origin is None or origin.partition("://")[2].lower() == host
    if not same or site not in ("same-origin", "none"):
        raise Refused(403, "Another site sent this request. Ask on the page itself.")
