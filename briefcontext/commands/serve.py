"""`briefcontext serve`: the page, on this machine only unless told otherwise."""

from typing import TYPE_CHECKING, Annotated

import typer

from briefcontext.commands import options as shared
from briefcontext.errors import MissingExtraError
from briefcontext.http_server import access_token, address, listen, run

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

__all__ = ["open_resources", "serve"]


def serve(
    context: typer.Context,
    knowledge_base: shared.KnowledgeBaseName = None,
    document: shared.Document = None,
    document_encoder: shared.DocumentEncoder = None,
    model: shared.Model = None,
    extract_model: shared.ExtractModel = None,
    prompts: shared.PromptsFolder = None,
    cross_encoder: shared.CrossEncoder = None,
    preflight: shared.Preflight = None,
    calibration_file: shared.CalibrationFile = None,
    model_cache: shared.ModelCache = None,
    uploads: Annotated[
        bool, typer.Option("--uploads", help="Let people ask over one file of theirs, too; it is kept nowhere.")
    ] = False,
    host: shared.Host = "127.0.0.1",
    port: shared.Port = 8000,
    token: shared.Token = None,
) -> None:
    """Open a page to ask on: what is read, how, and every citation in its passage."""
    try:
        import starlette as _starlette  # noqa: F401
        import uvicorn as _uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "The page needs the packages starlette and uvicorn: pip install 'briefcontext[page]'."
        ) from error
    from briefcontext.guard import Limits, is_loopback

    settings = shared.settings_of(context)
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
