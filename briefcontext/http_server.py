"""An application on a port of this machine: its token, its socket, and the server that runs it."""

import secrets
import socket
from typing import TYPE_CHECKING

from briefcontext.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["access_token", "address", "listen", "run"]


def access_token(given: str | None, host: str) -> str | None:
    """Return the token that clients must send: the one given, none on an address of this machine's own, or a new one.

    Raises InputError when the one given cannot be used.
    """
    from briefcontext.guard import checked_tokens, is_loopback

    if given is not None:
        checked_tokens(given)
        return given
    return None if is_loopback(host) else secrets.token_urlsafe(32)


def listen(host: str, port: int) -> socket.socket:
    """Listen on a host and a port, 0 for any free one. Raises InputError when that cannot be done."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family)
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): choose another --host or --port."
        ) from error


def address(listener: socket.socket, host: str) -> str:
    """Return the address that clients open."""
    port = listener.getsockname()[1]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(app: "ASGIApp", listener: socket.socket) -> None:
    """Serve until interrupted. The client's address counts where there is no token, so no header may set it."""
    import uvicorn

    config = uvicorn.Config(
        app, proxy_headers=False, server_header=False, log_level="warning", timeout_graceful_shutdown=3
    )
    uvicorn.Server(config).run(sockets=[listener])
