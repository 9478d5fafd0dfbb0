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
    "Widen the filters, or leave them out; what tells no year or type is not found by one. Types "
    "are such as "
    "randomized trial, or have PubMed's names, as journals and headings have."
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on passages: of each kind asked for, one of its labels has to be there.

    Labels are compared without regard to case. A passage that does not say what is asked for, a
    year for example, is not found.
    """

    first_year: int | None = None
    last_year: int | None = None
    """Both included."""
    publication_types: tuple[str, ...] = ()
    """A study type (`randomized trial`, of `StudyType`), or as PubMed writes them: `Randomized Controlled Trial`."""
    journals: tuple[str, ...] = ()
    """Titles, or their abbreviations in MEDLINE: `BMJ`, `N Engl J Med`."""
    mesh: tuple[str, ...] = ()
    """Headings, without qualifiers; narrower ones are headings of their own."""
    languages: tuple[str, ...] = ()
    """PubMed's codes of three letters, or ISO's of two: `eng` or `en`."""

    def __bool__(self) -> bool:
        """Return whether anything is left out."""
        return self != Filters()

    def __str__(self) -> str:
        """As people read it: `years 2015-2020, publication types Review or Meta-Analysis`."""
        asked = [(name.replace("_", " "), " or ".join(getattr(self, name))) for name in LABELLED]
        kinds = [f"{kind} {values}" for kind, values in asked if values]
        if (self.first_year, self.last_year) != (None, None):
            first, last = self.first_year or "", self.last_year or ""
            kinds.insert(0, f"year {first}" if first == last else f"years {first}-{last}")
        return ", ".join(kinds)

    def without_passage(self) -> str:
        """Say that no passage fulfils them, and what to do."""
        return f"No passage fulfils the filters ({self}). {WIDEN}"

    def where(self) -> str | None:
        """A condition in SQL; None where nothing is left out."""
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
    """The labels of a list, or of a text with semicolons between them, as the column of that name holds them."""
    parts = (
        text.split(";") if isinstance(text, str) else text if isinstance(text, list | tuple) else []
    )
    found = (_label(name, part) for part in parts if isinstance(part, str))
    return list(dict.fromkeys(filter(None, found)))


def _label(name: str, text: str) -> str:
    if name == "mesh":
        # MEDLINE's notation: `*Asthma/drug therapy`.
        text = text.partition("/")[0].strip(" *")
    written = {"languages": language, "publication_types": publication_type}.get(name, str.strip)
    return written(text).casefold()


def labels_of(document: Document, known: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the labels of a document for each of the columns `LABELLED`.

    Args:
        document: the document.
        known: its metadata as `normalised` returns them.
    """
    texts = {
        **known,
        "publication_types": f"{known.get('publication_types', '')};{study_type(document) or ''}",
        "journals": [known.get("journal"), known.get("journal_abbreviation")],
    }
    return {name: labels(name, texts.get(name)) for name in LABELLED}


def matches(document: Document, filters: Filters) -> bool:
    """Return whether the filters let a document through."""
    metadata = normalised(document.metadata)
    year, known = year_in(str(metadata.get("year", ""))), labels_of(document, metadata)
    if filters.first_year is not None and (year is None or year < filters.first_year):
        return False
    if filters.last_year is not None and (year is None or year > filters.last_year):
        return False
    asked = {name: labels(name, getattr(filters, name)) for name in LABELLED}
    return all(not set(values).isdisjoint(known[name]) for name, values in asked.items() if values)


def one_of(column: str, values: Iterable[object]) -> str:
    """A condition in SQL: the column has one of the values. Without values none fulfils it."""
    return f"{column} IN ({', '.join(map(sql, values)) or 'NULL'})"


def sql(value: object) -> str:
    """A number or a text as SQL writes it."""
    return (
        repr(int(value)) if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))
    )
