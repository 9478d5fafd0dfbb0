"""Settings that a visitor of the page may choose, without files and models."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from briefcontext.access import MAX_DOCUMENTS
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.study_type import StudyType

CHOICES = {
    "route": "Reading",
    "fallback": "If the rankings agree",
    "top_k": "Documents to retrieve",
    "partition_size": "Documents in a group",
    "retrieval": "Search",
    "years": "Years",
    "publication_types": "Study types",
    "journals": "Journals",
    "mesh": "Subject headings (MeSH)",
    "languages": "Languages",
    "include_retracted": "Include retracted articles",
}
"""Labels of the settings in the form, in its order."""
FILTERS = {
    "years": "Both included; leave either empty.",
    "publication_types": "Any of these, by PubMed's publication types and MeSH headings.",
    "journals": "Titles, or abbreviations as in PubMed. Several: with semicolons between.",
    "mesh": "As PubMed writes them. Several: with semicolons between.",
    "languages": "PubMed's codes, such as eng or fre. Several: with semicolons between.",
}
"""Hints on the filters; other settings show their own descriptions."""
STUDY_TYPES = (*get_args(StudyType), "clinical trial", "observational study")
"""Study types that the form offers."""
_COUNTS = ("top_k", "partition_size")


def describe(settings: Settings, labels: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Describe the choices for a form by name, label, description, type, default and bounds.

    A document has no filters. `labels` are frequent ones of the knowledge base.
    """
    properties = Settings.model_json_schema()["properties"]
    filters = () if settings.document is not None else ("years", "publication_types", *labels)
    names = [name for name in CHOICES if name not in FILTERS or name in filters]
    return [
        _describe(name, properties[name], getattr(settings, name), labels.get(name, ()))
        for name in names
    ]


def _describe(
    name: str, schema: Mapping[str, Any], default: Any, labels: Sequence[str]
) -> dict[str, Any]:
    kind, offered = schema.get("type"), schema.get("enum")
    if name in FILTERS:
        kind, offered = ("years", None) if name == "years" else ("labels", labels)
    if name == "publication_types":
        kind, offered = "array", dict.fromkeys([*STUDY_TYPES, *default])
    return {
        "name": name,
        "label": CHOICES[name],
        "description": FILTERS.get(name) or schema["description"],
        "type": kind,
        "default": default,
        "minimum": schema.get("minimum"),
        "maximum": MAX_DOCUMENTS if name in _COUNTS else schema.get("maximum"),
        "values": None if offered is None else list(offered),
    }
