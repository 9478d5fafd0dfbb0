"""Options that commands share, and the settings made of them."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.errors import InputError

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

__all__ = [
    "MODEL",
    "OUTPUT",
    "CalibrationFile",
    "CrossEncoder",
    "Document",
    "DocumentEncoder",
    "ExtractModel",
    "IncludeRetracted",
    "Journals",
    "KnowledgeBaseName",
    "Languages",
    "MaxOutputTokens",
    "Mesh",
    "ModelArguments",
    "ModelCache",
    "ModelTimeout",
    "Preflight",
    "PromptsFolder",
    "Route",
    "StudyTypes",
    "Temperature",
    "Years",
    "check_document_options",
    "model_option",
    "output_option",
    "reading_option",
    "settings_from",
]

MODEL, OUTPUT = "Model", "Output"
"""Two of the groups in which the help of a command shows its options."""
source_option, model_option, reading_option, filter_option, output_option = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("What is read", MODEL, "How it is read", "Filters", OUTPUT)
)

KnowledgeBaseName = Annotated[
    str | None,
    source_option("--kb", help="Folder of a knowledge base, or pubmed: for live PubMed. Default: the bundled demo."),
]
Document = Annotated[str | None, source_option(help="One long file to answer from, read in the order of its text.")]
DocumentEncoder = Annotated[str | None, source_option(help="Encoder for that file. Default: minilm.")]
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
Route = Annotated[str | None, reading_option(help="auto, map_reduce, vanilla or order_preserving. Default: auto.")]
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
        "--type", help='Only this publication type, or one of several: --type "Randomized Controlled Trial".'
    ),
]
Journals = Annotated[
    list[str] | None, filter_option("--journal", help="Only this journal, or one of several, by title or abbreviation.")
]
Mesh = Annotated[list[str] | None, filter_option("--mesh", help="Only under this MeSH heading, or one of several.")]
Languages = Annotated[
    list[str] | None, filter_option("--language", help="Only in this language, or one of several: eng or en.")
]


def check_document_options(document: str | None, kb: str | None, encoder: str | None) -> None:
    """Refuse a document beside a knowledge base, and an encoder without a document.

    Raises:
        InputError: the one or the other.
    """
    if document is not None and kb is not None:
        raise InputError("--document and --kb are both given: name one of them.")
    if encoder is not None and document is None:
        raise InputError("--encoder is for --document; a knowledge base is always asked with its own encoder.")


def settings_from(**given: Any) -> "Settings":
    """Make settings of the options that were given; those that were not are None or empty, and keep their defaults.

    Raises:
        InputError: a value out of its range.
    """
    from briefcontext.graphs.settings import Settings

    return Settings(**{name: value for name, value in given.items() if value not in (None, [])})
