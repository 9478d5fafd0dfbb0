"""JATS and NLM article XML, as PubMed Central writes it: one document per article.

Namespaces are ignored.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from io import BufferedIOBase
from itertools import takewhile
from typing import Any

from lxml import etree

from briefcontext.knowledge.sources.formulas import mathml_tex
from briefcontext.knowledge.sources.pandoc import Node, Outline, span
from briefcontext.knowledge.sources.publication import (
    author_list,
    language,
    pubmed_url,
    record,
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
"""Values of `abstract-type` for pictures and for copies of the abstract."""

PUB_DATES = ("ppub", "collection", "epub-ppub", "epub", "pub")
"""`pub-type` or `date-type` by preference: the issue's date first, as in PubMed."""

PAGES = {
    "pmc": "https://pmc.ncbi.nlm.nih.gov/articles/{}/",
    "doi": "https://doi.org/{}",
    "pmid": pubmed_url("{}"),
}

MEDLINE_TYPES = {
    "case-report": "Case Reports",
    "correction": "Published Erratum",
    "editorial": "Editorial",
    "expression-of-concern": "Expression of Concern",
    "letter": "Letter",
    "news": "News",
    "partial-retraction": "Retraction Notice",
    "retraction": "Retraction Notice",
    "review-article": "Review",
    "systematic-review": "Systematic Review",
}
"""PubMed's publication types by `article-type`."""

META, JOURNAL = "front/article-meta", "front/journal-meta"
ABBREVIATION = "journal-id[@journal-id-type='nlm-ta']"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ENGLISH = "en"
"""The DTDs' default."""

NOTICES = frozenset({"partial-retraction", "retraction"})
RETRACTION_FORWARD, CORRECTION_FORWARD = "retraction-forward", "correction-forward"
CONCERN_FORWARD = frozenset({"concern-forward", "expressed-concern", "expression-of-concern"})

TITLES = ("article-title", "subtitle", "trans-title", "trans-subtitle")
HEADED = frozenset({"abstract", "app", "body", "boxed-text", "disp-quote", "sec", "trans-abstract"})
"""Elements whose titles are headings, which end with them."""
CAPTIONED = frozenset({"boxed-text", "fig", "supplementary-material", "table-wrap"})
BLOCKS = HEADED | CAPTIONED | {
    "caption", "code", "def", "def-item", "def-list", "fig-group", "list", "list-item", "p",
    "preformat", "speech", "statement", "subtitle", "table", "table-wrap-foot", "table-wrap-group",
    "term", "title", "verse-group", "verse-line",
}  # fmt: skip
LEFT_OUT = frozenset({
    "alt-text", "annotation", "annotation-xml", "attrib", "fn-group", "graphic", "inline-graphic",
    "label", "long-desc", "media", "object-id", "permissions", "ref-list", "sec-meta", "strike",
})  # fmt: skip
NUMBERED = ("order", "alpha", "roman")
SCRIPTS = {"sup": "Superscript", "sub": "Subscript"}
BLANK: Node = {"t": "Space"}
LONGEST_NOTE = 300

_INITIAL = re.compile(r"(?<![^\W_])[^\W\d_]|(?<=[A-Z])[A-Z]")


@rejecting
def read_jats(stream: BufferedIOBase) -> Iterator[Entry]:
    """Read the articles and rejects of a JATS stream, of one article or a set.

    The text is the title, the abstracts, the body and the floats, as `read_document` writes it. A
    short footnote is at its reference. Front and back matter, sub-articles and struck text are left
    out. The id is the PMC id, else the DOI, else another id, else `pmid:…`.
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
    titled = article.find(f"{META}/title-group/article-title") is not None
    try:
        page = _outline(article)
    except UnreadableError as error:
        return Reject(position, str(error))
    except RecursionError:
        return Reject(position, "Its elements are nested too deeply.")
    if not page.text:
        return Reject(position, "It has neither a title nor any text.")
    sections = json.dumps(page.sections, ensure_ascii=False, separators=(",", ":"))
    title = page.title if titled else ""
    facts, optional = {"sections": sections, **_facts(article, ids)}, _reference(article, ids)
    text = page.text
    return record(source_id, text, title=title, kind="article", metadata=facts, optional=optional)


def _facts(article: etree._Element, ids: Mapping[str, str]) -> dict[str, Any]:
    kind = article.get("article-type", "")
    return {
        "publication_types": MEDLINE_TYPES.get(kind, kind),
        "languages": language(article.get(LANGUAGE, ENGLISH)),
        "retracted": RETRACTION_FORWARD in _links(article) and kind not in NOTICES,
        "retraction_notice": kind in NOTICES,
        "url": next((page.format(ids[kind]) for kind, page in PAGES.items() if kind in ids), ""),
        "journal": first_text(article, f"{JOURNAL}//journal-title"),
    }


def _links(article: etree._Element) -> set[str]:
    links = article.iterfind(f"{META}/related-article")
    return {link.get("related-article-type", "") for link in links}


def _reference(article: etree._Element, ids: Mapping[str, str]) -> dict[str, Any]:
    first, last = first_text(article, f"{META}/fpage"), first_text(article, f"{META}/lpage")
    groups = article.iterfind(f"{META}/kwd-group")
    mesh = [group for group in groups if group.get("kwd-group-type", "").casefold() == "mesh"]
    pages = f"{first}-{last}" if last not in ("", first) else first
    return {
        "pmid": ids.get("pmid"),
        "doi": ids.get("doi"),
        "authors": author_list(_authors(article)),
        "volume": first_text(article, f"{META}/volume"),
        "issue": first_text(article, f"{META}/issue"),
        "pages": pages or first_text(article, f"{META}/elocation-id"),
        "journal_abbreviation": first_text(article, f"{JOURNAL}/{ABBREVIATION}"),
        "mesh": "; ".join(keyword for group in mesh for keyword in texts(group, "kwd")),
        "year": _year(article),
        "corrected": CORRECTION_FORWARD in _links(article),
        "expression_of_concern": not CONCERN_FORWARD.isdisjoint(_links(article)),
    }


def _authors(article: etree._Element) -> Iterator[str]:
    for group in article.iterfind(f"{META}/contrib-group"):
        untyped = "author" if group.get("content-type", "author").startswith("author") else ""
        for author in group.iterfind("contrib"):
            if author.get("contrib-type", untyped) == "author":
                yield _author(author)


def _author(author: etree._Element) -> str:
    names: Any = author.xpath(".//*[self::name or self::string-name][not(ancestor::collab)]")
    group = author.find("collab")
    if group is not None and not names:
        etree.strip_elements(group, "address", "aff", "contrib-group", "xref", with_tail=False)
        return flatten(group)
    for name in names:
        family = first_text(name, "surname")
        initials = "".join(_INITIAL.findall(first_text(name, "given-names")))
        suffix = first_text(name, "suffix")
        return f"{family}, {initials} {suffix}".rstrip() if family else flatten(name)
    return ""


def _ids(article: etree._Element) -> dict[str, str]:
    """Return the ids by `pub-id-type`; `pmc` has its prefix, which older files lack."""
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


def _outline(article: etree._Element) -> Outline:
    etree.strip_tags(article, "alternatives")
    parts = [*_titles(article), *_abstracts(article)]
    for name in ("body", "floats-wrap", "floats-group"):
        parts += article.findall(name)
    _place_notes(article, parts)
    return Outline({}, [block for part in parts for block in _block(part, 0)])


def _abstracts(article: etree._Element) -> Iterator[etree._Element]:
    for abstract in [*article.findall(f"{META}/abstract"), *_english(article, "trans-abstract")]:
        if abstract.get("abstract-type") not in ABSTRACTS_LEFT_OUT:
            if abstract.find("title") is None:
                title = etree.Element("title")
                title.text, title.tail, abstract.text = "Abstract", abstract.text, None
                abstract.insert(0, title)
            yield abstract


def _english(article: etree._Element, path: str) -> list[etree._Element]:
    english = language(article.get(LANGUAGE, ENGLISH)) == "eng"
    translations = [] if english else article.findall(f"{META}/{path}")
    return [each for each in translations if language(each.get(LANGUAGE, ENGLISH)) == "eng"]


def _titles(article: etree._Element) -> Iterator[etree._Element]:
    groups = _english(article, "title-group/trans-title-group")
    for group in [*groups, *article.findall(f"{META}/title-group")]:
        section = etree.Element("sec")
        title = etree.SubElement(section, "title")
        for part in [part for part in group if part.tag in TITLES]:
            # A cross-reference in a title is the marker of a footnote.
            etree.strip_elements(part, "xref", "fn", with_tail=False)
            if "subtitle" in part.tag:
                ended = flatten(title)[-1:] in (*".:?!", "")
                etree.SubElement(title, "named-content").text = " " if ended else ": "
            title.append(part)
            part.tag, part.tail = "named-content", None
        yield section


def _place_notes(article: etree._Element, parts: Sequence[etree._Element]) -> None:
    """Move short footnotes to the references to them."""
    notes = {note.get("id", ""): note for note in article.iter("fn")}
    originals = set()
    for reference in [reference for part in parts for reference in part.iter("xref")]:
        note = notes.get(reference.get("rid", ""))
        if note is not None and len(flatten(note)) <= LONGEST_NOTE:
            copy = deepcopy(note)
            copy.tail = None
            reference[:], reference.text = [copy], None
            originals.add(note)
            raised = reference.getparent()
            if raised is not None and raised.tag == "sup":
                raised.tag = "named-content"
    for note in originals:
        note[:], note.text = [], None


def _blocks(element: etree._Element, level: int) -> Iterator[Node]:
    """Yield an element's blocks as pandoc has them. A block in running text breaks it in two."""
    running = _string(element.text)
    for child in element:
        if child.tag in BLOCKS or (child.tag == "fn" and element.tag == "table-wrap-foot"):
            yield {"t": "Para", "c": running}
            running = []
            yield from _block(child, level)
        elif child.tag not in LEFT_OUT:
            running += _inline(child)
        running += _string(child.tail)
    yield {"t": "Para", "c": running}


def _block(element: etree._Element, level: int) -> Iterator[Node]:
    parent = element.getparent()
    within = None if parent is None else parent.tag
    if element.tag == "title" and within in HEADED:
        yield {"t": "Header", "c": [level, [], list(_inlines(element))]}
    elif element.tag in HEADED:
        yield {"t": "BlockQuote", "c": [_caption(element), *_blocks(element, level + 1)]}
    elif element.tag in CAPTIONED:
        yield _caption(element)
        yield from _blocks(element, level)
    elif element.tag == "list":
        yield from _list(element, level)
    elif element.tag in ("def", "list-item"):
        yield {"t": "BulletList", "c": [list(_blocks(element, level))]}
    elif element.tag == "table":
        yield _table(element, level)
    elif element.tag == "fn":
        _show_label(element)
        yield from _blocks(element, level)
    elif element.tag != "caption" or within not in CAPTIONED:
        yield from _blocks(element, level)


def _show_label(element: etree._Element) -> None:
    label, paragraph = first_text(element, "label"), element.find("p")
    if label and paragraph is not None:
        paragraph.text = f"{label} {paragraph.text or ''}"


def _caption(element: etree._Element) -> Node:
    """Return a caption as one paragraph with its label, as in `Figure 1. Its caption`."""
    label = first_text(element, "label") if element.tag in CAPTIONED else ""
    parts = _string(f"{label} " if label[-1:] in (*".:", "") else f"{label}. ")
    for part in element.iterfind("caption/*"):
        parts += (*_inlines(part), BLANK)
    return {"t": "Para", "c": parts}


def _list(element: etree._Element, level: int) -> Iterator[Node]:
    """Yield a list with the marks of its items: numbers, letters, or other labels."""
    for title in element.iterfind("title"):
        yield {"t": "Para", "c": list(_inlines(title))}
    items = element.findall("list-item")
    labels = [first_text(item, "label").strip("()[]. ") for item in items]
    kind, _, case = element.get("list-type", "").partition("-")
    first = 1
    if labels and all(map(str.isdecimal, labels)):
        kind, first = "order", int(labels[0])
    elif any(map(str.isalnum, "".join(labels))):
        kind = ""
        for item in items:
            _show_label(item)
    blocks = [list(_blocks(item, level)) for item in items]
    if kind in NUMBERED:
        style = {"t": f"{case.title()}{kind.title()}"}
        yield {"t": "OrderedList", "c": [[first, style, {"t": "Period"}], blocks]}
    else:
        yield {"t": "BulletList", "c": blocks}


def _table(table: etree._Element, level: int) -> Node:
    def cell(element: etree._Element) -> list[Any]:
        spans = span(element, "rowspan"), span(element, "colspan")
        return [element.tag, "", *spans, list(_blocks(element, level))]

    rows: Any = table.xpath("./tr | ./*[self::thead or self::tbody or self::tfoot]/tr")
    grid: list[Any] = [["", list(map(cell, row.iterchildren("td", "th")))] for row in rows]
    count = len(table.findall("thead/tr")) or len(list(takewhile(_is_header, grid)))
    width = max((sum(each[3] for each in row) for _, row in grid), default=0)
    head, body, columns = grid[:count], grid[count:], [None] * width
    parts = [["", head], [["", 0, [], body]], ["", []]]
    return {"t": "Table", "c": ["", ["", []], columns, *parts]}


def _is_header(row: Sequence[Any]) -> bool:
    """Return whether a row names columns; a single cell is the heading of a part of a table."""
    return len(row[1]) > 1 and all(cell[0] == "th" for cell in row[1])


def _inlines(element: etree._Element) -> Iterator[Node]:
    yield from _string(element.text)
    for child in element:
        if child.tag not in LEFT_OUT:
            yield from _inline(child)
        yield from _string(child.tail)


def _inline(element: etree._Element) -> Iterator[Node]:
    content = list(_inlines(element))
    if element.tag in SCRIPTS:
        after = [content.pop()] if content and content[-1] is BLANK else []
        yield from ({"t": SCRIPTS[str(element.tag)], "c": content}, *after)
    elif element.tag == "xref" and element.get("ref-type") == "bibr":
        yield {"t": "Link", "c": ["", content, ""]}
    elif element.tag == "fn":
        yield {"t": "Note", "c": list(_blocks(element, 0))}
    elif element.tag == "math":
        yield {"t": "Math", "c": ["", mathml_tex(element)]}
    elif element.tag in ("tex-math", "textual-form"):
        parent = element.getparent()
        # MathML is the better one of two writings.
        if parent is None or parent.find("math") is None:
            tex = element.tag == "tex-math"
            yield from [{"t": "Math", "c": ["", flatten(element)]}] if tex else content
    elif element.tag in ("break", "disp-formula"):
        yield from (BLANK, *content, BLANK)
    else:
        yield from content


def _string(text: str | None) -> list[Node]:
    """Return a text as pandoc has it, with one blank at each side that has some."""
    if not text:
        return []
    words = " ".join(text.split())
    first, last = (BLANK if side.isspace() else None for side in (text[0], text[-1]))
    nodes = [first, {"t": "Str", "c": words} if words else None, last if words else None]
    return [node for node in nodes if node is not None]
