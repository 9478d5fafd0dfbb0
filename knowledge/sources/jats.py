"""JATS and NLM article XML, as PubMed Central gives it: one document per article, with its full text.

Element names are those of the NLM Journal Archiving DTD 2.x (archivearticle.dtd) and of its successor JATS
(JATS-archivearticle1.dtd); namespaces are ignored, so that JATS wrapped by a service reads the same.
"""

import json
import re
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Any

from langchain_core.documents import Document
from lxml import etree

from briefcontext.knowledge.sources.publication import (
    author_list,
    has_retracted_title,
    language,
    pubmed_url,
    under,
    year_in,
)
from briefcontext.knowledge.sources.source import Entry, Reject, rejecting
from briefcontext.knowledge.sources.xml_stream import (
    first_text,
    flatten,
    local_name,
    stream_elements,
    texts,
    unresolved_entity,
)

ROOTS = ("article", "pmc-articleset", "OAI-PMH")
WRAPPERS = ("pmc-articleset", "{*}OAI-PMH")

ABSTRACTS_LEFT_OUT = frozenset({"graphical", "video", "toc", "teaser"})
"""Values of `abstract-type` for pictures and for blurbs that repeat the abstract."""

PUB_DATES = ("ppub", "collection", "epub-ppub", "epub", "pub")
"""`pub-type` or `date-type` by preference: the journal issue's date first, as in PubMed's PubDate."""

PAGES = {
    "pmc": "https://pmc.ncbi.nlm.nih.gov/articles/{}/",
    "doi": "https://doi.org/{}",
    "pmid": pubmed_url("{}"),
}
"""The address of an article by its ids, the best first."""

MEDLINE_TYPES = {
    **{"review-article": "Review", "systematic-review": "Systematic Review", "case-report": "Case Reports"},
    **{"letter": "Letter", "editorial": "Editorial", "news": "News", "correction": "Published Erratum"},
    **{"retraction": "Retraction Notice", "expression-of-concern": "Expression of Concern"},
}
"""Publication types, as filters name them, of the `article-type`s that have one; others stay as they are."""

META = "front/article-meta"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ENGLISH = "en"
"""The DTDs' default, which is not loaded."""

RETRACTION_NOTICE_TYPE = "retraction"
RETRACTION_FORWARD, CORRECTION_FORWARD = "retraction-forward", "correction-forward"
CONCERN_FORWARD = frozenset({"expressed-concern", "expression-of-concern"})
"""`related-article-type` by which an article points to the notice that retracts, corrects or doubts it."""

HEADED = frozenset({"abstract", "app", "body", "sec"})
CAPTIONED = frozenset({"fig", "supplementary-material", "table-wrap"})
# fmt: off
BLOCKS = HEADED | CAPTIONED | {
    "boxed-text", "caption", "code", "def", "def-item", "def-list", "disp-quote", "fig-group", "list",
    "list-item", "p", "preformat", "speech", "statement", "subtitle", "table-wrap-group", "term", "title",
    "verse-group", "verse-line",
}
ITEMS = frozenset({"def", "list-item"})
SPACED = BLOCKS | {"break", "disp-formula"}
"""Elements that print apart from what surrounds them."""

LEFT_OUT = frozenset({
    "alt-text", "annotation", "annotation-xml", "attrib", "fn", "fn-group", "graphic", "inline-graphic",
    "label", "long-desc", "media", "object-id", "permissions", "ref-list", "sec-meta", "strike",
    "table", "table-wrap-foot",
})
# fmt: on
FORMULA_ALTERNATIVES = frozenset({"tex-math", "textual-form"})
"""Other writings of a formula, which count only where it has no MathML."""

_INITIAL = re.compile(r"(?<![^\W_])[^\W\d_]|(?<=[A-Z])[A-Z]")
_DIGITS = re.compile(r"[0-9]+")
# TeX formulas come as whole LaTeX files, with a preamble that is the same in each.
_TEX_DOCUMENT = re.compile(r"\\begin\{document\}(.*?)\\end\{document\}", re.DOTALL)


@rejecting
def read_jats(stream: BufferedIOBase) -> Iterator[Entry]:
    """The articles of an uncompressed JATS stream, a single article or a set of them, and the rejects.

    The text is the title, the abstracts, the body and the captions of floats, in this order and parted by blank lines;
    a heading is a paragraph of its own, with its outer ones (`under`), and an item of a list begins with `- `. Left out
    are tables' cells, footnotes, front and back matter, sub-articles, and what is struck out.

    The id is the PMC id (`PMC…`), else the DOI, else the first other id, else `pmid:…`. `sections` is JSON:
    `[heading, start, end]` for each heading in order, where `text[start:end]` begins with the heading and
    ends before the next one; text without any heading has the heading "".
    """
    for number, article in enumerate(stream_elements(stream, ("{*}article",), within=WRAPPERS), start=1):
        yield _article(article, f"record {number}")


def _article(article: etree._Element, position: str) -> Entry:
    for element in article.iter("{*}*"):
        element.tag = local_name(element)
    ids = _ids(article)
    others = (value for kind, value in ids.items() if kind != "pmid")
    # A bare PMID would be the id of the same article's citation in PubMed.
    by_pmid = f"pmid:{ids['pmid']}" if "pmid" in ids else ""
    if not (source_id := ids.get("pmc") or ids.get("doi") or next(others, by_pmid)):
        return Reject(position, "The article has no article-id.")
    position += f" ({source_id})"
    if problem := unresolved_entity(article):
        return Reject(position, problem)
    _prepare(article)
    title = first_text(article, f"{META}/title-group/article-title")
    text, sections = _full_text(article, title)
    if not text:
        return Reject(position, "It has neither a title nor any text.")
    kind = article.get("article-type", "")
    first, last = first_text(article, f"{META}/fpage"), first_text(article, f"{META}/lpage")
    related = {link.get("related-article-type") for link in article.iterfind(f"{META}/related-article")}
    groups = article.iterfind(f"{META}/kwd-group")
    mesh = [group for group in groups if group.get("kwd-group-type", "").casefold() == "mesh"]
    optional = {
        "pmid": ids.get("pmid"),
        "doi": ids.get("doi"),
        "authors": author_list(map(_author, article.iterfind(f"{META}/contrib-group/contrib[@contrib-type='author']"))),
        "volume": first_text(article, f"{META}/volume"),
        "issue": first_text(article, f"{META}/issue"),
        "pages": f"{first}-{last}" if last not in ("", first) else first or first_text(article, f"{META}/elocation-id"),
        "journal_abbreviation": first_text(article, "front/journal-meta/journal-id[@journal-id-type='nlm-ta']"),
        "mesh": "; ".join(keyword for group in mesh for keyword in texts(group, "kwd")),
        "year": _year(article),
        "corrected": CORRECTION_FORWARD in related,
        "expression_of_concern": not CONCERN_FORWARD.isdisjoint(related),
    }
    metadata: dict[str, Any] = {
        "source_id": source_id,
        "title": title,
        "kind": "article",
        "publication_types": MEDLINE_TYPES.get(kind, kind),
        "languages": language(article.get(LANGUAGE, ENGLISH)),
        # The title of a notice that retracts an article often is that article's.
        "retracted": kind != RETRACTION_NOTICE_TYPE and (RETRACTION_FORWARD in related or has_retracted_title(title)),
        "retraction_notice": kind == RETRACTION_NOTICE_TYPE,
        "url": next((page.format(ids[kind]) for kind, page in PAGES.items() if kind in ids), ""),
        "journal": first_text(article, "front/journal-meta//journal-title"),
        "sections": json.dumps(sections, ensure_ascii=False, separators=(",", ":")),
        **{name: value for name, value in optional.items() if value},
    }
    return Document(id=source_id, page_content=text, metadata=metadata)


def _prepare(article: etree._Element) -> None:
    """Have the text inside any element be what is printed there."""
    for title in article.iterfind(f"{META}/title-group/article-title"):
        # A cross-reference in a title is the marker of a footnote.
        etree.strip_elements(title, "xref", with_tail=False)
    for float_ in article.iter(*CAPTIONED):
        float_.set("label", first_text(float_, "label"))
    for formula in article.iter(*FORMULA_ALTERNATIVES):
        parent = formula.getparent()
        if parent is not None and parent.find("math") is not None:
            formula.tag = "alt-text"
        elif formula.tag == "tex-math":
            source = flatten(formula)
            match = _TEX_DOCUMENT.search(source)
            del formula[:]
            formula.text = (match.group(1) if match else source).strip().strip("$")
    etree.strip_elements(article, *LEFT_OUT, with_tail=False)
    for element in article.iter(*SPACED):
        element.text, element.tail = f" {element.text or ''}", f" {element.tail or ''}"


def _author(author: etree._Element) -> str:
    family, given = (first_text(author, f".//name/{part}") for part in ("surname", "given-names"))
    if family:
        return f"{family}, {''.join(_INITIAL.findall(given))}"
    group = author.find("collab")
    return "" if group is None else group.text or first_text(group, "institution")


def _ids(article: etree._Element) -> dict[str, str]:
    """Ids by `pub-id-type`, the PMC id as `pmc` with its prefix: older files give only its digits."""
    ids: dict[str, str] = {}
    for element in article.iterfind(f"{META}/article-id"):
        if value := flatten(element):
            kind = element.get("pub-id-type", "")
            if kind in {"pmc", "pmcid"}:
                kind, value = "pmc", f"PMC{value}" if _DIGITS.fullmatch(value) else value
            ids.setdefault(kind, value)
    return ids


def _year(article: etree._Element) -> int | None:
    years = {
        date.get("pub-type", date.get("date-type", "")): first_text(date, "year")
        for date in article.iterfind(f"{META}/pub-date")
    }
    preferred = [years[kind] for kind in PUB_DATES if kind in years]
    return year_in(" ".join([*preferred, *years.values()]))


Part = tuple[str, str | None]
"""A heading, and a paragraph under it, which may be empty; None where a section begins."""


def _full_text(article: etree._Element, title: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The text, and the heading, start and end of each of its sections."""
    text, sections, here = "", list[tuple[str, int, int]](), None
    for heading, paragraph in _parts(article, title):
        # Behind an inner section, the outer one goes on below its heading.
        begins = paragraph is None or heading != here
        if paragraph != "" and (added := "\n\n".join(filter(None, (heading if begins else "", paragraph)))):
            text += "\n\n" if text else ""
            start = len(text) if begins else sections.pop()[1]
            text += added
            sections.append((heading, start, len(text)))
            here = heading
    return text, sections


def _parts(article: etree._Element, title: str) -> Iterator[Part]:
    yield title, None
    for abstract in article.iterfind(f"{META}/abstract"):
        if abstract.get("abstract-type") not in ABSTRACTS_LEFT_OUT:
            heading = "Abstract" if abstract.find("title") is None else ""
            yield heading, None
            yield from _paragraphs(abstract, heading)
    for name in ("body", "floats-wrap", "floats-group"):
        for element in article.iterfind(name):
            yield from _paragraphs(element, "")


def _paragraphs(element: etree._Element, heading: str) -> Iterator[Part]:
    """The element's paragraphs. A block inside running text, such as a list, breaks it in two."""
    outer, running = heading, element.text or ""
    for child in element:
        if child.tag not in BLOCKS:
            running += "".join(map(str, child.itertext()))
        else:
            yield heading, " ".join(running.split())
            running = ""
            if child.tag in CAPTIONED:
                yield heading, _caption(child)
            elif child.tag == "title" and element.tag in HEADED:
                if own := flatten(child):
                    heading = under(outer, own)
                    yield heading, None
            else:
                yield from (_item if child.tag in ITEMS else _paragraphs)(child, heading)
        running += child.tail or ""
    yield heading, " ".join(running.split())


def _item(element: etree._Element, heading: str) -> Iterator[Part]:
    """The paragraphs of an item of a list, those after the first two blanks further in, as in Markdown."""
    bullet = "- "
    for below, paragraph in _paragraphs(element, heading):
        yield below, bullet + paragraph if paragraph else paragraph
        # A section begins with its heading.
        bullet = bullet if paragraph == "" else "  "


def _caption(float_: etree._Element) -> str:
    """Return a caption with its label, as in `Figure 1. Its caption`."""
    label = float_.get("label", "")
    if label and label[-1] not in ".:":
        label += "."
    return f"{label} {first_text(float_, 'caption')}".strip()
