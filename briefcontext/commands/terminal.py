"""Terminal output: text without control characters, JSON, and the end of commands."""

import json
import os
import re
import sys
from contextlib import suppress
from typing import NoReturn

import typer

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

# Control characters except tab and line feed, direction marks, invisible characters and lone
# surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return a text with control characters spelled out, as JSON does it."""
    return _UNPRINTABLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def printable_line(text: str) -> str:
    """Return a printable text on one line."""
    return " ".join(printable(text).split())


def say(text: str) -> None:
    """Print a text on standard output."""
    typer.echo(printable(text))


def say_line(text: str, indent: int = 0) -> None:
    """Print one line with an indent."""
    typer.echo(f"{' ' * indent}{printable_line(text)}")


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


class Interrupted(BaseException):
    """A Ctrl-C, with a message on the finished steps.

    typer would convert a KeyboardInterrupt to an exit code and drop its message.
    """


def end_now(message: str) -> NoReturn:
    """Print that the command was interrupted, and end the process.

    A thread that loads a model's weights cannot be stopped, and would keep the interpreter alive.
    """
    with suppress(OSError, ValueError):
        typer.echo(message, err=True)
        sys.stdout.flush()
    os._exit(EXIT_INTERRUPTED)
