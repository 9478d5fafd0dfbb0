"""Search filters, and their SQL conditions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document

from briefcontext.knowledge.sources.publication import (
    language,
    normalised,
    publication_type,
    year_in,
)
from briefcontext.knowledge.study_type import study_type

LABELLED = ("publication_types", "journals", "mesh", "languages")
"""The columns that hold lists of labels, and the filters by them."""
WIDEN = (
    "Widen the filters, or leave them out: a passage without a year or type fulfils no filter by "
    "it. A type is a study type such as randomized trial, or a type of PubMed."
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on passages: one label of each given kind must match, in capitals or not.

    A passage without a year, for example, fulfils no filter by year.
    """

    first_year: int | None = None
    last_year: int | None = None
    """Both included."""
    publication_types: tuple[str, ...] = ()
    """Study types (`StudyType`), or PubMed's types: `Randomized Controlled Trial`."""
    journals: tuple[str, ...] = ()
    """Titles, or MEDLINE's abbreviations: `N Engl J Med`."""
    mesh: tuple[str, ...] = ()
    """Headings, without qualifiers and narrower headings."""
    languages: tuple[str, ...] = ()
    """Codes of PubMed or ISO 639-1: `eng` or `en`."""

    def __bool__(self) -> bool:
        return self != Filters()

    def __str__(self) -> str:
        """Return `years 2015-2020, publication types Review or Meta-Analysis`, for example."""
        asked = [(name.replace("_", " "), " or ".join(getattr(self, name))) for name in LABELLED]
        kinds = [f"{kind} {values}" for kind, values in asked if values]
        if (self.first_year, self.last_year) != (None, None):
            first, last = self.first_year or "", self.last_year or ""
            kinds.insert(0, f"year {first}" if first == last else f"years {first}-{last}")
        return ", ".join(kinds)

    def without_passage(self) -> str:
        """Return the message that no passage fulfils them."""
        return f"No passage fulfils the filters ({self}). {WIDEN}"

    def where(self) -> str | None:
        """Return a condition in SQL; None without filters."""
        conditions = []
        if self.first_year is not None:
            conditions.append(f"year >= {int(self.first_year)}")
        if self.last_year is not None:
            conditions.append(f"year <= {int(self.last_year)}")
        for name in LABELLED:
            if values := labels(name, getattr(self, name)):
                conditions.append(f"array_has_any({name}, [{', '.join(map(sql, values))}])")
        return " AND ".join(conditions) or None


NO_FILTERS = Filters()


def labels(name: str, text: object) -> list[str]:
    """Return the labels of a list, or of a text with semicolons, as the column has them."""
    parts = (
        text.split(";") if isinstance(text, str) else text if isinstance(text, list | tuple) else []
    )
    result = (_label(name, part) for part in parts if isinstance(part, str))
    return list(dict.fromkeys(filter(None, result)))


def _label(name: str, text: str) -> str:
    if name == "mesh":
        # MEDLINE's notation: `*Asthma/drug therapy`.
        text = text.partition("/")[0].strip(" *")
    written = {"languages": language, "publication_types": publication_type}.get(name, str.strip)
    return written(text).casefold()


def labels_of(document: Document, known: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the labels of a document, whose `normalised` metadata are `known`, by column."""
    texts = {
        **known,
        "publication_types": f"{known.get('publication_types', '')};{study_type(document) or ''}",
        "journals": [known.get("journal"), known.get("journal_abbreviation")],
    }
    return {name: labels(name, texts.get(name)) for name in LABELLED}


def matches(document: Document, filters: Filters) -> bool:
    """Return whether a document fulfils the filters."""
    metadata = normalised(document.metadata)
    year, known = year_in(str(metadata.get("year", ""))), labels_of(document, metadata)
    if filters.first_year is not None and (year is None or year < filters.first_year):
        return False
    if filters.last_year is not None and (year is None or year > filters.last_year):
        return False
    asked = {name: labels(name, getattr(filters, name)) for name in LABELLED}
    return all(not set(values).isdisjoint(known[name]) for name, values in asked.items() if values)


def one_of(column: str, values: Iterable[object]) -> str:
    """Return a condition in SQL: the column has one of the values."""
    return f"{column} IN ({', '.join(map(sql, values)) or 'NULL'})"


def sql(value: object) -> str:
    """Return a number or a text as SQL writes it."""
    quoted = str(value).replace("'", "''")
    return repr(int(value)) if isinstance(value, int) else f"'{quoted}'"
