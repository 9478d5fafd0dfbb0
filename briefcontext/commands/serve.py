"""`briefcontext serve`: the page, on this machine only unless told otherwise."""

from typing import TYPE_CHECKING, Annotated

import typer

from briefcontext.commands.options import (
    CalibrationFile,
    CrossEncoder,
    Document,
    DocumentEncoder,
    ExtractModel,
    KnowledgeBaseName,
    ModelCache,
    Preflight,
    PromptsFolder,
    check_document_options,
    settings_from,
)
from briefcontext.errors import MissingExtraError
from briefcontext.http_server import access_token, address, listen, run

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

__all__ = ["open_resources", "serve"]


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
    model_cache: ModelCache = None,
    uploads: Annotated[
        bool, typer.Option("--uploads", help="Let people ask over one file of theirs, too; it is kept nowhere.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but this machine's own needs a token; one is made.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="BRIEFCONTEXT_TOKEN", help="What clients must send; better given by the variable."),
    ] = None,
) -> None:
    """Open a page to ask on: what is read, how, and every citation in its passage."""
    check_document_options(document, kb, encoder)
    try:
        import starlette as _starlette  # noqa: F401
        import uvicorn as _uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "The page needs the packages starlette and uvicorn: pip install 'briefcontext[page]'."
        ) from error
    from briefcontext.guard import Limits, is_loopback

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
    needed = access_token(token, host)
    with listen(host, port) as listener:
        typer.echo("Opening the knowledge base…" if document is None else "Reading the document…", err=True)
        open_resources(settings)
        from briefcontext.page.app import create_app

        app = create_app(settings, token=needed, limits=Limits.from_environment(), uploads=uploads)
        typer.echo(f"Open {address(listener, host)}{f'#token={needed}' if needed and not token else ''}")
        if not is_loopback(host):
            typer.echo(
                "Anyone with the token may ask. Nothing is encrypted: for that, put a TLS proxy before it.",
                err=True,
            )
        typer.echo("Stop with Ctrl-C. Not medical advice: check every statement against its source.", err=True)
        run(app, listener)


def open_resources(settings: "Settings") -> None:
    """Open what the settings name before anybody asks: what is wrong is told now, and the first answer is quick."""
    from briefcontext.graphs import resources

    resources.reader(settings)
    resources.retriever(settings)
    resources.calibration(settings)
