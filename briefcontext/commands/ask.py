"""`briefcontext ask` and `briefcontext prompts`."""

import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from briefcontext.commands.options import SETTINGS, assignments, output_option, settings_of, takes
from briefcontext.commands.terminal import EXIT_FAILED, print_json, say_line
from briefcontext.errors import InputError, ModelCallError

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

_OPTION = re.compile(r"\s*\w\s*=.+", re.DOTALL)


@takes(*SETTINGS)
def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION", help="The question, in quotes; - reads it from the input."
        ),
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File or data set (KIND:PATH) of questions; prints a line of JSON for each.",
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(min=1, help="With --questions: questions asked at the same time. Default: 8."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(metavar="LETTER=TEXT", help='Multiple choice: --options "A=yes" "B=no".'),
    ] = None,
    earlier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION",
            help="A question asked before, to which this is a follow-up that the model rewrites.",
        ),
    ] = None,
    as_json: Annotated[
        bool, output_option("--json", help="Print the answer as one JSON object.")
    ] = False,
    references: Annotated[
        Literal["ris", "bibtex", "nlm"] | None,
        output_option(help="Print what the answer cites, for a reference manager."),
    ] = None,
    verbose: Annotated[
        bool,
        output_option("--verbose", help="Show rankings, partitions and texts; log each stage."),
    ] = False,
    quotes: Annotated[bool, output_option("--quotes", help="Show the cited quotes.")] = False,
    **given: Any,
) -> None:
    """Answer a question over a knowledge base, with citations."""
    if at_once and questions is None:
        raise InputError("--at-once is for the questions of a file. Name one with --questions.")
    if questions is None:
        question, choices = _question_and_options(words or [], options or [])
    elif words or options or earlier or references or quotes:
        raise InputError(
            "--questions names a file of questions and prints JSON: leave out QUESTION, --options, "
            "--earlier, --references and --quotes."
        )
    if references and as_json:
        raise InputError("--references and --json are both given: name one of them.")
    settings = settings_of(**given)
    if verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    from briefcontext.commands.progress import run
    from briefcontext.commands.report import print_answer

    if questions is not None:
        raise typer.Exit(_ask_many(questions, settings, at_once or 8))
    state = run({"question": question, "options": choices, "earlier": earlier}, settings)
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
        print_answer(state, verbose=verbose, quotes=quotes)


def prompts(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder to write them to; made where it is missing."),
    ],
) -> None:
    """Write the bundled prompts to a folder, to edit and pass with --prompts."""
    from briefcontext.prompts import BUNDLED

    files = {folder / f"{name}.txt": text for name, text in sorted(BUNDLED.texts.items())}
    if there := sum(file.exists() for file in files):
        raise InputError(
            f"{folder} holds {there} of the {len(files)} prompts already: name another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    typer.echo(
        f"Wrote {len(files)} prompts to {folder}. Delete those that stay as they are: they then "
        f"follow updates."
    )


def _ask_many(data_set: str, settings: "Settings", at_once: int) -> int:
    """Print a line of JSON for each question, its answer or its error; return the exit code."""
    from briefcontext.commands.progress import run_all
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.graphs.state import Input

    items = load_data_set(data_set).items
    questions = [Input(question=item.question, options=dict(item.options)) for item in items]
    code = 0

    def show(place: int, outcome: dict[str, Any] | ModelCallError) -> None:
        nonlocal code
        if isinstance(outcome, ModelCallError):
            code = EXIT_FAILED
            print_json({"id": items[place].id, **questions[place], "error": str(outcome)})
        else:
            print_json({"id": items[place].id, **outcome["answer"]})

    run_all(questions, settings, at_once=at_once, show=show)
    return code


def _question_and_options(words: list[str], options: list[str]) -> tuple[str, dict[str, str]]:
    """Separate the question from options: `--options A=yes B=no` leaves B=no among the words."""
    more = [word for word in words if options and _OPTION.fullmatch(word)]
    rest = [word for word in words if word not in more]
    choices = assignments([*options, *more], "Option", "LETTER=TEXT, for example A=yes")
    if len(rest) != 1:
        what = "There is no question" if not rest else f"{len(rest)} arguments are not one question"
        raise InputError(f'{what}. Ask one, in quotes: briefcontext ask "Is … ?"')
    question = (
        sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if rest == ["-"] else rest[0]
    )
    return question, choices
