"""HTML: one document per file, its text block by block."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree, html

from briefcontext.knowledge.sources.plain_text import (
    WHOLE_FILE,
    UnreadableFileError,
    file_document,
    read_whole,
    stem,
)
from briefcontext.knowledge.sources.records import Entry, Reject

_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt"),
        *("fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr"),
        *("html", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
    )
)
"""Elements that stand on lines of their own; all others are within a line."""
_STATED = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|\b(?:charset|encoding)\s*=", re.IGNORECASE)
"""That a file says how its characters are encoded."""
_CELLS = frozenset(("td", "th"))
_LEFT_OUT = frozenset(("button", "head", "nav", "noscript", "script", "select", "style", "svg", "template", "textarea"))


def read_html(stream: BinaryIO, document_id: str) -> Iterator[Entry]:
    """The file as one document of kind `text`; or its reject.

    Blocks (paragraphs, headings, items, rows) are apart by a blank line, and cells of a row by a tab; menus and scripts
    are left out. The title is the page's, else the file's name without the ending. The file is UTF-8, or states what
    else it is.
    """
    try:
        root = _parsed(read_whole(stream))
    except UnreadableFileError as reason:
        yield Reject(WHOLE_FILE, str(reason))
        return
    rows = ("\t".join(filter(None, (" ".join(cell.split()) for cell in cells))) for cells in _blocks(root))
    text = "\n\n".join(filter(None, rows))
    if not text:
        yield Reject(WHOLE_FILE, "It has no text.")
        return
    title = " ".join((root.findtext(".//title") or "").split())
    yield file_document(document_id, text, title=title or stem(document_id), kind="text")


def _parsed(content: bytes) -> html.HtmlElement:
    encoding = None
    if not _STATED.search(content[:4096]):
        encoding = "utf-8"
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            raise UnreadableFileError("It is not UTF-8, and states no charset: convert it to UTF-8.") from None
    try:
        return html.document_fromstring(content, parser=html.HTMLParser(no_network=True, encoding=encoding))
    except (etree.ParserError, etree.XMLSyntaxError):
        raise UnreadableFileError("It has no text.") from None


def _blocks(root: html.HtmlElement) -> list[list[str]]:
    """Return the text of each block, by its cells."""
    blocks, left_out = [[""]], None
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        starts, tag = event == "start", element.tag
        if starts and left_out is None and tag in _LEFT_OUT:
            left_out = element
        if left_out is None:
            if tag in _BLOCKS:
                blocks.append([""])
            elif starts and tag in _CELLS:
                blocks[-1].append("")
            elif starts and tag == "br":
                blocks[-1][-1] += "\n"
            if starts:
                blocks[-1][-1] += element.text or ""
        if left_out is element and not starts:
            left_out = None
        if left_out is None and not starts:
            blocks[-1][-1] += element.tail or ""
    return blocks
