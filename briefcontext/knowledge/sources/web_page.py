"""HTML and Markdown: what a browser shows of a page is made plain for pandoc."""

import re
from collections.abc import Iterator
from io import BufferedIOBase

from lxml import etree, html

from briefcontext.knowledge.sources.pandoc import Outline, converted, outline, span
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import decoded, read_whole

MARKDOWN = "gfm-emoji+yaml_metadata_block"
LEFT_OUT = (
    *("annotation", "annotation-xml", "audio", "canvas", "datalist", "iframe", "nav", "noscript"),
    *("object", "style", "svg", "template", "video"),
)
HIDING = ("display:none", "visibility:hidden", "line-through")
REFERENCES = ("aria-controls", "data-bs-target", "data-target", "for", "href")
"""Attributes by which a control names the element that it opens."""
BESIDE = "not(.//math) and (preceding-sibling::*[1] | following-sibling::*[1])"
BESIDE_MATH = f"{BESIDE}/descendant-or-self::math"
"""A second writing of a formula, its powers without a mark."""
INPUTS = "//input | //select | //textarea | //*[@aria-checked]"
NO_STATE = ("button", "file", "hidden", "image", "password", "reset", "submit")
_STATED = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|\b(?:charset|encoding)\s*=", re.IGNORECASE)


@rejecting
def read_html(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as one document of kind `text`, as `read_document` does; or its reject.

    Hidden text is left out unless a control of the page opens it. Inputs show their state. The file
    is UTF-8, or states its encoding.
    """
    page = _parsed(read_whole(stream))
    title = page.findtext(".//title") or ""
    yield _outline(page).document(document_id, title=title)


@rejecting
def read_markdown(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as `read_html` reads the page that it makes, as kind `markdown`.

    The title is the front matter's, else the first heading.
    """
    text = decoded(read_whole(stream)).replace("\r\n", "\n").replace("\r", "\n")
    title = outline(text.encode(), MARKDOWN).title if text.startswith("---") else ""
    with converted(text.encode(), MARKDOWN, "html") as page:
        parsed = _parsed(page.read())
    yield _outline(parsed).document(document_id, kind="markdown", title=title)


def _outline(page: html.HtmlElement) -> Outline:
    comments = (etree.Comment, etree.ProcessingInstruction)
    etree.strip_elements(page, *comments, *LEFT_OUT, with_tail=False)
    for script in page.xpath("//script[not(starts-with(@type, 'math/tex'))]"):
        script.drop_tree()
    openers = _openers(page)
    for element in list(page.iterdescendants()):
        if _is_unseen(element) and not _is_opened(element, openers):
            element.drop_tree()
    for element in page.xpath(INPUTS):
        _show_state(element)
    for element in list(page.iterdescendants()):
        _mark_up(element, openers)
    return outline(html.tostring(page, encoding="unicode").encode(), "html")


def _style(element: html.HtmlElement) -> str:
    return "".join(element.get("style", "").split()).lower()


def _plain(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def _openers(page: html.HtmlElement) -> dict[str, str]:
    openers: dict[str, str] = {}
    for control in page.iterdescendants():
        for name in REFERENCES:
            for target in control.get(name, "").split():
                openers.setdefault(target.removeprefix("#"), _plain(control))
    return openers


def _is_unseen(element: html.HtmlElement) -> bool:
    if element.find(".//math") is not None:
        return False
    if element.get("aria-hidden") == "true" and element.xpath(BESIDE_MATH):
        return True
    return "hidden" in element.attrib or any(hiding in _style(element) for hiding in HIDING)


def _is_opened(element: html.HtmlElement, openers: dict[str, str]) -> bool:
    before = element.getprevious()
    after_button = before is not None and next(before.iter("button"), None) is not None
    return element.get("id") in openers or element.get("role") == "tabpanel" or after_button


def _show_state(element: html.HtmlElement) -> None:
    kind = element.get("type", "text").lower()
    checked = element.get("aria-checked")
    if element.tag == "select":
        options = list(element.iter("option"))
        chosen = [option for option in options if "selected" in option.attrib]
        value = ", ".join(map(_plain, chosen or options[:1]))
    elif element.tag == "textarea":
        value = _plain(element)
    elif kind in ("checkbox", "radio") or checked:
        value = "☒" if "checked" in element.attrib or checked == "true" else "☐"
    else:
        value = "" if kind in NO_STATE else element.get("value", "")
    if checked:
        element.text = f"{value} {element.text or ''}"
    else:
        element[:], element.tag, element.text = [], "span", f" {value} "


def _mark_up(element: html.HtmlElement, openers: dict[str, str]) -> None:
    """Change an element to one that pandoc reads as it looks."""
    style = _style(element)
    if element.tag in ("a", "b", "em", "font", "i", "small", "span", "strong"):
        if "vertical-align:super" in style:
            element.tag = "sup"
        elif "vertical-align:sub" in style:
            element.tag = "sub"
    elif element.tag == "math" and not len(element):
        element.tag = "span"
    elif element.tag == "img":
        sign = element.get("alt", "")
        element.tag, element.text = "span", sign if len(sign) == 1 else " "
    elif element.tag == "legend":
        element.tag = "div"
    elif element.tag == "li" and element.get("value", "").isdecimal():
        _number(element)
    elif element.tag == "table":
        _part_at_headers(element)
    elif element.tag == "details":
        element.tag = "blockquote"
        for summary in element.findall("summary"):
            summary.tag = "div" if summary.xpath(".//h2 | .//h3 | .//h4") else "h6"
    elif element.get("role") == "tabpanel":
        element.tag = "blockquote"
        label = element.get("aria-labelledby", "")
        named = element.xpath("//*[@id=$id]", id=label)
        heading = html.Element("h6")
        heading.text = openers.get(element.get("id")) or "".join(map(_plain, named))
        heading.tail = element.text
        element.text = None
        element.insert(0, heading)


def _number(item: html.HtmlElement) -> None:
    first = item.getparent()
    if item.getprevious() is not None:
        numbered = html.Element("ol", {"type": first.get("type", "1")})
        numbered.extend([item, *item.itersiblings()])
        first.addnext(numbered)
        first = numbered
    first.set("start", item.get("value"))


def _part_at_headers(table: html.HtmlElement) -> None:
    """Begin a part of a table at each row of headers."""
    rows = table.xpath("./tr | ./*[self::thead or self::tbody or self::tfoot]/tr")
    for row in rows:
        cells = list(row.iterchildren("td", "th"))
        if not cells:
            continue
        corner, *others = cells
        if row is not rows[0] and not others:
            corner.tag = "td"
        elif others and not _plain(corner) and all(cell.tag == "th" for cell in others):
            corner.tag = "th"
        for cell in cells:
            whole = cell.get("rowspan") == "0"
            cell.set("rowspan", str(len(rows) if whole else span(cell, "rowspan")))
            cell.set("colspan", str(span(cell, "colspan")))
        before, group = row.getprevious(), row.getparent()
        turn = before is not None and _is_header(row) != _is_header(before)
        if group is table or (turn and _is_header(row) == (group.tag == "tbody")):
            part = html.Element("tbody")
            _ = row.addprevious(part) if group is table else group.addnext(part)
            part.extend([row, *row.itersiblings("tr")])


def _is_header(row: html.HtmlElement) -> bool:
    return row.tag == "tr" and row.find("td") is None and row.find("th") is not None


def _parsed(content: bytes) -> html.HtmlElement:
    try:
        content.decode()
        # An ASCII page may state a charset that is written in ASCII.
        encoding = None if content.isascii() else "utf-8"
    except UnicodeDecodeError:
        encoding = None
        if not _STATED.search(content[:4096]):
            message = "It is not UTF-8, and states no charset: convert it to UTF-8."
            raise UnreadableError(message) from None
    try:
        parser = html.HTMLParser(no_network=True, encoding=encoding, huge_tree=True)
        return html.document_fromstring(content, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        raise UnreadableError("It has no text.") from None
