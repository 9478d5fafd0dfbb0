"""HTML and Markdown: what a browser shows of a page is made plain for pandoc."""

import re
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from tempfile import TemporaryFile

from lxml import etree, html

from briefcontext.knowledge.sources.pandoc import WIDEST, Outline, convert, outline
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import decoded, read_whole

MARKDOWN = "gfm-emoji+yaml_metadata_block"
"""GitHub's Markdown with a front matter, as pandoc names it."""
LEFT_OUT = (
    *("annotation", "annotation-xml", "audio", "canvas", "datalist", "iframe", "nav", "noscript"),
    *("object", "style", "svg", "template", "video"),
)
HIDING = ("display:none", "visibility:hidden", "line-through")
"""Styles of text that is hidden or struck out."""
REFERENCES = ("aria-controls", "data-bs-target", "data-target", "popovertarget", "href")
OPENERS = (*REFERENCES[:-1], "aria-expanded", "onclick")
"""Attributes of a control that opens hidden text."""
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BESIDE = "(preceding-sibling::*[1] | following-sibling::*[1])"
BESIDE_MATH = f"not(.//math) and {BESIDE}/descendant-or-self::math"
"""A second writing of a formula for the eye, its powers without a mark."""
INPUTS = "//input | //select | //textarea | //*[@aria-checked]"
BOXES = ("checkbox", "radio")
NO_STATE = ("button", "file", "hidden", "image", "password", "reset", "submit")
"""Inputs without a value to read."""
_STATED = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|\b(?:charset|encoding)\s*=", re.IGNORECASE)
"""A statement of the encoding."""


@rejecting
def read_html(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as one document of kind `text`, as `read_document` does; or its reject.

    Hidden text is left out unless a control of the page opens it. Inputs show their state. The file
    is UTF-8, or states its encoding.
    """
    page = _parsed(read_whole(stream))
    title = page.findtext(".//title") or ""
    yield page_outline(page).document(document_id, kind="text", title=title)


@rejecting
def read_markdown(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as `read_html` reads the page that it makes, as kind `markdown`.

    The title is the front matter's, else the first heading.
    """
    text = decoded(read_whole(stream)).replace("\r\n", "\n").replace("\r", "\n")
    title = outline(text.encode(), MARKDOWN).stated_title if text.startswith("---") else ""
    with TemporaryFile() as page:
        convert(text.encode(), MARKDOWN, "html", page)
        page.seek(0)
        parsed = _parsed(page.read())
    yield page_outline(parsed).document(document_id, kind="markdown", title=title)


def page_outline(page: html.HtmlElement) -> Outline:
    """Return the outline of a page, which is changed."""
    for change in (_drop_hidden, _place_notes, _show_inputs, _mark_up):
        change(page)
    return outline(html.tostring(page, encoding="unicode").encode(), "html")


def _drop_hidden(page: html.HtmlElement) -> None:
    comments = (etree.Comment, etree.ProcessingInstruction)
    etree.strip_elements(page, *comments, *LEFT_OUT, with_tail=False)
    opened = _labels(page)
    for element in list(page.iterdescendants()):
        if element.tag == "script":
            unseen = not element.get("type", "").startswith("math/tex")
        elif element.tag == "button":
            unseen = not _is_opener(element)
        elif _is_hidden(element):
            unseen = element.find(".//math") is None and not _is_opened(element, opened)
        else:
            unseen = element.get("aria-hidden") == "true" and bool(element.xpath(BESIDE_MATH))
        if unseen:
            element.drop_tree()


def _is_hidden(element: html.HtmlElement) -> bool:
    return "hidden" in element.attrib or any(hiding in _style(element) for hiding in HIDING)


def _style(element: html.HtmlElement) -> str:
    return "".join(element.get("style", "").split()).lower()


def _labels(page: html.HtmlElement) -> dict[str, str]:
    """Return the text of the control that opens an element, by the element's id."""
    labels: dict[str, str] = {}
    for control in page.iter(etree.Element):
        for name in REFERENCES:
            for target in control.get(name, "").split():
                if name != "href" or target.startswith("#"):
                    labels.setdefault(target.removeprefix("#"), _plain(control))
    return labels


def _plain(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def _is_opener(element: html.HtmlElement) -> bool:
    if element.get("role") in ("button", "tab") or element.tag == "summary":
        return True
    if any(name in element.attrib for name in OPENERS):
        return True
    panel = element.getnext()
    headed = any(parent.tag in HEADINGS for parent in element.iterancestors())
    return element.tag == "button" and (headed or (panel is not None and _is_hidden(panel)))


def _is_opened(element: html.HtmlElement, opened: Mapping[str, str]) -> bool:
    if element.get("id") in opened or element.get("role") == "tabpanel":
        return True
    before = element.getprevious()
    controls = () if before is None else before.iter(etree.Element)
    return element.get("hidden") == "until-found" or any(map(_is_opener, controls))


def _place_notes(page: html.HtmlElement) -> None:
    """Have footnotes follow what refers to them."""
    for reference in page.xpath("//a[@role='doc-noteref']"):
        for note in page.xpath("//*[@id=$id]", id=reference.get("href", "#")[1:]):
            for link in note.xpath(".//a[@role='doc-backlink']"):
                link.drop_tree()
            placed = html.Element("span")
            placed.text, placed.tail = f" ({_plain(note)})", reference.tail
            reference.getparent().replace(reference, placed)
            note.set("role", "doc-placed")
            break
    for note in page.xpath("//*[@role='doc-placed']"):
        note.drop_tree()


def _show_inputs(page: html.HtmlElement) -> None:
    """Have inputs be text: `☒`, `☐`, or their value."""
    for element in page.xpath(INPUTS):
        kind = element.get("type", "text").lower()
        checked = element.get("aria-checked")
        if element.tag == "select":
            options = list(element.iter("option"))
            chosen = [option for option in options if "selected" in option.attrib]
            first = [] if "multiple" in element.attrib else options[:1]
            value = ", ".join(map(_plain, chosen or first))
        elif element.tag == "textarea":
            value = _plain(element)
        elif kind in BOXES or checked:
            value = "☒" if "checked" in element.attrib or checked == "true" else "☐"
        else:
            value = "" if kind in NO_STATE else element.get("value", "")
        if checked and element.tag != "input":
            element.text = f"{value} {element.text or ''}"
            continue
        state = html.Element("span")
        state.text, state.tail = f" {value} ", element.tail
        element.getparent().replace(element, state)


def _mark_up(page: html.HtmlElement) -> None:
    """Have elements be the ones that pandoc reads as they look."""
    labels = _labels(page)
    for element in list(page.iterdescendants()):
        style = _style(element)
        if "vertical-align:super" in style:
            element.tag = "sup" if element.tag not in ("td", "th") else element.tag
        elif "vertical-align:sub" in style:
            element.tag = "sub" if element.tag not in ("td", "th") else element.tag
        elif element.tag == "math" and not len(element):
            element.tag = "span"
        elif element.tag == "img":
            sign = element.get("alt", "")
            element.tag, element.text = "span", sign if len(sign) == 1 else " "
        elif element.tag in ("legend", "center"):
            element.tag = "div"
        elif element.tag == "li" and element.get("value", "").isdecimal():
            _number(element)
        elif element.tag == "table":
            _part_at_headers(element)
        elif element.tag == "details":
            element.tag = "blockquote"
            summary = element.find("summary")
            if summary is not None and not any(part.tag in HEADINGS for part in summary.iter()):
                summary.tag = "h6"
        elif element.get("role") == "tabpanel":
            named = page.xpath("//*[@id=$id]", id=element.get("aria-labelledby", ""))
            label = _plain(named[0]) if named else labels.get(element.get("id", ""), "")
            element.tag = "blockquote"
            heading = html.Element("h6")
            heading.text, heading.tail = label, element.text
            element.text = None
            element.insert(0, heading)


def _number(item: html.HtmlElement) -> None:
    """Have an item that states its number begin a list."""
    first = item.getparent()
    if item.getprevious() is not None:
        numbered = html.Element("ol", {"type": first.get("type", "1")})
        numbered.extend([item, *item.itersiblings()])
        first.addnext(numbered)
        first = numbered
    first.set("start", item.get("value"))


def _part_at_headers(table: html.HtmlElement) -> None:
    """Have each row of headers in a table begin a part of it, and cells span what they can."""
    rows = table.xpath("./tr | ./*[self::thead or self::tbody or self::tfoot]/tr")
    widths = [sum(_span(cell, "colspan") for cell in _cells(row)) for row in rows]
    for row in rows:
        cells = _cells(row)
        if row is not rows[0] and len(cells) == 1 and max(widths) > 1:
            cells[0].tag = "td"
            cells[0].set("colspan", str(max(widths)))
        elif len(cells) > 1 and not _plain(cells[0]) and row.find("th") is not None:
            cells[0].tag = "th" if row.find("td[2]") is None else cells[0].tag
        for cell in cells:
            below = len(list(row.itersiblings("tr"))) + 1
            height = below if cell.get("rowspan") == "0" else _span(cell, "rowspan")
            cell.set("rowspan", str(height))
            cell.set("colspan", str(_span(cell, "colspan")))
        if row.getparent() is table:
            part = html.Element("tbody")
            row.addprevious(part)
            part.extend([row, *row.itersiblings("tr")])
        before, group = row.getprevious(), row.getparent()
        begins = before is not None and _is_header(row) != _is_header(before)
        if begins and _is_header(row) == (group.tag == "tbody"):
            _split(row, group)


def _split(row: html.HtmlElement, group: html.HtmlElement) -> None:
    """Have a row and those after it be a part of the table."""
    part = html.Element("tbody")
    group.addnext(part)
    part.extend([row, *row.itersiblings("tr")])


def _cells(row: html.HtmlElement) -> list[html.HtmlElement]:
    return list(row.iterchildren("td", "th"))


def _span(cell: html.HtmlElement, name: str) -> int:
    value = cell.get(name, "").strip()
    return min(max(int(value), 1), WIDEST) if value.isdecimal() and len(value) < 9 else 1


def _is_header(row: html.HtmlElement) -> bool:
    return row.tag == "tr" and row.find("td") is None and row.find("th") is not None


def _parsed(content: bytes) -> html.HtmlElement:
    try:
        content.decode()
        # UTF-8 counts for more than a statement, unless the statement is of a charset in ASCII.
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
