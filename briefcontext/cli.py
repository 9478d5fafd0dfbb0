"""The command line.

Exit codes: 0 answered (or honestly abstained), 1 a model call failed or nothing was indexed, 2 bad input or set-up,
3 something unexpected such as a full disk, 130 interrupted. When the reader of its output goes away, it ends without a
word.
"""

import json
import logging
import os
import re
import sys
import traceback
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import version
from typing import Annotated, Any, Literal

import typer

from briefcontext.commands.calibrate import calibrate
from briefcontext.commands.compare import compare
from briefcontext.commands.experiment import experiment
from briefcontext.commands.interrupt import EXIT_INTERRUPTED, Interrupted, end_now
from briefcontext.commands.mcp import mcp
from briefcontext.commands.options import (
    CalibrationFile,
    CrossEncoder,
    Document,
    DocumentEncoder,
    ExtractModel,
    IncludeRetracted,
    Journals,
    KnowledgeBaseName,
    Languages,
    MaxOutputTokens,
    Mesh,
    ModelArguments,
    ModelCache,
    ModelTimeout,
    Preflight,
    PromptsFolder,
    Route,
    StudyTypes,
    Temperature,
    Years,
    check_document_options,
    model_option,
    output_option,
    reading_option,
    settings_from,
)
from briefcontext.commands.prompts import prompts as prompts_command
from briefcontext.commands.serve import serve
from briefcontext.errors import BriefContextError, InputError, ModelCallError

__all__ = ["app", "main"]

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_UNEXPECTED = 3

# typer carries its own copy of click, and only this much of it is public.
_UsageError: Any = typer.BadParameter.__base__

_OPTION = re.compile(r"\s*\w\s*=.+", re.DOTALL)

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Answers medical questions over retrieved literature, with citations to check them by. Not a medical device.",
    epilog="Exit codes: 0 answered or abstained, 1 a model call failed or nothing was indexed, 2 bad input or "
    "set-up, 3 something unexpected, 130 interrupted.",
)


class ReaderName(StrEnum):
    """The readers to choose from."""

    EXTRACTIVE = "extractive"
    LLM = "llm"


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = app(standalone_mode=False)
        if code == EXIT_INTERRUPTED:
            end_now("Interrupted.")
        sys.stdout.flush()  # What cannot be written is to be found out here, and not by the interpreter as it ends.
        sys.exit(code)
    except _UsageError as error:
        hint = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
        message = error.format_message().replace("Value error, ", "").rstrip(".")
        _fail(f"{message}.{hint}", EXIT_BAD_INPUT)
    except ModelCallError as error:
        _fail(str(error), EXIT_FAILED)
    except BriefContextError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except Interrupted as interrupt:
        end_now(str(interrupt))
    except (KeyboardInterrupt, typer.Abort):
        end_now("Interrupted.")
    except BrokenPipeError:
        _close_output()
        sys.exit(EXIT_FAILED)  # As typer does it where it meets one.
    except Exception as error:  # noqa: BLE001 - whatever it is, a person gets one line
        _close_output()
        if "--verbose" in sys.argv:
            traceback.print_exc()
        _fail(_unexpected(error), EXIT_UNEXPECTED)


def _fail(message: str, code: int) -> None:
    from briefcontext.commands.printable import printable_line

    with suppress(OSError):
        typer.echo(f"Error: {printable_line(message)}", err=True)
    sys.exit(code)


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}."
    where = "" if "--verbose" in sys.argv else " Add --verbose to see where."
    return f"{type(error).__name__}: {str(error).strip().rstrip('.') or 'no more is known'}.{where}"


def _close_output() -> None:
    """Drop what could not be written: the interpreter would try again as it ends, and complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.callback()
def _common(
    context: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the traceback of an unexpected error.")] = False,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Show the version, or without a command the help."""
    if show_version:
        typer.echo(f"BriefContext {version('briefcontext')}")
        raise typer.Exit
    _help_without_command(context)


def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@app.command()
def ask(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION", help="The question, in quotes; - reads it from the input.")
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Ask the questions of a .jsonl file, or of a data set as KIND:PATH; print a line of JSON for each.",
        ),
    ] = None,
    kb: KnowledgeBaseName = None,
    document: Document = None,
    encoder: DocumentEncoder = None,
    model: Annotated[
        str | None,
        model_option(help="Chat model as provider:model, for example openai:gpt-4o-mini."),
    ] = None,
    extract_model: ExtractModel = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    model_arguments: ModelArguments = None,
    model_cache: ModelCache = None,
    timeout: ModelTimeout = None,
    prompts: PromptsFolder = None,
    reader: Annotated[
        ReaderName | None,
        model_option(help="Copy sentences (extractive), or ask a model (llm). Default: llm with --model."),
    ] = None,
    route: Route = None,
    fallback: Annotated[
        str | None,
        reading_option(help="When the rankings agree: vanilla or order_preserving. Default: vanilla."),
    ] = None,
    top_k: Annotated[int | None, reading_option(help="Documents to retrieve. Default: 16.")] = None,
    partition_size: Annotated[int | None, reading_option(help="Documents for one extraction. Default: 4.")] = None,
    preflight_top_n: Annotated[
        int | None,
        reading_option(help="Documents at the top that the preflight compares. Default: 3."),
    ] = None,
    iou_threshold: Annotated[
        float | None,
        reading_option(help="Overlap above which the rankings agree. Default: 0.2."),
    ] = None,
    preflight: Preflight = None,
    calibration_file: CalibrationFile = None,
    reduce: Annotated[
        str | None,
        reading_option(
            metavar="always|auto",
            help="auto: a single partition's finding, cited and whole, is the answer without a call. Default: always.",
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(metavar="LETTER=TEXT", help='Multiple choice: --options "A=yes" "B=no".'),
    ] = None,
    retrieval: Annotated[
        str | None,
        reading_option(
            help="Find documents by dense, bm25 or hybrid. Default: dense; with --document hybrid.",
        ),
    ] = None,
    cross_encoder: CrossEncoder = None,
    years: Years = None,
    types: StudyTypes = None,
    journals: Journals = None,
    mesh: Mesh = None,
    languages: Languages = None,
    include_retracted: IncludeRetracted = False,
    as_json: Annotated[bool, output_option("--json", help="Print the answer as one JSON object.")] = False,
    references: Annotated[
        Literal["ris", "bibtex", "nlm"] | None,
        output_option(help="Print what the answer cites, for a reference manager."),
    ] = None,
    verbose: Annotated[bool, output_option("--verbose", help="Show every document and quote.")] = False,
) -> None:
    """Answer a question over a knowledge base, with citations."""
    if questions is None:
        question, choices = _question_and_options(words or [], options or [])
    elif words or options or references:
        raise InputError(
            "--questions names a file of questions and prints JSON: leave out QUESTION, --options and --references."
        )
    check_document_options(document, kb, encoder)
    if references and as_json:
        raise InputError("--references and --json are both given: name one of them.")
    settings = settings_from(
        knowledge_base=kb,
        document=document,
        document_encoder=encoder,
        model=_model(model, reader),
        extract_model=extract_model,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        model_arguments=_values(model_arguments or []),
        model_cache=model_cache,
        model_timeout=timeout,
        prompts=prompts,
        route=route or ("order_preserving" if document is not None else None),
        fallback=fallback,
        top_k=top_k,
        partition_size=partition_size,
        preflight_top_n=preflight_top_n,
        iou_threshold=iou_threshold,
        preflight=preflight,
        calibration_file=calibration_file,
        reduce=reduce,
        retrieval=retrieval,
        cross_encoder=cross_encoder,
        years=years,
        publication_types=types,
        journals=journals,
        mesh=mesh,
        languages=languages,
        include_retracted=include_retracted or None,
    )
    if verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    from briefcontext.commands.progress import ProgressLines, run
    from briefcontext.commands.report import print_answer

    if questions is not None:
        from briefcontext.commands.questions import ask_many

        raise typer.Exit(EXIT_FAILED if ask_many(questions, settings) else 0)
    with ProgressLines() as lines:
        state = run(question, choices, settings, lines)
    if as_json:
        typer.echo(json.dumps(state["answer"], ensure_ascii=False))
    elif references:
        from briefcontext.chains.references import write_references

        typer.echo(write_references(state["answer"]["references"], references), nl=False)
    else:
        print_answer(state, verbose=verbose)


@app.command()
def index(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="Files, folders or globs.")],
    kb: Annotated[str, typer.Option("--kb", help="Folder of the knowledge base to build or to update.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            help="medcpt, bge, minilm, or a sentence-transformers model by folder or name. Default: the base's own, "
            "and medcpt for a new one."
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="Format of the sources. Default: told from each file.")] = "auto",
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Column of JSON lines or CSV that holds a field: --field id=doc --field text=body.",
        ),
    ] = None,
    loader: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="Read all files with this document loader of LangChain."),
    ] = None,
    loader_arguments: Annotated[
        list[str] | None,
        typer.Option("--loader-arg", metavar="NAME=VALUE", help="What the loader takes besides the file."),
    ] = None,
    chunk_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cut documents into chunks of about so many tokens. Default: 128 for whole texts, else none.",
        ),
    ] = None,
    store: Annotated[str | None, typer.Option(help="Let Chroma search the vectors: chroma, or a server's URL.")] = None,
    on: Annotated[
        Literal["ray"] | None, typer.Option(help="Encode and write on a Ray cluster: RAY_ADDRESS, or a local one.")
    ] = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="Remove what the base has from files of these folders that are gone.")
    ] = False,
) -> None:
    """Build a knowledge base from documents, or update one. A build that was stopped goes on where it was."""
    from briefcontext.commands.index import index as build

    indexed = build(
        sources,
        kb,
        encoder=encoder,
        format=format,
        fields=_assignments(field or [], "Field", "FIELD=COLUMN, for example id=doc"),
        chunk_tokens=chunk_tokens,
        store=store,
        on=on,
        sync=sync,
        loader=loader,
        loader_arguments=_values(loader_arguments or []),
    )
    raise typer.Exit(0 if indexed else EXIT_FAILED)


app.command()(mcp)
app.command()(serve)
app.command()(experiment)
app.command()(compare)
app.command()(calibrate)
app.command("prompts")(prompts_command)

kb_app = typer.Typer(
    invoke_without_command=True,
    callback=_help_without_command,
    help="Look into a knowledge base, and take documents out.",
)
app.add_typer(kb_app, name="kb")

_Folder = Annotated[str, typer.Argument(metavar="DIR", help="Folder of the knowledge base.")]
_Method = Literal["dense", "bm25", "hybrid"]
_AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@kb_app.command("info")
def kb_info(folder: _Folder, as_json: _AsJSON = False) -> None:
    """Show what a knowledge base holds and how it was made."""
    from briefcontext.commands.kb import info

    info(folder, as_json=as_json)


@kb_app.command("list")
def kb_list(folder: _Folder, as_json: _AsJSON = False) -> None:
    """Show the documents that it holds, by their ids."""
    from briefcontext.commands.kb import list_documents

    list_documents(folder, as_json=as_json)


@kb_app.command("remove")
def kb_remove(
    folder: _Folder, ids: Annotated[list[str], typer.Argument(metavar="ID…", help="As kb list shows them.")]
) -> None:
    """Take documents out; one whose file is indexed again comes back."""
    from briefcontext.commands.kb import remove

    remove(folder, ids)


@kb_app.command("search")
def kb_search(
    folder: _Folder,
    query: Annotated[str, typer.Argument(help="The words or the question to search for.")],
    top_k: Annotated[int, typer.Option(min=1, help="How many passages.")] = 10,
    method: Annotated[_Method, typer.Option(help="How to rank.")] = "dense",
    years: Years = None,
    types: StudyTypes = None,
    journals: Journals = None,
    mesh: Mesh = None,
    languages: Languages = None,
    as_json: _AsJSON = False,
) -> None:
    """Show the passages that rank highest."""
    from briefcontext.commands.kb import search

    chosen = settings_from(years=years, publication_types=types, journals=journals, mesh=mesh, languages=languages)
    search(folder, query, k=top_k, method=method, filters=chosen.filters, as_json=as_json)


@kb_app.command("sources")
def kb_sources(folder: _Folder) -> None:
    """Show documents, tokens and lengths by source, as the paper's tables of its corpus do."""
    from briefcontext.commands.kb import sources

    sources(folder)


@kb_app.command("verify")
def kb_verify(folder: _Folder) -> None:
    """Check that passages, vectors and terms fit together."""
    from briefcontext.commands.kb import verify

    verify(folder)


def _assignments(given: list[str], what: str, form: str) -> dict[str, str]:
    """Split NAME=VALUE arguments."""
    assigned: dict[str, str] = {}
    for argument in given:
        name, equals, value = argument.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise InputError(f"{what} {argument!r} is not of the form {form}.")
        if name.strip() in assigned:
            raise InputError(f"{what} {name.strip()} is given twice. Give it once.")
        assigned[name.strip()] = value.strip()
    return assigned


def _values(given: list[str]) -> dict[str, Any] | None:
    """Read arguments of a model or a loader: numbers, truth values and objects as JSON has them, else words."""
    values: dict[str, Any] = {}
    for name, value in _assignments(given, "Argument", "NAME=VALUE, for example top_p=0.9").items():
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values or None


def _question_and_options(words: list[str], options: list[str]) -> tuple[str, dict[str, str]]:
    """Tell the question from options: `--options A=yes B=no` leaves B=no among the words."""
    more = [word for word in words if options and _OPTION.fullmatch(word)]
    rest = [word for word in words if word not in more]
    if len(rest) != 1:
        what = "There is no question" if not rest else f"There are {len(rest)} questions"
        raise InputError(f'{what}. Ask one, in quotes: briefcontext ask "Is … ?"')
    form = "LETTER=TEXT, for example A=yes"
    question = sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if rest == ["-"] else rest[0]
    return question, _assignments([*options, *more], "Option", form)


def _model(model: str | None, reader: ReaderName | None) -> str | None:
    if reader is ReaderName.LLM and model is None:
        raise InputError(
            "--reader llm needs a model: add --model provider:model, for example --model openai:gpt-4o-mini."
        )
    if reader is ReaderName.EXTRACTIVE and model is not None:
        raise InputError(f"--reader extractive uses no model, and --model {model} is given: leave one of them out.")
    return model
