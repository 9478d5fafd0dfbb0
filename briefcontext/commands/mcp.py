"""`briefcontext mcp`: the graph and its knowledge base for any client of the Model Context Protocol."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.commands.options import (
    Document,
    DocumentEncoder,
    ExtractModel,
    IncludeRetracted,
    KnowledgeBaseName,
    PromptsFolder,
    Route,
    check_document_options,
    settings_from,
)
from briefcontext.errors import MissingExtraError
from briefcontext.http_server import access_token, address, listen, run

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["mcp"]


def mcp(
    kb: KnowledgeBaseName = None,
    document: Document = None,
    encoder: DocumentEncoder = None,
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
    host: Annotated[
        str, typer.Option(help="Address to listen on, with --http. Any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on, with --http; 0: any free one.")
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="BRIEFCONTEXT_TOKEN", help="What clients must send, with --http; better given by the variable."
        ),
    ] = None,
) -> None:
    """Serve the tools ask, search and fetch_source over the Model Context Protocol (MCP)."""
    check_document_options(document, kb, encoder)
    settings = settings_from(
        knowledge_base=kb,
        document=document,
        document_encoder=encoder,
        model=model,
        extract_model=extract_model,
        prompts=prompts,
        route=route or ("order_preserving" if document is not None else None),
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
