"""`briefcontext ask`: an answer over a knowledge base or one file, with citations."""

import logging
import re
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from briefcontext.commands import options as shared
from briefcontext.commands.options import assignments, model_option, output_option, reading_option, settings_of, values
from briefcontext.commands.terminal import EXIT_FAILED, print_json, say_line
from briefcontext.errors import InputError, ModelCallError

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

_OPTION = re.compile(r"\s*\w\s*=.+", re.DOTALL)


def ask(
    context: typer.Context,
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
    knowledge_base: shared.KnowledgeBaseName = None,
    document: shared.Document = None,
    document_encoder: shared.DocumentEncoder = None,
    model: shared.Model = None,
    extract_model: shared.ExtractModel = None,
    temperature: shared.Temperature = None,
    max_output_tokens: shared.MaxOutputTokens = None,
    model_arguments: shared.ModelArguments = None,
    model_cache: shared.ModelCache = None,
    model_timeout: shared.ModelTimeout = None,
    prompts: shared.PromptsFolder = None,
    reader: Annotated[
        Literal["extractive", "llm"] | None,
        model_option(help="Copy sentences (extractive), or ask a model (llm). Default: llm with --model."),
    ] = None,
    route: shared.Route = None,
    fallback: Annotated[
        str | None,
        reading_option(help="When the rankings agree: vanilla or order_preserving. Default: vanilla."),
    ] = None,
    top_k: shared.TopK = None,
    partition_size: Annotated[int | None, reading_option(help="Documents for one extraction. Default: 4.")] = None,
    preflight_top_n: Annotated[
        int | None,
        reading_option(help="Documents at the top that the preflight compares. Default: 3."),
    ] = None,
    iou_threshold: Annotated[
        float | None,
        reading_option(help="Overlap above which the rankings agree. Default: 0.2."),
    ] = None,
    preflight: shared.Preflight = None,
    calibration_file: shared.CalibrationFile = None,
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
    earlier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION", help="A question asked before, to which this is a follow-up that the model rewrites."
        ),
    ] = None,
    retrieval: Annotated[
        str | None,
        reading_option(
            help="Find documents by dense, bm25 or hybrid. Default: dense; with --document hybrid.",
        ),
    ] = None,
    cross_encoder: shared.CrossEncoder = None,
    years: shared.Years = None,
    publication_types: shared.StudyTypes = None,
    journals: shared.Journals = None,
    mesh: shared.Mesh = None,
    languages: shared.Languages = None,
    include_retracted: shared.IncludeRetracted = False,
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
    elif words or options or earlier or references:
        raise InputError(
            "--questions names a file of questions and prints JSON: leave out QUESTION, --options, --earlier and "
            "--references."
        )
    if references and as_json:
        raise InputError("--references and --json are both given: name one of them.")
    if reader == "llm" and model is None:
        raise InputError(
            "--reader llm needs a model: add --model provider:model, for example --model openai:gpt-4o-mini."
        )
    if reader == "extractive" and model is not None:
        raise InputError(f"--reader extractive uses no model, and --model {model} is given: leave one of them out.")
    settings = settings_of(context, model_arguments=values(model_arguments or []))
    if verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    from briefcontext.commands.progress import ProgressLines, run
    from briefcontext.commands.report import print_answer

    if questions is not None:
        raise typer.Exit(_ask_many(questions, settings))
    with ProgressLines() as lines:
        state = run({"question": question, "options": choices, "earlier": earlier}, settings, lines)
    if as_json:
        print_json(state["answer"])
    elif references:
        from briefcontext.chains.references import write_references

        typer.echo(write_references(state["answer"]["references"], references), nl=False)
        if not state["answer"]["references"]:
            typer.echo("The answer cites nothing. Ask without --references to see why.", err=True)
    else:
        if earlier:
            say_line(f"Asked as: {state['answer']['question']}")
        print_answer(state, verbose=verbose)


def _ask_many(data_set: str, settings: "Settings") -> int:
    """Print each question's `id` with its answer, or with the `error` of its calls; return the exit code."""
    from briefcontext.commands.progress import ProgressLines, run
    from briefcontext.evaluation.data_sets import load_data_set

    code = 0
    for item in load_data_set(data_set).items:
        told: dict[str, object] = {"id": item.id}
        with ProgressLines() as lines:
            try:
                told |= run({"question": item.question, "options": dict(item.options)}, settings, lines)["answer"]
            except ModelCallError as error:
                told |= {"question": item.question, "options": dict(item.options), "error": str(error)}
                code = EXIT_FAILED
        print_json(told)
    return code


def _question_and_options(words: list[str], options: list[str]) -> tuple[str, dict[str, str]]:
    """Tell the question from options: `--options A=yes B=no` leaves B=no among the words."""
    more = [word for word in words if options and _OPTION.fullmatch(word)]
    rest = [word for word in words if word not in more]
    if len(rest) != 1:
        what = "There is no question" if not rest else f"There are {len(rest)} questions"
        raise InputError(f'{what}. Ask one, in quotes: briefcontext ask "Is … ?"')
    form = "LETTER=TEXT, for example A=yes"
    question = sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if rest == ["-"] else rest[0]
    return question, assignments([*options, *more], "Option", form)
