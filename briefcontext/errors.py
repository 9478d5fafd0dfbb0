"""The exceptions of BriefContext, as one family.

    BriefContextError
    ├── InputError            a question, an option or a setting that cannot be used
    ├── KnowledgeBaseError    a knowledge base or a source that is missing, broken or of another
    kind
    ├── MissingExtraError     an optional package that is not installed
    └── ModelError            an error of a language model
        ├── ModelSetupError       unknown model or provider, missing or refused key: do not retry
        └── ModelCallError        a call that failed: unreachable, overloaded, timed out

Each message states the problem, the value and the remedy. Every layer imports this module, so it
imports nothing of BriefContext.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from difflib import get_close_matches
from math import isfinite
from time import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class BriefContextError(RuntimeError):
    """The root of the family.

    LangGraph's server passes on the messages of some built-in errors only, RuntimeError among them.
    """


class InputError(BriefContextError):
    """A question, an option or a setting cannot be used."""


class KnowledgeBaseError(BriefContextError):
    """A knowledge base or a source is missing, broken or of another kind."""


class MissingExtraError(BriefContextError):
    """An optional package is not installed; the message names the command that installs it."""


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Import the packages of an extra, or raise MissingExtraError with their purpose."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{what}: {installing(extra)}.") from error


def installing(extra: str) -> str:
    """Return the command that installs an extra into this environment."""
    return f"pip install 'briefcontext[{extra}]' (from a clone: .venv/bin/pip)"


class ModelError(BriefContextError):
    """A language model failed."""


class ModelSetupError(ModelError):
    """The model or provider is unknown, or its key missing or refused: retrying cannot help."""


class ModelCallError(ModelError):
    """A model call failed: the server is unreachable or overloaded, or took too long."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message without its full stop, or else the error's class.

    XML from a server is left out.
    """
    return (
        str(error).strip().partition("\n")[0].partition("<?xml")[0].rstrip(".: ")
        or type(error).__name__
    )


def one_line(error: BaseException) -> str:
    """Return an error's message on one line that ends like a sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


def plain(problem: str) -> str:
    """Return pydantic's message as the end of a sentence."""
    return problem.replace("Value error, ", "").replace("Input should", "it should")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest known one, or else up to 30."""
    by_lower = {each.lower(): each for each in known}
    if near := get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6):
        return f" Did you mean {by_lower[near[0]]!r}?"
    return f" Known: {', '.join([*by_lower.values()][:30]) or 'none'}."


def problems(error: "ValidationError | Any", known: Iterable[str] = ()) -> str:
    """Return the problem of each wrong field, with the nearest known field."""
    listed = []
    for problem in error.errors():
        name = ".".join(map(str, problem["loc"])) or "reply"
        message = plain(problem["msg"])
        if known and problem["type"] == "extra_forbidden":
            message = f"unknown.{did_you_mean(name, known)}".rstrip(".")
        listed.append(f"{name}: {message}")
    return "; ".join(listed)


def retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110), or None."""
    from email.utils import parsedate_to_datetime

    try:
        seconds = float(value or "")
    except ValueError:
        try:
            date = parsedate_to_datetime(value or "")
            seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - time()
        except ValueError:
            return None
    return max(0.0, seconds) if isfinite(seconds) else None


def counted(count: int, noun: str) -> str:
    """Return `1 record`, or `1,200 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
