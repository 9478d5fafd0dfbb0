"""HTML: one document per file, its text block by block."""

import re
from collections.abc import Iterator
from io import BufferedIOBase

from lxml import etree, html

from briefcontext.knowledge.sources.file_source import UnreadableError, rejecting
from briefcontext.knowledge.sources.plain_text import file_document, read_whole
from briefcontext.knowledge.sources.source import Entry

_BLOCKS = (
    *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr"),
    *("html", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
)
"""Elements that stand on lines of their own; all others are within a line."""
_CELLS = ("td", "th")
_LEFT_OUT = ("button", "head", "nav", "noscript", "script", "select", "style", "svg", "template", "textarea")
_BLOCK_MARK, _CELL_MARK = "\ufdd0", "\ufdd1"
"""Characters that Unicode gives to programs for use inside them, and to no text."""
_STATED = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|\b(?:charset|encoding)\s*=", re.IGNORECASE)
"""That a file says how its characters are encoded."""


@rejecting
def read_html(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """The file as one document of kind `text`; or its reject.

    Blocks (paragraphs, headings, items, rows) are apart by a blank line, and cells of a row by a tab; menus and scripts
    are left out. The title is the page's, else the file's name without the ending. The file is UTF-8, or states what
    else it is.
    """
    root = _parsed(read_whole(stream))
    title = " ".join((root.findtext(".//title") or "").split())
    etree.strip_elements(root, etree.Comment, etree.ProcessingInstruction, *_LEFT_OUT, with_tail=False)
    for element in root.iter(*_BLOCKS, *_CELLS, "br"):
        mark = "\n" if element.tag == "br" else _CELL_MARK if element.tag in _CELLS else _BLOCK_MARK
        element.text = mark + (element.text or "")
        if mark == _BLOCK_MARK:
            element.tail = mark + (element.tail or "")
    blocks = str(root.text_content()).split(_BLOCK_MARK)
    rows = ("\t".join(filter(None, (" ".join(cell.split()) for cell in block.split(_CELL_MARK)))) for block in blocks)
    yield file_document(document_id, "\n\n".join(filter(None, rows)), title=title, kind="text")


def _parsed(content: bytes) -> html.HtmlElement:
    encoding = None
    if not _STATED.search(content[:4096]):
        encoding = "utf-8"
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            raise UnreadableError("It is not UTF-8, and states no charset: convert it to UTF-8.") from None
    try:
        return html.document_fromstring(content, parser=html.HTMLParser(no_network=True, encoding=encoding))
    except (etree.ParserError, etree.XMLSyntaxError):
        raise UnreadableError("It has no text.") from None
