"""`briefcontext serve` and `briefcontext mcp`, by default for this machine only."""

import secrets
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.commands import options as shared
from briefcontext.errors import InputError, needing

MAX_CONNECTIONS = 512
"""Limit of connections; others get status 503."""
MAX_HEADER_BYTES = 64 * 1024

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from briefcontext.graphs.settings import Settings


@shared.takes(
    *("knowledge_base", "document", "model", "extract_model", "verify", "verify_model"),
    "prompts",
    *("cross_encoder", "preflight", "model_cache"),
)
def serve(
    uploads: Annotated[
        bool,
        typer.Option(
            "--uploads", help="Let people ask over one file of theirs, too; it is kept nowhere."
        ),
    ] = False,
    host: shared.Host = "127.0.0.1",
    port: shared.Port = 8000,
    token: shared.Token = None,
    **given: Any,
) -> None:
    """Serve a page to ask questions and check every citation in its passage."""
    with needing("page", "The page needs the packages starlette and uvicorn"):
        import_module("starlette")
        import_module("uvicorn")
    from briefcontext.guard import is_loopback

    settings = shared.settings_of(**given)
    needed = access_token(token, host)
    with _listen(host, port) as listener:
        typer.echo(
            "Opening the knowledge base…" if settings.document is None else "Reading the document…",
            err=True,
        )
        open_resources(settings)
        from briefcontext.page.app import create_app

        app = create_app(settings, token=needed, uploads=uploads)
        typer.echo(
            f"Open {_address(listener, host)}{f'#token={needed}' if needed and not token else ''}"
        )
        if not is_loopback(host):
            typer.echo(
                "Anyone with the token may ask. Nothing is encrypted: for that, put a TLS proxy "
                "before it.",
                err=True,
            )
        typer.echo(
            "Stop with Ctrl-C. Not medical advice: check every statement against its source.",
            err=True,
        )
        _run(app, listener)


def open_resources(settings: "Settings") -> None:
    """Open the resources now, so that errors appear at once and the first answer is quick."""
    from briefcontext.graphs.resources import RESOURCES

    RESOURCES.reader(settings)
    RESOURCES.retriever(settings)
    RESOURCES.calibration(settings)


@shared.takes(
    *("knowledge_base", "document", "model", "extract_model", "verify", "verify_model"),
    "prompts",
    *("route", "top_k", "include_retracted"),
)
def mcp(
    http: Annotated[
        bool,
        shared.server_option(
            "--http",
            help="Serve streamable HTTP, on a host and a port. Default: standard input and output.",
        ),
    ] = False,
    host: shared.Host = "127.0.0.1",
    port: shared.Port = 8765,
    token: shared.Token = None,
    **given: Any,
) -> None:
    """Serve the tools ask, search and fetch_source over the Model Context Protocol (MCP)."""
    settings = shared.settings_of(**given)
    with needing("mcp", "To serve MCP, the package mcp is needed, version 2 or newer"):
        import_module("mcp.server.mcpserver")  # There since version 2.
    from briefcontext.graphs.resources import RESOURCES
    from briefcontext.mcp_server import build_server, http_app

    # Report errors now. The encoder is loaded on demand, because some clients wait only briefly.
    RESOURCES.searched(settings)
    if settings.model or settings.extract_model or settings.prompts:
        RESOURCES.reader(settings)
    server = build_server(settings)
    if not http:
        server.run("stdio")
        return
    needed = access_token(token, host)
    app = http_app(server, token=needed)
    with _listen(host, port) as listener:
        if needed and not token:
            typer.echo(f"Clients need this header: Authorization: Bearer {needed}", err=True)
        typer.echo(f"MCP at {_address(listener, host)}mcp", err=True)
        _run(app, listener)


def access_token(given: str | None, host: str) -> str | None:
    """Return the token that clients must send: the given one or a new one.

    A loopback address needs none. Raises InputError if the given one cannot be used.
    """
    from briefcontext.guard import checked_tokens, is_loopback

    if given is not None:
        checked_tokens(given)
        return given
    return None if is_loopback(host) else secrets.token_urlsafe(32)


def _listen(host: str, port: int) -> socket.socket:
    """Listen on a host and a port, 0 for any free one. Raises InputError if that fails."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family)
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): choose another "
            f"--host or --port."
        ) from error


def _address(listener: socket.socket, host: str) -> str:
    """Return the address that clients open."""
    port = listener.getsockname()[1]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _run(app: "ASGIApp", listener: socket.socket) -> None:
    """Serve until interrupted. No header may change the client's address."""
    import uvicorn

    from briefcontext.connections import Connection

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=5,
    )
    uvicorn.Server(config).run(sockets=[listener])
