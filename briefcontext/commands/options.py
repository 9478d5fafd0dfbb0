"""Options that commands share, and the settings made of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.errors import InputError

if TYPE_CHECKING:
    from briefcontext.graphs.settings import Settings

__all__ = [
    "FILTERS",
    "MODEL",
    "OUTPUT",
    "READING",
    "SOURCES",
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
    "settings_from",
]

SOURCES, MODEL, READING = "What is read", "Model", "How it is read"
FILTERS, OUTPUT = "Filters", "Output"
"""How the help of a command groups its options."""

KnowledgeBaseName = Annotated[
    str | None,
    typer.Option(
        "--kb",
        rich_help_panel=SOURCES,
        help="Folder of a knowledge base, or pubmed: for live PubMed. Default: the bundled demo.",
    ),
]
Document = Annotated[
    str | None,
    typer.Option(rich_help_panel=SOURCES, help="One long file to answer from, read in the order of its text."),
]
DocumentEncoder = Annotated[
    str | None, typer.Option(rich_help_panel=SOURCES, help="Encoder for that file. Default: minilm.")
]
ExtractModel = Annotated[
    str | None, typer.Option(rich_help_panel=MODEL, help="Another chat model for the extractions. Default: the same.")
]
Temperature = Annotated[
    float | None, typer.Option(rich_help_panel=MODEL, help="The models' temperature. Default: the provider's own.")
]
MaxOutputTokens = Annotated[
    int | None, typer.Option(rich_help_panel=MODEL, help="The most tokens of a reply. Default: the provider's own.")
]
ModelArguments = Annotated[
    list[str] | None,
    typer.Option(
        "--model-arg",
        metavar="NAME=VALUE",
        rich_help_panel=MODEL,
        help="What the model takes besides: --model-arg top_p=0.9.",
    ),
]
ModelCache = Annotated[
    str | None, typer.Option(rich_help_panel=MODEL, help="SQLite file that keeps the replies of models.")
]
ModelTimeout = Annotated[
    float | None, typer.Option("--timeout", rich_help_panel=MODEL, help="Seconds for one model call. Default: 120.")
]
PromptsFolder = Annotated[
    str | None,
    typer.Option(metavar="DIR", rich_help_panel=MODEL, help="Folder of prompts in place of the bundled ones."),
]
Route = Annotated[
    str | None,
    typer.Option(rich_help_panel=READING, help="auto, map_reduce, vanilla or order_preserving. Default: auto."),
]
CrossEncoder = Annotated[
    str | None,
    typer.Option(rich_help_panel=READING, help="Re-rank what was found: medcpt, or the folder of a cross-encoder."),
]
Preflight = Annotated[
    str | None,
    typer.Option(
        metavar="iou|calibrated",
        rich_help_panel=READING,
        help="Decide by the rankings' overlap, or by the calibration in the knowledge base's folder. Default: iou.",
    ),
]
CalibrationFile = Annotated[
    str | None,
    typer.Option(
        "--calibration-file", metavar="FILE", rich_help_panel=READING, help="Decide by the calibration in this file."
    ),
]
IncludeRetracted = Annotated[
    bool, typer.Option("--include-retracted", rich_help_panel=FILTERS, help="Use retracted articles, too, labelled.")
]

Years = Annotated[
    str | None,
    typer.Option(rich_help_panel=FILTERS, help="Only publications of these years: 2015-2020, 2015-, -2019 or 2021."),
]
StudyTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        rich_help_panel=FILTERS,
        help='Only this publication type, or one of several: --type "Randomized Controlled Trial".',
    ),
]
Journals = Annotated[
    list[str] | None,
    typer.Option(
        "--journal", rich_help_panel=FILTERS, help="Only this journal, or one of several, by title or abbreviation."
    ),
]
Mesh = Annotated[
    list[str] | None,
    typer.Option("--mesh", rich_help_panel=FILTERS, help="Only under this MeSH heading, or one of several."),
]
Languages = Annotated[
    list[str] | None,
    typer.Option("--language", rich_help_panel=FILTERS, help="Only in this language, or one of several: eng or en."),
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
