"""`briefcontext mcp`: the graph and its knowledge base for any client of the Model Context Protocol."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.commands import options as shared
from briefcontext.errors import MissingExtraError
from briefcontext.http_server import access_token, address, listen, run

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["mcp"]


def mcp(
    context: typer.Context,
    knowledge_base: shared.KnowledgeBaseName = None,
    document: shared.Document = None,
    document_encoder: shared.DocumentEncoder = None,
    model: shared.Model = None,
    extract_model: shared.ExtractModel = None,
    prompts: shared.PromptsFolder = None,
    route: shared.Route = None,
    top_k: shared.TopK = None,
    include_retracted: shared.IncludeRetracted = False,
    http: Annotated[
        bool,
        shared.server_option(
            "--http", help="Serve streamable HTTP, on a host and a port. Default: standard input and output."
        ),
    ] = False,
    host: shared.Host = "127.0.0.1",
    port: shared.Port = 8765,
    token: shared.Token = None,
) -> None:
    """Serve the tools ask, search and fetch_source over the Model Context Protocol (MCP)."""
    settings = shared.settings_of(context)
    try:
        import_module("mcp.server.mcpserver")  # There since version 2.
    except ImportError as error:
        raise MissingExtraError(
            "To serve MCP, the package mcp is needed, version 2 or newer: pip install 'briefcontext[mcp]'."
        ) from error
    from briefcontext.graphs import resources
    from briefcontext.mcp_server import build_server

    # What is wrong with what they name is told now. An encoder is loaded when it is needed: some clients wait briefly.
    resources.searched(settings)
    if model or extract_model or prompts:
        resources.reader(settings)
    server = build_server(settings)
    if http:
        _serve_http(server, host, port, token)
    else:
        server.run("stdio")


def _serve_http(server: "MCPServer[Any]", host: str, port: int, token: str | None) -> None:
    """Serve until interrupted; what is said about it goes to standard error."""
    from briefcontext.guard import Limits
    from briefcontext.mcp_server import http_app

    needed = access_token(token, host)
    app = http_app(server, token=needed, limits=Limits.from_environment())
    with listen(host, port) as listener:
        if needed and not token:
            sys.stderr.write(f"Clients need this header: Authorization: Bearer {needed}\n")
        sys.stderr.write(f"MCP at {address(listener, host)}mcp\n")
        sys.stderr.flush()
        run(app, listener)
