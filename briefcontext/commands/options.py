"""Options that commands share, and the settings made from them."""

import json
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from briefcontext.errors import InputError, plain

if TYPE_CHECKING:
    from pydantic import ValidationError

    from briefcontext.graphs.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., None])

source_option, model_option, reading_option, filter_option, output_option, server_option = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("What is read", "Model", "How it is read", "Filters", "Output", "Server")
)

SETTINGS: dict[str, tuple[Any, Any]] = {
    "knowledge_base": (
        str,
        source_option(
            "--kb",
            help="Folder of a knowledge base, or pubmed: for live PubMed. Default: demo.",
        ),
    ),
    "document": (
        str,
        source_option(help="One long file to answer from, read in the order of its text."),
    ),
    "model": (
        str,
        model_option(help="Chat model, such as openai:gpt-4o-mini. Default: none, shows passages."),
    ),
    "extract_model": (
        str,
        model_option(help="Another chat model for the extractions. Default: the same."),
    ),
    "verify": (
        bool,
        model_option(
            "--verify/--no-verify",
            help="Compare cited sentences with their passages by a model. Default: --verify.",
        ),
    ),
    "verify_model": (
        str,
        model_option(help="Model for it: provider:model or cross-encoder:NAME. Default: the same."),
    ),
    "temperature": (
        float,
        model_option(help="The models' temperature. Default: the provider's own."),
    ),
    "max_output_tokens": (
        int,
        model_option(help="Limit of reply tokens. Default: the provider's own."),
    ),
    "model_arguments": (
        list[str],
        model_option(
            "--model-arg",
            metavar="NAME=VALUE",
            help="Another argument of the model: --model-arg top_p=0.9.",
        ),
    ),
    "model_cache": (str, model_option(help="SQLite file that keeps the replies of models.")),
    "model_timeout": (
        float,
        model_option("--timeout", help="Seconds for one model call. Default: 120."),
    ),
    "prompts": (
        str,
        model_option(metavar="DIR", help="Folder of prompts to use instead of the bundled ones."),
    ),
    "route": (
        str,
        reading_option(
            "--route",
            "--method",
            help="auto, map_reduce, vanilla or order_preserving. Default: auto.",
        ),
    ),
    "fallback": (
        str,
        reading_option(
            help="When the rankings agree: vanilla or order_preserving. Default: vanilla."
        ),
    ),
    "top_k": (int, reading_option(help="Documents to retrieve for an answer. Default: 16.")),
    "partition_size": (int, reading_option(help="Documents for one extraction. Default: 4.")),
    "preflight_top_n": (
        int,
        reading_option(help="Documents at the top that the preflight compares. Default: 3."),
    ),
    "iou_threshold": (
        float,
        reading_option(help="Overlap above which the rankings agree. Default: 0.2."),
    ),
    "preflight": (
        str,
        reading_option(
            metavar="iou|calibrated|FILE",
            help="Overlap, the base's calibration, or a calibration file. Default: iou.",
        ),
    ),
    "retrieval": (
        str,
        reading_option(help="Search by dense, bm25 or hybrid. Default: hybrid."),
    ),
    "cross_encoder": (
        str,
        reading_option(help="Cross-encoder that reranks: medcpt, or a folder."),
    ),
    "years": (
        str,
        filter_option(help="Only publications of these years: 2015-2020, 2015-, -2019 or 2021."),
    ),
    "publication_types": (
        list[str],
        filter_option(
            "--type",
            help="Only this study or publication type: --type 'randomized trial'.",
        ),
    ),
    "journals": (
        list[str],
        filter_option("--journal", help="Only this journal, by title or abbreviation."),
    ),
    "mesh": (
        list[str],
        filter_option("--mesh", help="Only under this MeSH heading."),
    ),
    "languages": (
        list[str],
        filter_option("--language", help="Only in this language: eng or en."),
    ),
    "include_retracted": (
        bool,
        filter_option("--include-retracted", help="Use retracted articles, with a label."),
    ),
}
"""Type and option of each setting; None if not given."""
_MODEL_ARGUMENTS = {
    "temperature": "temperature",
    "max_output_tokens": "max_output_tokens",
    "cache": "model_cache",
}
"""Arguments of models that have their own options."""

Host = Annotated[
    str,
    server_option(help="Address to listen on. Other than loopback, a token is required."),
]
Port = Annotated[
    int, server_option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
]
Token = Annotated[
    str | None,
    server_option(
        envvar="BRIEFCONTEXT_TOKEN", help="Token that clients must send. The variable is safer."
    ),
]


def takes(*settings: str) -> Callable[[_Command], _Command]:
    """Add the options of settings to a command, which gets their values as `**given`."""
    of_settings = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
        )
        for name, (kind, option) in ((name, SETTINGS[name]) for name in settings)
    ]

    def with_options(command: _Command) -> _Command:
        *own, _ = signature(command).parameters.values()
        by_name = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own]
        command.__signature__ = Signature([*of_settings, *by_name])  # type: ignore[attr-defined]
        return command

    return with_options


def settings_of(**given: Any) -> "Settings":
    """Return the settings of a command's options. Options without a value keep their defaults.

    Raises:
        InputError: A value out of range, or a document with a knowledge base.
    """
    from pydantic import ValidationError

    from briefcontext.graphs.settings import Settings

    if given.get("document") is not None:
        if given["knowledge_base"] is not None:
            raise InputError("--document and --kb are both given: name one of them.")
        given["route"] = given.get("route") or "order_preserving"
    arguments = {name: given.pop(option, None) for name, option in _MODEL_ARGUMENTS.items()}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    given["model_arguments"] = arguments | (values(given.get("model_arguments") or []) or {})
    chosen = {name: value for name, value in given.items() if value not in (None, [], (), {})}
    try:
        return Settings(**chosen)
    except InputError as error:
        if isinstance(error.__cause__, ValidationError):
            raise InputError(_option_problems(error.__cause__)) from error
        raise


def _option_problems(error: "ValidationError") -> str:
    """Return the problems of settings under the names of their options."""
    problems = []
    for problem in error.errors():
        name = str(problem["loc"][0]) if problem["loc"] else ""
        # In an annotation, typer keeps the first name of an option as its default.
        named = SETTINGS[name][1].default if name in SETTINGS else ...
        option = named if isinstance(named, str) else f"--{name.replace('_', '-')}"
        message = plain(problem["msg"]).rstrip(".")
        problems.append(f"{option} {problem['input']!s:.100}: {message}.")
    return " ".join(problems)


def assignments(given: list[str], what: str, form: str) -> dict[str, str]:
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


def values(given: list[str]) -> dict[str, Any] | None:
    """Read arguments of a model or a loader: JSON values, or else text."""
    values: dict[str, Any] = {}
    for name, value in assignments(given, "Argument", "NAME=VALUE, for example top_p=0.9").items():
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values or None
