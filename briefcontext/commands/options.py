"""Options that commands share, and the settings made of them."""

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.errors import InputError

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

MODEL, OUTPUT = "Model", "Output"
"""Two of the groups in which the help of a command shows its options."""
source_option, model_option, reading_option, filter_option, output_option, server_option = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("What is read", MODEL, "How it is read", "Filters", OUTPUT, "Server")
)

KnowledgeBaseName = Annotated[
    str | None,
    source_option("--kb", help="Folder of a knowledge base, or pubmed: for live PubMed. Default: the bundled demo."),
]
Document = Annotated[str | None, source_option(help="One long file to answer from, read in the order of its text.")]
DocumentEncoder = Annotated[str | None, source_option("--encoder", help="Encoder for that file. Default: minilm.")]
Model = Annotated[
    str | None,
    model_option(help="Chat model as provider:model, such as openai:gpt-4o-mini. Default: none; sentences are copied."),
]
ExtractModel = Annotated[str | None, model_option(help="Another chat model for the extractions. Default: the same.")]
Temperature = Annotated[float | None, model_option(help="The models' temperature. Default: the provider's own.")]
MaxOutputTokens = Annotated[int | None, model_option(help="The most tokens of a reply. Default: the provider's own.")]
ModelArguments = Annotated[
    list[str] | None,
    model_option("--model-arg", metavar="NAME=VALUE", help="What the model takes besides: --model-arg top_p=0.9."),
]
ModelCache = Annotated[str | None, model_option(help="SQLite file that keeps the replies of models.")]
ModelTimeout = Annotated[float | None, model_option("--timeout", help="Seconds for one model call. Default: 120.")]
PromptsFolder = Annotated[
    str | None, model_option(metavar="DIR", help="Folder of prompts in place of the bundled ones.")
]
TopK = Annotated[int | None, reading_option(help="Documents to retrieve for an answer. Default: 16.")]
Route = Annotated[
    str | None,
    reading_option("--route", "--method", help="auto, map_reduce, vanilla or order_preserving. Default: auto."),
]
CrossEncoder = Annotated[
    str | None, reading_option(help="Re-rank what was found: medcpt, or the folder of a cross-encoder.")
]
Preflight = Annotated[
    str | None,
    reading_option(
        metavar="iou|calibrated",
        help="Decide by the rankings' overlap, or by the calibration in the knowledge base's folder. Default: iou.",
    ),
]
CalibrationFile = Annotated[
    str | None, reading_option("--calibration-file", metavar="FILE", help="Decide by the calibration in this file.")
]
IncludeRetracted = Annotated[bool, filter_option("--include-retracted", help="Use retracted articles, too, labelled.")]

Years = Annotated[str | None, filter_option(help="Only publications of these years: 2015-2020, 2015-, -2019 or 2021.")]
StudyTypes = Annotated[
    list[str] | None,
    filter_option(
        "--type",
        help="Only this study type, or PubMed's publication type, or one of several: --type 'randomized trial'.",
    ),
]
Journals = Annotated[
    list[str] | None, filter_option("--journal", help="Only this journal, or one of several, by title or abbreviation.")
]
Mesh = Annotated[list[str] | None, filter_option("--mesh", help="Only under this MeSH heading, or one of several.")]
Languages = Annotated[
    list[str] | None, filter_option("--language", help="Only in this language, or one of several: eng or en.")
]

Host = Annotated[
    str, server_option(help="Address to listen on. Any but this machine's own needs a token; one is made.")
]
Port = Annotated[int, server_option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Token = Annotated[
    str | None,
    server_option(envvar="BRIEFCONTEXT_TOKEN", help="What clients must send; better given by the variable."),
]


def settings_from(**given: Any) -> "Settings":
    """Make settings of the options that were given; those that were not are None or empty, and keep their defaults.

    Raises:
        InputError: a value out of its range.
    """
    from briefcontext.graphs.settings import Settings

    return Settings(**{name: value for name, value in given.items() if value not in (None, [], ())})


def settings_of(context: typer.Context, **other: Any) -> "Settings":
    """Make settings of a command's options, those that are named like settings, and of others.

    Raises:
        InputError: a value out of its range, a document beside a knowledge base, or an encoder without a document.
    """
    from briefcontext.graphs.settings import Settings

    given = {name: value for name, value in context.params.items() if name in Settings.model_fields} | other
    if given.get("document") is not None:
        if given["knowledge_base"] is not None:
            raise InputError("--document and --kb are both given: name one of them.")
        given["route"] = given.get("route") or "order_preserving"
    elif given.get("document_encoder") is not None:
        raise InputError("--encoder is for --document: leave it out. A knowledge base has its own.")
    return settings_from(**given)


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
    """Read arguments of a model or a loader: numbers, truth values and objects as JSON has them, else words."""
    values: dict[str, Any] = {}
    for name, value in assignments(given, "Argument", "NAME=VALUE, for example top_p=0.9").items():
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values or None
