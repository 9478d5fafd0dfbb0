"""Access control of the page: browser headers, loopback only or a token, no cross-site posts."""

import hmac
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SECURITY_HEADERS", "Guard", "TokenRequired", "is_loopback", "refusal"]

SECURITY_HEADERS: Mapping[str, str] = {
    # Trusted Types close the ways by which a text could become markup, also those that nobody thought of.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def refusal(status: int, message: str, *, kind: str = "Refused", headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as the page's API gives it: `{"error": {"kind": …, "message": …}}`."""
    return JSONResponse({"error": {"kind": kind, "message": message}}, status, headers)


def is_loopback(host: str) -> bool:
    """Return whether a host, without its port, is this machine by name or by address."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


class Guard:
    """Gives every reply the security headers, and refuses what another site or another machine sends.

    Without a token, only this machine may ask: the client and the name in the Host header must be loopback, and no
    proxy may stand between. A page whose name was rebound to 127.0.0.1 still sends its own name, and is refused.
    With a token, the token decides; it is kept by the page's own origin, which no other name has.
    """

    def __init__(self, app: ASGIApp, *, local_only: bool) -> None:
        self._app = app
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope)
        refused = (self._elsewhere(request) if self._local_only else None) or _cross_site(request)
        await (refused or self._app)(scope, receive, send_guarded)

    @staticmethod
    def _elsewhere(request: Request) -> Response | None:
        if not is_loopback(_hostname(request.headers.get("host", ""))):
            return refusal(421, "This page answers only to localhost. Open it under the address that was printed.")
        forwarded = any(name in request.headers for name in _FORWARDED)
        if forwarded or request.client is None or not is_loopback(request.client.host):
            return refusal(403, "Without a token, this page is for the machine that it runs on: start it with a token.")
        return None


class TokenRequired:
    """Lets those through who send `Authorization: Bearer TOKEN`.

    A header that the page's script sets, and no cookie, which other ports of the host would see and a browser would
    send along from other sites.
    """

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scheme, _, given = Request(scope).headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token):
            await self._app(scope, receive, send)
            return
        response = refusal(
            401,
            "This page needs its token: open the link that was printed when it started.",
            kind="TokenRequired",
            headers={"WWW-Authenticate": "Bearer"},
        )
        await response(scope, receive, send)


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _cross_site(request: Request) -> Response | None:
    """Refuse what a page of another site sends or reads; its links may lead here, and a client may be no browser."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    reads = request.method in ("GET", "HEAD")
    if reads and origin is None and request.headers.get("sec-fetch-mode") == "navigate":
        return None
    same = origin is None or origin.partition("://")[2].lower() == request.headers.get("host", "").lower()
    if same and site in ("same-origin", "none"):
        return None
    return refusal(403, "Another site sent this request. Ask on the page itself.")
