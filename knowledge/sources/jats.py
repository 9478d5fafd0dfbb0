"""JATS and NLM article XML, as PubMed Central gives it: one document per article, with its full text.

Element names are those of the NLM Journal Archiving DTD 2.x (archivearticle.dtd) and of its successor JATS
(JATS-archivearticle1.dtd); namespaces are ignored, so that JATS wrapped by a service reads the same.
"""

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from langchain_core.documents import Document
from lxml import etree

from briefcontext.knowledge.sources.publication import author_list, has_retracted_title, language, pubmed_url, year_in
from briefcontext.knowledge.sources.records import Entry, Reject
from briefcontext.knowledge.sources.xml_stream import (
    flatten,
    local_name,
    stream_elements,
    unresolved_entity,
)

ROOTS = ("article", "pmc-articleset", "OAI-PMH")
WRAPPERS = ("pmc-articleset", "{*}OAI-PMH")

PARAGRAPH_BREAK = "\n\n"
ABSTRACT_HEADING = "Abstract"
ABSTRACTS_LEFT_OUT = frozenset({"graphical", "video", "toc", "teaser"})
"""Values of `abstract-type` for pictures and for blurbs that repeat the abstract."""

PUB_DATES = ("ppub", "collection", "epub-ppub", "epub", "pub")
"""`pub-type` or `date-type` by preference: the journal issue's date first, as in PubMed's PubDate."""

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ENGLISH = "en"
"""The DTDs' default, which is not loaded."""
MESH = "mesh"
"""The `kwd-group-type` of medical subject headings, in whatever case."""

RETRACTION_NOTICE_TYPE = "retraction"
RETRACTION_FORWARD = "retraction-forward"
"""`related-article-type` by which a retracted article points to the notice that retracts it."""

HEADED = frozenset({"abstract", "app", "body", "sec"})
CAPTIONED = frozenset({"fig", "supplementary-material", "table-wrap"})
# fmt: off
BLOCKS = HEADED | CAPTIONED | {
    "boxed-text", "caption", "code", "def", "def-item", "def-list", "disp-quote", "fig-group", "list",
    "list-item", "p", "preformat", "speech", "statement", "subtitle", "table-wrap-group", "term", "title",
    "verse-group", "verse-line",
}
SPACED = BLOCKS | {"break", "disp-formula"}
"""Elements that print apart from what surrounds them."""

LEFT_OUT = frozenset({
    "alt-text", "annotation", "annotation-xml", "attrib", "fn", "fn-group", "graphic", "inline-graphic",
    "label", "long-desc", "media", "object-id", "permissions", "ref-list", "sec-meta", "table",
    "table-wrap-foot",
})
# fmt: on
FORMULA_ALTERNATIVES = frozenset({"tex-math", "textual-form"})
"""Other writings of a formula, which count only where it has no MathML."""

_INITIAL = re.compile(r"(?<![^\W_])[^\W\d_]|(?<=[A-Z])[A-Z]")
_DIGITS = re.compile(r"[0-9]+")
# TeX formulas come as whole LaTeX files, with a preamble that is the same in each.
_TEX_DOCUMENT = re.compile(r"\\begin\{document\}(.*?)\\end\{document\}", re.DOTALL)


def read_jats(stream: BinaryIO) -> Iterator[Entry]:
    """The articles of an uncompressed JATS stream, a single article or a set of them, and the rejects.

    The text is the title, the abstracts, the body and the captions of floats, in this order and parted by
    blank lines; a heading is a paragraph of its own. Left out are tables' cells, footnotes, front and back
    matter (references among it), and sub-articles. A citation's marker stays as it is printed.

    The id is the PMC id (`PMC…`), else the DOI, else the first other id, else `pmid:…`. `sections` is JSON:
    `[heading, start, end]` for each heading in order, where `text[start:end]` begins with the heading and
    ends before the next one; text without a heading of its own has the heading "".
    """
    number = 0
    for item in stream_elements(stream, ("{*}article",), within=WRAPPERS):
        if isinstance(item, Reject):
            yield item
        else:
            number += 1
            yield _article(item, number)


def _article(article: etree._Element, number: int) -> Entry:
    _strip_namespaces(article)
    ids = _ids(article)
    source_id = _source_id(ids)
    position = f"record {number} ({source_id})" if source_id else f"record {number}"
    if not source_id:
        return Reject(position, "The article has no article-id.")
    if entity := unresolved_entity(article):
        return Reject(position, f"It uses the entity {entity}, and entities are not resolved.")
    title = _title(article)
    text = _full_text(article, title)
    content = text.content
    if not content:
        return Reject(position, "It has neither a title nor any text.")
    metadata: dict[str, str | int | bool] = {
        "source_id": source_id,
        "title": title,
        "kind": "article",
        "publication_types": article.get("article-type", ""),
        "languages": language(article.get(LANGUAGE, ENGLISH)),
        "retracted": _is_retracted(article, title),
        "retraction_notice": article.get("article-type") == RETRACTION_NOTICE_TYPE,
        "url": _url(source_id, ids),
        "journal": flatten(article.find("front/journal-meta//journal-title")),
        "sections": json.dumps(text.sections, ensure_ascii=False, separators=(",", ":")),
    }
    metadata |= {name: value for name, value in _imprint(article, ids).items() if value}
    if pmid := ids.get("pmid"):
        metadata["pmid"] = pmid
    if abbreviation := flatten(article.find("front/journal-meta/journal-id[@journal-id-type='nlm-ta']")):
        metadata["journal_abbreviation"] = abbreviation
    if mesh := _mesh(article):
        metadata["mesh"] = "; ".join(mesh)
    if year := _year(article):
        metadata["year"] = year
    return Document(id=source_id, page_content=content, metadata=metadata)


def _imprint(article: etree._Element, ids: dict[str, str]) -> dict[str, str]:
    """Who wrote it and where it is printed, as a reference gives it."""
    volume, issue, first, last, number = (
        flatten(article.find(f"front/article-meta/{name}"))
        for name in ("volume", "issue", "fpage", "lpage", "elocation-id")
    )
    authors = article.iterfind("front/article-meta/contrib-group/contrib[@contrib-type='author']")
    return {
        "authors": author_list(map(_author, authors)),
        "volume": volume,
        "issue": issue,
        "pages": f"{first}-{last}" if last not in ("", first) else first or number,
        "doi": ids.get("doi", ""),
    }


def _author(author: etree._Element) -> str:
    family, given = (flatten(author.find(f".//name/{part}")) for part in ("surname", "given-names"))
    if family:
        return f"{family}, {''.join(_INITIAL.findall(given))}"
    group = author.find("collab")
    return "" if group is None else group.text or flatten(group.find("institution"))


def _strip_namespaces(article: etree._Element) -> None:
    for element in article.iter("{*}*"):
        element.tag = local_name(element)


def _ids(article: etree._Element) -> dict[str, str]:
    """Ids by `pub-id-type`, the PMC id as `pmc` with its prefix: older files give only its digits."""
    ids: dict[str, str] = {}
    for element in article.iterfind("front/article-meta/article-id"):
        if value := flatten(element):
            kind = element.get("pub-id-type", "")
            if kind in {"pmc", "pmcid"}:
                kind, value = "pmc", f"PMC{value}" if _DIGITS.fullmatch(value) else value
            ids.setdefault(kind, value)
    return ids


def _source_id(ids: dict[str, str]) -> str:
    others = (value for kind, value in ids.items() if kind != "pmid")
    # A bare PMID would be the id of the same article's citation in PubMed.
    by_pmid = f"pmid:{ids['pmid']}" if "pmid" in ids else ""
    return ids.get("pmc") or ids.get("doi") or next(others, by_pmid)


def _url(source_id: str, ids: dict[str, str]) -> str:
    if "pmc" in ids:
        return f"https://pmc.ncbi.nlm.nih.gov/articles/{source_id}/"
    if "doi" in ids:
        return f"https://doi.org/{source_id}"
    return pubmed_url(ids["pmid"]) if "pmid" in ids else ""


def _title(article: etree._Element) -> str:
    title = article.find("front/article-meta/title-group/article-title")
    # A cross-reference in a title is the marker of a footnote.
    return "" if title is None else _collapse(_inline(title, LEFT_OUT | {"xref"}))


def _year(article: etree._Element) -> int | None:
    years = {
        date.get("pub-type", date.get("date-type", "")): flatten(date.find("year"))
        for date in article.iterfind("front/article-meta/pub-date")
    }
    preferred = [years[kind] for kind in PUB_DATES if kind in years]
    return year_in(" ".join([*preferred, *years.values()]))


def _mesh(article: etree._Element) -> list[str]:
    return [
        flatten(keyword)
        for group in article.iterfind("front/article-meta/kwd-group")
        if group.get("kwd-group-type", "").casefold() == MESH
        for keyword in group.iterfind("kwd")
    ]


def _is_retracted(article: etree._Element, title: str) -> bool:
    if article.get("article-type") == RETRACTION_NOTICE_TYPE:  # whose title often is the retracted one
        return False
    related = article.iterfind("front/article-meta/related-article")
    forwards = any(link.get("related-article-type") == RETRACTION_FORWARD for link in related)
    return forwards or has_retracted_title(title)


class _Text:
    """A text in the making, which knows where its sections lie."""

    def __init__(self) -> None:
        self.sections: list[tuple[str, int, int]] = []
        self._paragraphs: list[str] = []
        self._end = 0
        self._next_heading: str | None = ""

    @property
    def content(self) -> str:
        return PARAGRAPH_BREAK.join(self._paragraphs)

    def head(self, heading: str) -> None:
        """Begin a section, with the heading as its first paragraph."""
        self.begin(heading)
        self.add(heading)

    def begin(self, heading: str = "") -> None:
        """Begin a section at the next paragraph; without one it never shows."""
        self._next_heading = heading

    def add(self, paragraph: str) -> None:
        if not paragraph:
            return
        start = self._end + len(PARAGRAPH_BREAK) if self._paragraphs else 0
        self._paragraphs.append(paragraph)
        self._end = start + len(paragraph)
        if self._next_heading is None:
            heading, start, _ = self.sections.pop()
        else:
            heading, self._next_heading = self._next_heading, None
        self.sections.append((heading, start, self._end))


def _full_text(article: etree._Element, title: str) -> _Text:
    text = _Text()
    text.head(title)
    for abstract in article.iterfind("front/article-meta/abstract"):
        if abstract.get("abstract-type") not in ABSTRACTS_LEFT_OUT:
            if abstract.find("title") is None:
                text.head(ABSTRACT_HEADING)
            _write(abstract, text)
    for part in ("body", "floats-wrap", "floats-group"):
        for element in article.iterfind(part):
            text.begin()
            _write(element, text)
    return text


def _write(element: etree._Element, text: _Text) -> None:
    """Add the element's paragraphs. A block inside running text, such as a list, breaks it in two."""
    running = [element.text or ""]
    for child in element:
        if child.tag not in BLOCKS:
            running.extend(_inline(child))
        else:
            text.add(_collapse(running))
            running = []
            if child.tag in CAPTIONED:
                text.add(_caption(child))
            elif child.tag == "title" and element.tag in HEADED:
                text.head(_collapse(_inline(child)))
            else:
                _write(child, text)
        running.append(child.tail or "")
    text.add(_collapse(running))


def _caption(float_: etree._Element) -> str:
    """Return a caption with its label, as in `Figure 1. Its caption`."""
    label = flatten(float_.find("label"))
    if label and label[-1] not in ".:":
        label += "."
    caption = float_.find("caption")
    return _collapse([label, *(_inline(caption) if caption is not None else ())])


def _inline(element: etree._Element, left_out: frozenset[str] = LEFT_OUT) -> Iterator[str]:
    """The pieces of an element's own text, without its tail."""
    if element.tag in left_out or _has_better_alternative(element):
        return
    space = " " if element.tag in SPACED else ""
    yield space
    if element.tag == "tex-math":
        yield _formula(element)
    else:
        yield element.text or ""
        for child in element:
            yield from _inline(child, left_out)
            yield child.tail or ""
    yield space


def _has_better_alternative(element: etree._Element) -> bool:
    parent = element.getparent()
    return element.tag in FORMULA_ALTERNATIVES and parent is not None and parent.find("math") is not None


def _formula(tex_math: etree._Element) -> str:
    source = flatten(tex_math)
    match = _TEX_DOCUMENT.search(source)
    return (match.group(1) if match else source).strip().strip("$")


def _collapse(pieces: Iterator[str] | list[str]) -> str:
    return " ".join("".join(pieces).split())
