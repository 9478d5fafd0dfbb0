"""The terminal: words of documents and models made safe for it, JSON, counts in plain English, and how commands end."""

import json
import os
import re
import sys
from contextlib import suppress
from typing import NoReturn

import typer

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

# Control characters but tab and line feed, what turns the direction of writing, what is not seen,
# and lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return a text that a terminal shows and never obeys: control characters are spelled out, as JSON does it."""
    return _UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def printable_line(text: str) -> str:
    """Do as `printable` does, and return one line."""
    return " ".join(printable(text).split())


def say(text: str) -> None:
    """Print a text on standard output."""
    typer.echo(printable(text))


def say_line(text: str, indent: int = 0) -> None:
    """Print a text as one line, behind so many blanks."""
    typer.echo(f"{' ' * indent}{printable_line(text)}")


def print_json(value: object) -> None:
    """Print a value as JSON, and nothing else."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


class Interrupted(BaseException):
    """A Ctrl-C, with what was done until then.

    typer would make an exit code of a KeyboardInterrupt, and drop its message.
    """


def end_now(message: str) -> NoReturn:
    """Say that the command was interrupted, and end the process.

    A thread that loads a model's weights cannot be stopped, and would not let the interpreter end
    in the usual way.
    """
    with suppress(OSError, ValueError):
        typer.echo(message, err=True)
        sys.stdout.flush()
    os._exit(EXIT_INTERRUPTED)
