"""References: the cited articles, each once, also for reference managers."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.articles import article_id, pmid
from briefcontext.chains.citation import Citation, CitedQuote, journal
from briefcontext.files import encodable
from briefcontext.knowledge.study_type import StudyType

_MAX_AUTHORS = 6
"""Longer lists end in "et al", as in the ICMJE's samples of NLM style."""


class Reference(TypedDict):
    """An article that the answer cites."""

    number: str
    """Its number in the list of references."""
    keys: list[str]
    """Keys of the citations of this article, one for each passage."""
    source_id: str
    """The id of the source: a PMID if there is one."""
    title: str
    """The title."""
    authors: list[str]
    """Authors as `Smith, JA`; a group by its name."""
    journal: str
    """The journal; empty if unknown, as are the following."""
    year: int | None
    """The year of publication; null if unknown."""
    volume: str
    """The volume."""
    issue: str
    """The issue."""
    pages: str
    """The pages."""
    doi: str
    """The DOI."""
    pmid: str
    """The PubMed id."""
    url: str | None
    """The article's web page."""
    citation: str
    """The reference in the style of the National Library of Medicine."""


def list_references(
    citations: Sequence[Citation], documents: Sequence[Document]
) -> list[Reference]:
    """Return the cited articles, in the order of their numbers."""
    by_id = {str(document.id): document for document in documents}
    found: dict[str, Reference] = {}
    for citation in citations:
        document = by_id[citation["document_id"]]
        article = article_id(document)
        if article not in found:
            found[article] = _reference(str(len(found) + 1), citation, document)
        found[article]["keys"].append(citation["key"])
    return list(found.values())


def place_words(quote: CitedQuote) -> str:
    """Return the place of a quote in words; empty if unknown."""
    if quote["match"] == "title":
        return "title"
    parts = [quote["section"], f"paragraph {quote['paragraph']}" if quote["paragraph"] else ""]
    parts.append(f"page {quote['page']}" if quote["page"] else "")
    return ", ".join(filter(None, parts))


def _reference(number: str, citation: Citation, document: Document) -> Reference:
    def known(name: str) -> str:
        return " ".join(str(document.metadata.get(name) or "").split())

    title = " ".join(citation["title"].split())
    # PubMed marks retracted titles this way, and reference managers have no field for it.
    if citation["retracted"] and not title.strip("[").casefold().startswith("retracted"):
        title = f"RETRACTED: {title}"
    reference = Reference(
        number=number,
        keys=[],
        source_id=citation["source_id"],
        title=title,
        authors=[author.strip() for author in known("authors").split(";") if author.strip()],
        journal=journal(document),
        year=citation["year"],
        volume=known("volume"),
        issue=known("issue"),
        pages=known("pages"),
        doi=known("doi"),
        pmid=pmid(document),
        url=citation["url"],
        citation="",
    )
    return {**reference, "citation": _in_nlm_style(reference)}


def _in_nlm_style(reference: Reference) -> str:
    """Return NLM style: `Smith JA. Title. J Bees. 2021;4(2):12-19. doi: 10.1000/1. PMID: 1.`."""
    authors = [author.replace(",", "") for author in reference["authors"]]
    if len(authors) > _MAX_AUTHORS:
        authors = [*authors[:_MAX_AUTHORS], "et al"]
    issue = f"({reference['issue']})" if reference["issue"] else ""
    printed = f";{reference['volume']}{issue}" if reference["volume"] or issue else ""
    printed += f":{reference['pages']}" if reference["pages"] else ""
    ids = [f"doi: {reference['doi']}"] if reference["doi"] else []
    ids += [f"PMID: {reference['pmid']}"] if reference["pmid"] else []
    if reference["source_id"].startswith("PMC"):
        ids.append(f"PMCID: {reference['source_id']}")
    parts = [
        ", ".join(authors),
        reference["title"],
        reference["journal"],
        f"{reference['year'] or ''}{printed}",
        *ids,
    ]
    written = [part if part.endswith((".", "?", "!")) else f"{part}." for part in parts if part]
    return " ".join(written if ids else [*written, reference["source_id"]])


ReferenceFormat = Literal["ris", "bibtex", "nlm"]

_PAGES = re.compile(r"(\w*?)(\d+)-(\w*?)(\d+)$")


def write_references(references: Sequence[Reference], format: ReferenceFormat) -> str:
    """Return references in one of the formats, ending in a line break; empty if there are none."""
    lines = [_on_one_line(each) for each in references]
    return REFERENCE_FORMATS[format](lines) if lines else ""


def _on_one_line(reference: Reference) -> Reference:
    """Remove line breaks, which would begin another field or entry."""
    lines: Any = dict(reference)
    for name, value in lines.items():
        lines[name] = _line(value) if isinstance(value, str) else value
    lines["authors"] = [_line(author) for author in reference["authors"]]
    written: Reference = lines
    return written


def _line(text: str) -> str:
    """Return a text on one line, without control characters and lone surrogates."""
    words = encodable(" ".join(text.split()))
    return "".join(character for character in words if character.isprintable())


def _ris(references: Sequence[Reference]) -> str:
    import rispy

    class Writer(rispy.RisWriter):  # type: ignore[misc]
        def set_header(self, count: int) -> str:
            return ""  # A file of RIS begins with a type; rispy's own begins with a number.

    entries = [_ris_entry(reference) for reference in references]
    return str(rispy.dumps(entries, implementation=Writer))


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

    def plain(text: str | None) -> str:
        # BibTeX counts braces even after a backslash.
        return (text or "").replace("{", "").replace("}", "")

    def latex(text: str) -> str:
        return str(unicode_to_latex(plain(text)))

    def entry(reference: Reference) -> Entry:
        # Braces keep a title's capitals, and prevent a group from being split into names.
        authors = [
            name if ", " in name and " and " not in name else f"{{{name}}}"
            for name in map(latex, reference["authors"])
        ]
        known = {
            "author": " and ".join(authors),
            "title": f"{{{latex(reference['title'])}}}",
            "journal": latex(reference["journal"]),
            "year": str(reference["year"] or ""),
            "volume": latex(reference["volume"]),
            "number": latex(reference["issue"]),
            "pages": "--".join(filter(None, map(latex, _first_and_last(reference["pages"])))),
            "doi": plain(reference["doi"]).replace("\\", ""),
            "pmid": plain(reference["pmid"]).replace("\\", ""),
            "url": plain(reference["url"]).replace("\\", ""),
        }
        family = "".join(reference["authors"][:1]).partition(",")[0]
        name = "".join(filter(str.isalpha, family.encode("ascii", "ignore").decode())) or "ref"
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


class Evidence(TypedDict):
    """The cited articles, counted by kind."""

    study_types: dict[str, int]
    """Number of articles of each study type, the strongest first; `unknown` last."""
    newest: int | None
    """The year of the newest article."""
    conflict: bool | None
    """Whether the evidence contradicts itself; null if no model read it."""
    summary: str
    """The same in words; empty if neither a study type nor a year is known."""


_PLURALS = {
    "systematic review or meta-analysis": "systematic reviews or meta-analyses",
    "cohort study": "cohort studies",
    "case-control study": "case-control studies",
    "animal or laboratory study": "animal or laboratory studies",
}


_CONFLICT = {
    True: "they contradict each other",
    False: "no conflict reported",
    None: "not checked for conflicts",
}


def summarise_evidence(
    articles: Mapping[str, tuple[StudyType | None, int | None]], *, conflict: bool | None
) -> Evidence:
    """Count the study types of articles, given by source id with their years."""
    counts = Counter(kind or "unknown" for kind, _ in articles.values())
    study_types = {kind: counts[kind] for kind in (*get_args(StudyType), "unknown") if counts[kind]}
    newest = max((year for _, year in articles.values() if year), default=None)
    parts = [_counted(count, kind) for kind, count in study_types.items()]
    parts += [f"newest {newest}"] if newest else []
    parts.append(_CONFLICT[conflict])
    known = newest or study_types.keys() - {"unknown"}
    return Evidence(
        study_types=study_types,
        newest=newest,
        conflict=conflict,
        summary="; ".join(parts) if known else "",
    )


def _counted(count: int, kind: str) -> str:
    if kind == "unknown":
        return f"{count} of other or unknown type"
    return f"{count} {kind if count == 1 else _PLURALS.get(kind, f'{kind}s')}"
