"""JATS and NLM article XML, as PubMed Central gives it: one document per article, with its full text.

Element names are those of the NLM Journal Archiving DTD 2.x (archivearticle.dtd) and of its successor JATS
(JATS-archivearticle1.dtd); namespaces are ignored, so that JATS wrapped by a service reads the same.
"""

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from io import BufferedIOBase
from typing import Any

from langchain_core.documents import Document
from lxml import etree

from briefcontext.knowledge.sources.pandoc import outline
from briefcontext.knowledge.sources.publication import (
    author_list,
    has_retracted_title,
    language,
    pubmed_url,
    year_in,
)
from briefcontext.knowledge.sources.source import Entry, Reject, UnreadableError, rejecting
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
    **{
        "review-article": "Review",
        "systematic-review": "Systematic Review",
        "case-report": "Case Reports",
    },
    **{
        "letter": "Letter",
        "editorial": "Editorial",
        "news": "News",
        "correction": "Published Erratum",
    },
    **dict.fromkeys(("partial-retraction", "retraction", "retraction-notice"), "Retraction Notice"),
    **{"expression-of-concern": "Expression of Concern"},
}
"""Publication types, as filters name them, of the `article-type`s that have one; others stay as they are."""

META = "front/article-meta"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ENGLISH = "en"
"""The DTDs' default, which is not loaded."""

NOTICES = frozenset({"partial-retraction", "retraction", "retraction-notice", "withdrawal"})
"""Types of articles that retract others."""
RETRACTED = "retracted-article"
RETRACTION_FORWARD, CORRECTION_FORWARD = "retraction-forward", "correction-forward"
CONCERN_FORWARD = frozenset({"concern-forward", "expressed-concern", "expression-of-concern"})
"""`related-article-type` by which an article points to the notice that retracts, corrects or doubts it."""

HEADED = frozenset({"abstract", "app", "body", "sec", "trans-abstract"})
QUOTED = HEADED | {"boxed-text", "disp-quote"}
"""Elements whose headings end with them, as those of a quotation do."""
BLOCKS = frozenset({
    "body", "caption", "fig", "fig-group", "fn", "p", "speech", "statement", "subtitle", "supplementary-material",
    "table-wrap", "table-wrap-foot", "table-wrap-group", "title", "verse-group", "verse-line",
})  # fmt: skip
CAPTIONED = frozenset({"boxed-text", "fig", "supplementary-material", "table-wrap"})
HTML_NAMES = {
    **{"bold": "b", "italic": "i", "break": "br", "code": "pre", "preformat": "pre"},
    **{"def": "dd", "def-list": "dl", "list-item": "li", "term": "dt"},
    **dict.fromkeys(BLOCKS, "div"),
    **dict.fromkeys(QUOTED, "blockquote"),
}
KEPT = frozenset({
    "blockquote", "h1", "math", "ol", "p", "script", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr",
    "ul",
})  # fmt: skip
"""Elements that are named as in HTML."""
LIST_STYLES = {
    **{"order": "1", "alpha-lower": "a", "alpha-upper": "A"},
    **{"roman-lower": "i", "roman-upper": "I"},
}
LEFT_OUT = frozenset({
    "alt-text", "annotation", "annotation-xml", "attrib", "col", "colgroup", "fn-group", "graphic",
    "inline-graphic", "label", "long-desc", "media", "object-id", "permissions", "ref-list",
    "sec-meta", "strike",
})  # fmt: skip
LONGEST_NOTE = 300
"""Characters of a footnote that is placed where it is referenced."""
FORMULA_ALTERNATIVES = frozenset({"tex-math", "textual-form"})
"""Other writings of a formula, which count only if it has no MathML."""

_INITIAL = re.compile(r"(?<![^\W_])[^\W\d_]|(?<=[A-Z])[A-Z]")


@rejecting
def read_jats(stream: BufferedIOBase) -> Iterator[Entry]:
    """Read the articles of a JATS stream, a single article or a set of them, and the rejects.

    The text is the title, the abstracts, the body and the floats, in this order, as `read_document`
    writes it. A footnote is at its reference. Front and back matter, sub-articles and struck text
    are left out.

    The id is the PMC id (`PMC…`), else the DOI, else the first other id, else `pmid:…`. `sections`
    is JSON: `[heading, start, end]` for each heading in order. `text[start:end]` begins with the
    heading and ends before the next one. Text without any heading has the heading "".
    """
    for number, article in enumerate(stream_elements(stream, ("{*}article",), within=WRAPPERS), 1):
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
    metadata = _metadata(article, ids)
    titled = article.find(f"{META}/title-group/article-title") is not None
    try:
        page = outline(etree.tostring(_page(article), method="html", encoding="utf-8"), "html")
    except UnreadableError as error:
        return Reject(position, str(error))
    if not page.text:
        return Reject(position, "It has neither a title nor any text.")
    title = page.title if titled else ""
    metadata |= {
        "source_id": source_id,
        "title": title,
        "kind": "article",
        "sections": json.dumps(page.sections, ensure_ascii=False, separators=(",", ":")),
    }
    # The title of a notice that retracts an article often is that article's.
    if has_retracted_title(title) and not metadata["retraction_notice"]:
        metadata["retracted"] = True
    return Document(id=source_id, page_content=page.text, metadata=metadata)


def _metadata(article: etree._Element, ids: Mapping[str, str]) -> dict[str, Any]:
    kind = article.get("article-type", "")
    first, last = first_text(article, f"{META}/fpage"), first_text(article, f"{META}/lpage")
    related = {
        link.get("related-article-type") for link in article.iterfind(f"{META}/related-article")
    }
    groups = article.iterfind(f"{META}/kwd-group")
    mesh = [group for group in groups if group.get("kwd-group-type", "").casefold() == "mesh"]
    journal = "front/journal-meta"
    pages = f"{first}-{last}" if last not in ("", first) else first
    optional = {
        "pmid": ids.get("pmid"),
        "doi": ids.get("doi"),
        "authors": author_list(_authors(article)),
        "volume": first_text(article, f"{META}/volume"),
        "issue": first_text(article, f"{META}/issue"),
        "pages": pages or first_text(article, f"{META}/elocation-id"),
        "journal_abbreviation": first_text(
            article, f"{journal}/journal-id[@journal-id-type='nlm-ta']"
        ),
        "mesh": "; ".join(keyword for group in mesh for keyword in texts(group, "kwd")),
        "year": _year(article),
        "corrected": CORRECTION_FORWARD in related,
        "expression_of_concern": not CONCERN_FORWARD.isdisjoint(related),
    }
    return {
        "publication_types": MEDLINE_TYPES.get(kind, kind),
        "languages": language(article.get(LANGUAGE, ENGLISH)),
        "retracted": kind == RETRACTED or (RETRACTION_FORWARD in related and kind not in NOTICES),
        "retraction_notice": kind in NOTICES,
        "url": next((page.format(ids[kind]) for kind, page in PAGES.items() if kind in ids), ""),
        "journal": first_text(article, f"{journal}//journal-title"),
        **{name: value for name, value in optional.items() if value},
    }


def _authors(article: etree._Element) -> Iterator[str]:
    for group in article.iterfind(f"{META}/contrib-group"):
        untyped = "author" if group.get("content-type", "author").startswith("author") else ""
        for author in group.iterfind("contrib"):
            if author.get("contrib-type", untyped) == "author":
                yield _author(author)


def _author(author: etree._Element) -> str:
    for name in author.xpath("(.//name | .//string-name)[not(ancestor::collab)]"):
        family, given = first_text(name, "surname"), first_text(name, "given-names")
        if family:
            initials = "".join(_INITIAL.findall(given))
            return " ".join(filter(None, (f"{family}, {initials}", first_text(name, "suffix"))))
        return flatten(name)
    group = author.find("collab")
    if group is None:
        return ""
    etree.strip_elements(group, "address", "aff", "contrib-group", "xref", with_tail=False)
    return flatten(group)


def _ids(article: etree._Element) -> dict[str, str]:
    """Ids by `pub-id-type`, the PMC id as `pmc` with its prefix: older files give only its digits."""
    ids: dict[str, str] = {}
    for element in article.iterfind(f"{META}/article-id"):
        if value := flatten(element):
            kind = element.get("pub-id-type", "")
            if kind in {"pmc", "pmcid"}:
                kind, value = "pmc", f"PMC{value}" if value.isdecimal() else value
            ids.setdefault(kind, value)
    return ids


def _year(article: etree._Element) -> int | None:
    years = {
        date.get("pub-type", date.get("date-type", "")): first_text(date, "year")
        for date in article.iterfind(f"{META}/pub-date")
    }
    preferred = [years[kind] for kind in PUB_DATES if kind in years]
    return year_in(" ".join([*preferred, *years.values()]))


def _page(article: etree._Element) -> etree._Element:
    """Return what is read of an article, as the body of a page; the article is changed."""
    page = etree.Element("body")
    english = _is_english(article)
    for title in _titles(article):
        etree.SubElement(page, "blockquote").append(title)
    for abstract in article.iterfind(f"{META}/abstract"):
        if abstract.get("abstract-type") not in ABSTRACTS_LEFT_OUT:
            page.append(_headed(abstract))
    for abstract in article.findall(f"{META}/trans-abstract") if not english else ():
        if _is_english(abstract):
            page.append(_headed(abstract))
    notes = {note.get("id", ""): note for note in article.iter("fn")}
    for name in ("body", "floats-wrap", "floats-group"):
        page.extend(article.findall(name))
    _place_notes(page, notes)
    _write_html(page)
    return page


def _is_english(element: etree._Element) -> bool:
    return language(element.get(LANGUAGE, ENGLISH)) == "eng"


def _titles(article: etree._Element) -> Iterator[etree._Element]:
    """Yield the title with its subtitle, after that in English if the article has another language."""
    groups = article.findall(f"{META}/title-group")
    translated = [
        group
        for group in article.iterfind(f"{META}/title-group/trans-title-group")
        if not _is_english(article) and _is_english(group)
    ]
    for group, prefix in (
        *((group, "trans-") for group in translated),
        *((group, "") for group in groups),
    ):
        title = group.find(f"{prefix or 'article-'}title")
        if title is None:
            continue
        # A cross-reference in a title is the marker of a footnote.
        etree.strip_elements(title, "xref", "fn", with_tail=False)
        for subtitle in group.findall(f"{prefix}subtitle"):
            ended = flatten(title)[-1:] in (*".:?!", "")
            etree.SubElement(title, "span").text = " " if ended else ": "
            title.append(subtitle)
            subtitle.tag = "span"
        title.tag = "h1"
        title.tail = None
        yield title


def _headed(abstract: etree._Element) -> etree._Element:
    if abstract.find("title") is None:
        title = etree.Element("title")
        title.text, title.tail, abstract.text = "Abstract", abstract.text, None
        abstract.insert(0, title)
    return abstract


def _place_notes(page: etree._Element, notes: Mapping[str, etree._Element]) -> None:
    """Have short footnotes follow what refers to them; others keep their labels."""
    placed = set()
    for reference in list(page.iter("xref")):
        note = notes.get(reference.get("rid", ""))
        if note is not None and len(flatten(note)) <= LONGEST_NOTE:
            placed.add(note)
            copy = deepcopy(note)
            reference[:] = [copy]
            reference.text = copy.tail = None
            reference.set("ref-type", "fn")
            _place_note(copy)
            raised = reference.getparent()
            if raised is not None and raised.tag == "sup":
                raised.tag = "span"
    for note in list(page.iter("fn")):
        if note in placed:
            note[:], note.text = [], None
        elif next(note.iterancestors("table-wrap-foot", "fn-group"), None) is None:
            _place_note(note)
        else:
            _prefix(note, first_text(note, "label"))


def _place_note(note: etree._Element) -> None:
    for paragraph in note.iter("p"):
        paragraph.tag = "span"
    etree.strip_elements(note, "label", with_tail=False)
    note.tag = "span"
    note.text = f" ({(note.text or '').lstrip()}"
    etree.SubElement(note, "span").text = ")"


def _prefix(element: etree._Element, label: str) -> None:
    """Begin the first paragraph in an element with its label."""
    paragraph = next(element.iter("p"), element)
    paragraph.text = f"{label} {paragraph.text or ''}" if label else paragraph.text


def _write_html(page: etree._Element) -> None:
    """Give elements the names that they have in HTML."""
    for captioned in page.iter(*CAPTIONED):
        _join_caption(captioned)
    for listing in list(page.iter("list")):
        _mark_items(listing)
    for formula in page.iter(*FORMULA_ALTERNATIVES):
        parent = formula.getparent()
        if parent is not None and parent.find("math") is not None:
            formula.tag = "alt-text"
        elif formula.tag == "tex-math":
            formula.text, formula.tag = flatten(formula), "script"
            del formula[:]
            formula.set("type", "math/tex")
    etree.strip_elements(page, *LEFT_OUT, with_tail=False)
    etree.strip_tags(page, "def-item")
    for element in list(page.iter(etree.Element)):
        if next(element.iterancestors("math"), None) is None:
            _rename(element)


def _rename(element: etree._Element) -> None:
    parent = element.getparent()
    if element.tag == "disp-formula":
        element.text, element.tail = f" {element.text or ''}", f" {element.tail or ''}"
    if element.tag == "title" and parent is not None and parent.tag == "blockquote":
        outer = sum(1 for _ in element.iterancestors("blockquote"))
        element.tag = f"h{min(outer, 6)}"
    elif element.tag == "xref" and element.get("ref-type") == "bibr":
        element.tag = "a"
        element.set("href", "#")
    elif element.tag not in KEPT:
        element.tag = HTML_NAMES.get(str(element.tag), "span")


def _join_caption(captioned: etree._Element) -> None:
    """Have a caption be one paragraph that begins with its label, as in `Figure 1. Its caption`."""
    caption, label = captioned.find("caption"), first_text(captioned, "label")
    if label and label[-1] not in ".:":
        label += "."
    if caption is None:
        caption = etree.Element("caption")
        captioned.insert(0, caption)
    for part in caption.iter("title", "p"):
        part.tag = "span"
        part.tail = f" {part.tail or ''}"
    caption.text = f"{label} {caption.text or ''}"


def _mark_items(listing: etree._Element) -> None:
    """Have a list show the marks of its items: numbers, letters, or labels of another kind."""
    style = LIST_STYLES.get(listing.get("list-type", ""))
    labels = [first_text(item, "label") for item in listing.iterfind("list-item")]
    numbers = [label.strip("()[]. ") for label in labels]
    if labels and all(number.isdecimal() for number in numbers):
        style = "1"
        listing.set("start", numbers[0])
    elif style is None:
        for item, label in zip(listing.iterfind("list-item"), labels, strict=True):
            _prefix(item, label if any(map(str.isalnum, label)) else "")
    for title in listing.findall("title"):
        title.tag = "p"
        listing.addprevious(title)
    listing.tag = "ul" if style is None else "ol"
    listing.set("type", style or "")
