"""`briefcontext mcp`: the graph and its knowledge base for any client of the Model Context Protocol."""

import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.commands.options import (
    ExtractModel,
    IncludeRetracted,
    KnowledgeBaseName,
    PromptsFolder,
    Route,
    settings_from,
)
from briefcontext.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["mcp"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def mcp(
    kb: KnowledgeBaseName = None,
    model: Annotated[
        str | None, typer.Option(help="Chat model as provider:model. Default: none, sentences are copied.")
    ] = None,
    extract_model: ExtractModel = None,
    prompts: PromptsFolder = None,
    route: Route = None,
    top_k: Annotated[int | None, typer.Option(help="Documents to retrieve for an answer. Default: 16.")] = None,
    include_retracted: IncludeRetracted = False,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP. Default: standard input and output.")] = (
        False
    ),
    host: Annotated[str, typer.Option(help="Address to listen on, with --http.")] = LOOPBACK[0],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on, with --http; 0: any free one.")
    ] = 8765,
) -> None:
    """Serve the tools ask, search and fetch_source over the Model Context Protocol (MCP)."""
    settings = settings_from(
        knowledge_base=kb,
        model=model,
        extract_model=extract_model,
        prompts=prompts,
        route=route,
        top_k=top_k,
        include_retracted=include_retracted or None,
    )
    try:
        import_module("mcp.server.mcpserver")  # There since version 2.
    except ImportError as error:
        raise MissingExtraError(
            "To serve MCP, the package mcp is needed, version 2 or newer: pip install 'briefcontext[mcp]'."
        ) from error
    from briefcontext.mcp_server import build_server

    server = build_server(settings)
    if http:
        _serve_http(server, host, port)
    else:
        server.run("stdio")


def _serve_http(server: "MCPServer[Any]", host: str, port: int) -> None:
    """Serve until interrupted; what is said about it goes to standard error."""
    import uvicorn

    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"{host}:{port} cannot be listened on ({error.strerror}): choose another --port.") from error
    if host not in LOOPBACK:
        sys.stderr.write(f"Whoever reaches {host} can ask, without a password: put a proxy that checks in front.\n")
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"MCP at http://{shown}:{listener.getsockname()[1]}/mcp\n")
    sys.stderr.flush()
    app = server.streamable_http_app(host=host)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
