"""The command line.

Exit codes: 0 answered or abstained, 1 a model call failed or nothing was indexed, 2 bad input or
set-up, 3 an unexpected error such as a full disk, 130 interrupted. A closed output pipe ends it
silently.
"""

import os
import sys
import traceback
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any

import typer

from briefcontext.commands.ask import ask, prompts
from briefcontext.commands.calibrate import calibrate
from briefcontext.commands.experiment import compare, experiment
from briefcontext.commands.index import index
from briefcontext.commands.kb import kb
from briefcontext.commands.pubmed import pubmed
from briefcontext.commands.serve import mcp, serve
from briefcontext.commands.terminal import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    Interrupted,
    end_now,
    printable_line,
)
from briefcontext.errors import BriefContextError, ModelCallError, plain

EXIT_BAD_INPUT = 2
EXIT_UNEXPECTED = 3

# typer has its own copy of click, of which only this is public.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Answers medical questions over retrieved literature, with citations. "
    "Not a medical device.",
    epilog="Exit codes: 0 answered or abstained, 1 a model call failed or nothing was indexed, "
    "2 bad input or set-up, 3 an unexpected error, 130 interrupted.",
)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = app(standalone_mode=False)
        if code == EXIT_INTERRUPTED:
            end_now("Interrupted.")
        sys.stdout.flush()  # Report write errors here, not at the interpreter's end.
        sys.exit(code)
    except _UsageError as error:
        hint = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
        message = plain(error.format_message()).rstrip(".")
        _fail(f"{message}{'' if message.endswith('?') else '.'}{hint}", EXIT_BAD_INPUT)
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
    with suppress(OSError):
        typer.echo(f"Error: {printable_line(message)}", err=True)
    sys.exit(code)


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}."
    where = "" if "--verbose" in sys.argv else " Add --verbose to see where."
    return f"{type(error).__name__}: {str(error).strip().rstrip('.') or 'no more is known'}.{where}"


def _close_output() -> None:
    """Drop unwritten output, which the interpreter would try to write again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.callback()
def _common(
    context: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the traceback of an unexpected error.")
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Show the version, or without a command the help."""
    if show_version:
        typer.echo(f"BriefContext {version('briefcontext')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


for command in (ask, index, mcp, serve, compare, calibrate, prompts):
    app.command()(command)
app.add_typer(experiment, name="experiment")
app.add_typer(kb, name="kb")
app.add_typer(pubmed, name="pubmed")
