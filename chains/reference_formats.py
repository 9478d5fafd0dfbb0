"""References as reference managers read them: RIS, BibTeX, and the style of the National Library of Medicine."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from briefcontext.chains.references import Reference

__all__ = ["REFERENCE_FORMATS", "ReferenceFormat", "write_references"]

ReferenceFormat = Literal["ris", "bibtex", "nlm"]

_PAGES = re.compile(r"(\w*?)(\d+)-(\w*?)(\d+)$")


def write_references(references: Sequence[Reference], format: ReferenceFormat) -> str:
    """Return references in one of the formats, as text that ends with a line break; empty where there are none."""
    return REFERENCE_FORMATS[format](references) if references else ""


def _ris(references: Sequence[Reference]) -> str:
    import rispy

    class Writer(rispy.RisWriter):  # type: ignore[misc]
        def set_header(self, count: int) -> str:
            return ""  # A file of RIS begins with a type; rispy's own begins with a number.

    return str(rispy.dumps([_ris_entry(reference) for reference in references], implementation=Writer))


def _ris_entry(reference: Reference) -> dict[str, Any]:
    first, last = _first_and_last(reference["pages"])
    known: dict[str, Any] = {
        "authors": reference["authors"],
        "title": reference["title"],
        "secondary_title": reference["journal"],
        "year": str(reference["year"] or ""),
        "volume": reference["volume"],
        "number": reference["issue"],
        "start_page": first,
        "end_page": last,
        "doi": reference["doi"],
        "accession_number": reference["pmid"],
        "name_of_database": "PubMed" if reference["pmid"] else "",
        "urls": [reference["url"]] if reference["url"] else [],
        "id": reference["source_id"],
    }
    kind = "JOUR" if reference["journal"] else "GEN"
    return {"type_of_reference": kind, **{name: value for name, value in known.items() if value}}


def _first_and_last(pages: str) -> tuple[str, str]:
    """Return both pages in full: 1234 and 1236 for `1234-6`, as PubMed writes it."""
    if not (found := _PAGES.match(pages)):
        return pages, ""
    letters, first, own, last = found.groups()
    return letters + first, (own or letters) + first[: max(len(first) - len(last), 0)] + last


def _bibtex(references: Sequence[Reference]) -> str:
    from bibtexparser.entrypoint import write_string
    from bibtexparser.library import Library
    from bibtexparser.model import Entry, Field
    from pylatexenc.latexencode import unicode_to_latex

    def entry(reference: Reference) -> Entry:
        written = {
            name: unicode_to_latex(str(reference[name] or "")) for name in ("title", "journal", "year", "volume")
        }
        # Braces keep a title's capitals, and a group from being split into names.
        authors = [name if ", " in name else f"{{{name}}}" for name in map(unicode_to_latex, reference["authors"])]
        known = {
            "author": " and ".join(authors),
            **written,
            "title": f"{{{written['title']}}}",
            "number": unicode_to_latex(reference["issue"]),
            "pages": "--".join(filter(None, map(unicode_to_latex, _first_and_last(reference["pages"])))),
            "doi": reference["doi"],
            "pmid": reference["pmid"],
            "url": reference["url"] or "",
        }
        name = re.sub(r"[^A-Za-z]", "", (reference["authors"] or ["ref"])[0].partition(",")[0]) or "ref"
        fields = [Field(field, value) for field, value in known.items() if value]
        kind = "article" if reference["journal"] else "misc"
        return Entry(kind, f"{name}{reference['year'] or ''}-{reference['number']}", fields)

    return write_string(Library([entry(reference) for reference in references]))


def _nlm(references: Sequence[Reference]) -> str:
    return "".join(f"{reference['number']}. {reference['citation']}\n" for reference in references)


REFERENCE_FORMATS: Mapping[ReferenceFormat, Callable[[Sequence[Reference]], str]] = {
    "ris": _ris,
    "bibtex": _bibtex,
    "nlm": _nlm,
}
