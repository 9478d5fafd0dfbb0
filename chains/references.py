"""References: the articles that an answer cites, each once, with the passages of it that are cited."""

import re
from collections.abc import Sequence

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.citation import Citation, CitedQuote
from briefcontext.chains.study_type import journal

__all__ = ["Reference", "counted_references", "described", "list_references", "place_words"]

_MOST_AUTHORS = 6
"""Of more, these are followed by "et al.", as the ICMJE's samples of NLM style have it."""
_PMID = re.compile(r"[1-9]\d{0,8}")
_PMC = re.compile(r"PMC\d+")


class Reference(TypedDict):
    """An article that the answer cites."""

    number: str
    keys: list[str]
    """Keys of the citations that point at it, each at a passage."""
    source_id: str
    title: str
    authors: list[str]
    """`Smith, JA`; a group by its name."""
    journal: str
    year: int | None
    volume: str
    issue: str
    pages: str
    doi: str
    pmid: str
    url: str | None
    citation: str
    """The reference in the style of the National Library of Medicine."""


def list_references(citations: Sequence[Citation], documents: Sequence[Document]) -> list[Reference]:
    """Return the articles that are cited, in the order of their numbers.

    Args:
        citations: in the order of their keys.
        documents: those that the citations point at.
    """
    by_id = {str(document.id): document for document in documents}
    found: dict[str, Reference] = {}
    for citation in citations:
        source = citation["source_id"]
        if source not in found:
            found[source] = _reference(str(len(found) + 1), citation, by_id[citation["document_id"]])
        found[source]["keys"].append(citation["key"])
    return list(found.values())


def described(reference: Reference, citations: Sequence[Citation]) -> str:
    """Return a reference in one line, with what is to be known of its source."""
    first = next(citation for citation in citations if citation["key"] in reference["keys"])
    return " · ".join(" ".join(part.split()) for part in (reference["citation"], *first["notes"]))


def counted_references(references: Sequence[Reference]) -> str:
    """Return how many articles and passages are cited, in words."""
    articles, passages = len(references), sum(len(reference["keys"]) for reference in references)
    counted = f"{articles} article{'s' * (articles != 1)}"
    return counted if passages == articles else f"{counted}, {passages} passages"


def place_words(quote: CitedQuote) -> str:
    """Return where a quote stands, in words for a person; empty where nothing is known."""
    if quote["match"] == "title":
        return "title"
    parts = [quote["section"], f"paragraph {quote['paragraph']}" if quote["paragraph"] else ""]
    parts.append(f"page {quote['page']}" if quote["page"] else "")
    return ", ".join(filter(None, parts))


def _reference(number: str, citation: Citation, document: Document) -> Reference:
    def known(name: str) -> str:
        return " ".join(str(document.metadata.get(name) or "").split())

    source, url = citation["source_id"], citation["url"]
    by_source = source if _PMID.fullmatch(source) and "pubmed" in (url or "") else ""
    reference = Reference(
        number=number,
        keys=[],
        source_id=source,
        title=" ".join(citation["title"].split()),
        authors=[author.strip() for author in known("authors").split(";") if author.strip()],
        journal=journal(document),
        year=citation["year"],
        volume=known("volume"),
        issue=known("issue"),
        pages=known("pages"),
        doi=known("doi"),
        pmid=known("pmid") or by_source,
        url=url,
        citation="",
    )
    return Reference(**{**reference, "citation": _in_nlm_style(reference)})


def _in_nlm_style(reference: Reference) -> str:
    """Return `Smith JA, Doe B. Title. J Bees. 2021;4(2):12-19. doi: 10.1000/1. PMID: 1.`, as far as it is known."""
    authors = [author.replace(",", "") for author in reference["authors"]]
    if len(authors) > _MOST_AUTHORS:
        authors = [*authors[:_MOST_AUTHORS], "et al"]
    issue = f"({reference['issue']})" if reference["issue"] else ""
    printed = f";{reference['volume']}{issue}" if reference["volume"] or issue else ""
    printed += f":{reference['pages']}" if reference["pages"] else ""
    ids = [f"doi: {reference['doi']}"] if reference["doi"] else []
    ids += [f"PMID: {reference['pmid']}"] if reference["pmid"] else []
    if _PMC.fullmatch(reference["source_id"]):
        ids.append(f"PMCID: {reference['source_id']}")
    parts = [", ".join(authors), reference["title"], reference["journal"], f"{reference['year'] or ''}{printed}", *ids]
    written = [part if part.endswith((".", "?", "!")) else f"{part}." for part in parts if part]
    return " ".join([*written, *([] if ids else [reference["source_id"]])])
