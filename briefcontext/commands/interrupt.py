"""Ending a command: its exit codes, and the first Ctrl-C."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

import typer

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "Interrupted", "end_now"]

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """A Ctrl-C, with what was done until then.

    typer would make an exit code of a KeyboardInterrupt, and drop its message.
    """


def end_now(message: str) -> NoReturn:
    """Say that the command was interrupted, and end the process.

    A thread that loads a model's weights cannot be stopped, and would not let the interpreter end in the usual way.
    """
    with suppress(OSError, ValueError):
        typer.echo(message, err=True)
        sys.stdout.flush()
    os._exit(EXIT_INTERRUPTED)
