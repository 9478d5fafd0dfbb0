"""`briefcontext serve`: the page, on this machine only unless told otherwise."""

import secrets
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from briefcontext.commands.options import (
    CalibrationFile,
    CrossEncoder,
    Document,
    DocumentEncoder,
    ExtractModel,
    KnowledgeBaseName,
    Preflight,
    PromptsFolder,
    check_document_options,
    settings_from,
)
from briefcontext.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

__all__ = ["MIN_TOKEN_CHARACTERS", "access_token", "check_token", "open_resources", "serve"]

MIN_TOKEN_CHARACTERS = 16
_SECONDS_TO_STOP = 3
_TOKEN_BYTES = 32


def serve(
    kb: KnowledgeBaseName = None,
    document: Document = None,
    encoder: DocumentEncoder = None,
    model: Annotated[
        str | None, typer.Option(help="Chat model as provider:model. Default: sentences are copied.")
    ] = None,
    extract_model: ExtractModel = None,
    prompts: PromptsFolder = None,
    cross_encoder: CrossEncoder = None,
    preflight: Preflight = None,
    calibration_file: CalibrationFile = None,
    model_cache: Annotated[str | None, typer.Option(help="SQLite file that keeps the replies of models.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but this machine's own needs a token; one is made.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="BRIEFCONTEXT_PAGE_TOKEN", help="What clients must send; better given by the variable."),
    ] = None,
) -> None:
    """Open a page to ask on: what is read, how, and every citation in its passage."""
    check_document_options(document, kb, encoder)
    try:
        import starlette as _starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(
            "The page needs the packages starlette and uvicorn: pip install 'briefcontext[page]'."
        ) from error
    from briefcontext.page.guard import is_loopback

    settings = settings_from(
        knowledge_base=kb,
        document=document,
        document_encoder=encoder,
        model=model,
        extract_model=extract_model,
        prompts=prompts,
        cross_encoder=cross_encoder,
        preflight=preflight,
        calibration_file=calibration_file,
        model_cache=model_cache,
        route="order_preserving" if document is not None else None,
    )
    needed = access_token(token, local=is_loopback(host))
    with _listen(host, port) as listener:
        typer.echo("Opening the knowledge base…" if document is None else "Reading the document…", err=True)
        open_resources(settings)
        from briefcontext.page.app import create_app

        app = create_app(settings, token=needed)
        # The client's address counts where there is no token, so no header may set it.
        config = uvicorn.Config(
            app,
            proxy_headers=False,
            server_header=False,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=_SECONDS_TO_STOP,
        )
        typer.echo(f"Open {_address(listener, host)}{f'#token={needed}' if needed and not token else ''}")
        if not is_loopback(host):
            typer.echo(
                "Anyone with the token may ask. Nothing is encrypted: for that, put a TLS proxy before it.",
                err=True,
            )
        typer.echo("Stop with Ctrl-C. Not medical advice: check every statement against its source.", err=True)
        uvicorn.Server(config).run(sockets=[listener])


def access_token(given: str | None, *, local: bool) -> str | None:
    """Return the token that clients must send: the one given, none for a local page, or else a new one.

    Raises:
        InputError: the one given is too short, or cannot stand in a header.
    """
    if given is None:
        return None if local else secrets.token_urlsafe(_TOKEN_BYTES)
    check_token(given)
    return given


def check_token(given: str) -> None:
    """Accept a token that cannot be guessed soon, and that can be sent.

    Raises:
        InputError: it is too short, or cannot stand in a header.
    """
    if len(given) < MIN_TOKEN_CHARACTERS or not all("!" <= character <= "~" for character in given):
        raise InputError(
            f"The token must have at least {MIN_TOKEN_CHARACTERS} letters, digits or signs, without spaces."
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise InputError(
            f"The page cannot listen on {host}, port {port} ({error.strerror or error}): choose another --port."
        ) from error


def _address(listener: socket.socket, host: str) -> str:
    port = listener.getsockname()[1]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def open_resources(settings: "Settings") -> None:
    """Open what the settings name before anybody asks: what is wrong is told now, and the first answer is quick."""
    from briefcontext.graphs import resources

    resources.reader(settings)
    resources.retriever(settings)
    resources.calibration(settings)
