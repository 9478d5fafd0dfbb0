"""Plain text and Markdown, as the file has it, and HTML, block by block: one document per file."""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from itertools import pairwise, zip_longest
from pathlib import PurePosixPath
from typing import Any

from langchain_core.documents import Document
from lxml import etree, html
from markdown_it import MarkdownIt
from markdown_it.token import Token

from briefcontext.knowledge.sources.html_tables import CELLS, named, rows_as_text
from briefcontext.knowledge.sources.publication import record, under
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.xml_stream import write_out_formulas

TITLED_WITHIN = 1 << 20
"""Characters of a Markdown file in which its first heading is looked for."""
MAX_BYTES = 1 << 28
"""A larger file does not fit into bounded memory, and is no document that a person wrote."""

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FRONT_MATTER_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE)

_LINE_END = re.compile(r"\r\n?|\n")

_BLOCKS = (
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dir", "div", "dl"),
    *("dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
    *("hgroup", "hr", "html", "legend", "li", "main", "menu", "ol", "p", "pre", "section", "summary", "table"),
    *("tbody", "tfoot", "thead", "tr", "ul"),
)
"""Elements that stand on lines of their own; all others are within a line."""
_ITEMS = ("dd", "li")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEFT_OUT = (
    *("annotation", "annotation-xml", "audio", "button", "canvas", "datalist", "head", "iframe", "nav", "noscript"),
    *("script", "select", "style", "svg", "template", "textarea", "video", "del", "s", "strike"),
)
_UNSEEN = ("display:none", "visibility:hidden", "line-through")
"""Styles of what is not shown, or struck out."""
_STRUCK = re.compile(
    r"(?<!~)~~(?!~)(?:[^~\n]|~(?!~)|\n(?![ \t\r]*\n))++~~(?!~)"
    r"|<(?:del|s|strike)>[^<]*+</(?:del|s|strike)>"
    r"|<!--(?:[^<-]|<(?!!--)|-(?!->))*+-->",
    re.IGNORECASE,
)
"""Text in Markdown that is struck out, or a comment."""
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_ITEM_MARK = re.compile(r"[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)*")
"""The mark of an item of a list, which the headers of a table may stand behind."""
_DASHES = frozenset("|:- \t\r")
"""What stands between the headers and the rows of a table in Markdown."""
_BESIDE_MATH = "not(.//math) and (preceding-sibling::*[1] | following-sibling::*[1])/descendant-or-self::math"
_CONTROLS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that HTML may have, by mistake, and XML may not."""
_CELL_MARK = "\ufdd1"
"""A character that Unicode gives to programs for use inside them, and to no text."""
_STATED = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|\b(?:charset|encoding)\s*=", re.IGNORECASE)
"""That a file says how its characters are encoded."""


@rejecting
def read_text(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """The file as one document of kind `text`, its name without the ending as title; or its reject.

    The file is UTF-8, or UTF-16 with a byte order mark. Text in another encoding is rejected rather than guessed at: a
    dose in µg must not become another.
    """
    yield file_document(document_id, decoded(read_whole(stream)), kind="text")


@rejecting
def read_markdown(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Like `read_text`, as kind `markdown`; the title is the front matter's, else the first heading.

    Markup stays in the text; what is struck out, and comments, do not. A row of a table is that of `read_html`. A
    heading is written with `#`, and with its outer ones (`under`).
    """
    text = _STRUCK.sub("", decoded(read_whole(stream)))
    title = markdown_title(text)
    yield file_document(document_id, _with_named_cells(_with_outer_headings(text)), title=title, kind="markdown")


def markdown_title(text: str) -> str:
    """The title in the front matter, else the first heading, "" when there is none."""
    if front_matter := _FRONT_MATTER.match(text):
        text = text[front_matter.end() :]
        stated = _FRONT_MATTER_TITLE.search(front_matter.group(1))
        if stated and (title := stated.group(1).strip(" \t\r").strip("\"'")):
            return title
    return next((heading for _, heading in _headings(text[:TITLED_WITHIN])), "")


def _headings(text: str) -> Iterator[tuple[Token, str]]:
    # Only blocks are parsed: a heading keeps its markup.
    for block, inline in pairwise(MarkdownIt().disable("inline").parse(text)):
        if block.type == "heading_open" and inline.content:
            yield block, inline.content.replace("\n", " ")


def _with_outer_headings(text: str) -> str:
    front_matter = _FRONT_MATTER.match(text)
    begin = front_matter.end() if front_matter else 0
    starts = [begin, *(end.end() for end in _LINE_END.finditer(text, begin)), len(text)]
    written, at, outline = "", 0, list[str]()
    for block, heading in _headings(text[begin:]):
        # One within a quotation or a list is no section's.
        if block.level == 0 and block.map:
            first, end = (starts[line] for line in block.map)
            level = int(block.tag[1])
            lines = text[first:end].rstrip("\r\n")
            written += f"{text[at:first]}{'#' * level} {_below(outline, level, heading)}"
            at = first + len(lines)
    return written + text[at:]


def _below(outline: list[str], level: int, heading: str) -> str:
    """Return a heading with its outer ones, those above it in the outline by level, which it is added to."""
    del outline[level - 1 :]
    outline += [outline[-1] if outline else ""] * (level - 1 - len(outline))
    outline.append(under(outline[-1] if outline else "", heading))
    return outline[-1]


@rejecting
def read_html(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """The file as one document of kind `text`; or its reject.

    Blocks (paragraphs, headings, items, rows) are apart by a blank line, and cells of a row by a tab. Below rows of
    headers each cell has its own, as in `Weight: under 40 kg | Dose: 5 mg` (`rows_as_text`). An item of
    a list begins with `- `, and stands two blanks further in than the one that it is part of. Menus, scripts, and what
    is hidden or struck out are left out. The title is the page's, else the file's name without the ending. The file is
    UTF-8, or states what else it is.

    `sections` is that of `read_jats`, where there are headings, which are written with their outer ones (`under`).
    """
    root = _parsed(read_whole(stream))
    title = " ".join((root.findtext(".//title") or "").split())
    etree.strip_elements(root, etree.Comment, etree.ProcessingInstruction, *_LEFT_OUT, with_tail=False)
    for element in list(root.iterdescendants()):
        style = "".join(element.get("style", "").split()).lower()
        # Pages have a formula a second time for the eye, its powers without a mark, and that is `aria-hidden`.
        second = element.get("aria-hidden") == "true" and element.xpath(_BESIDE_MATH)
        if second or "hidden" in element.attrib or any(unseen in style for unseen in _UNSEEN):
            element.drop_tree()
        elif "vertical-align:super" in style and element.tag not in (*_BLOCKS, *CELLS):
            element.tag = "sup"
        elif element.tag == "img" and len(sign := element.get("alt", "")) == 1:
            element.text = sign
    write_out_formulas(root)
    _name_cells(root)
    text, starts, outline = "", [], list[str]()
    for block, level in _blocks(root):
        text += "\n\n" if text else ""
        if level:
            own = block.lstrip("- ")
            text += block[: len(block) - len(own)]
            starts.append((_below(outline, level, own), len(text)))
            block = outline[-1]
        text += block
    ends = [start for _, start in starts[1:]] + [len(text)]
    sections = [(heading, start, end) for (heading, start), end in zip(starts, ends, strict=True)] if starts else []
    metadata = {"sections": json.dumps(sections, ensure_ascii=False)} if sections else {}
    yield file_document(document_id, text, title=title, kind="text", metadata=metadata)


def _name_cells(root: html.HtmlElement) -> None:
    for element in root.iter(*_BLOCKS, "br", "img", "input"):
        if element.tag == "img" and element.text:
            continue
        element.text = " " + _CONTROLS.sub(" ", element.text or "")
        element.tail = " " + _CONTROLS.sub(" ", element.tail or "")
    for table in root.iter("table"):
        if table.find(".//table") is None:
            rows_as_text(table, _CELL_MARK)


def _with_named_cells(text: str) -> str:
    """Have the cells of tables in Markdown begin with their headers."""
    lines, headers, marks, given = list[str](), list[str](), "", text.split("\n")
    for line, following in zip_longest(given, given[1:], fillvalue=""):
        dashes = _DASHES.issuperset(row := line.lstrip("> \t"))
        if "|" not in line:
            headers = []
        elif dashes and not headers and lines and "|" in lines[-1] and "|" in following:
            marks = line[: len(line) - len(row)]
            headers = _headers(lines[-1].removeprefix(marks), len(_cells(row)))
            if headers:
                lines.pop()
        if not (dashes and headers):
            lines.append(marks + named(headers, _cells(line.removeprefix(marks))) if headers else line)
    return "\n".join(lines)


def _headers(line: str, count: int) -> list[str]:
    """Return the cells of a line, which are headers where there are as many of them as of dashes below; else none."""
    possible = (_cells(line), _cells(_ITEM_MARK.sub("", line, count=1)))
    return next((cells for cells in possible if len(cells) == count), [])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _CELL_BORDER.split(line.strip().removeprefix("|").removesuffix("|"))]


def _blocks(root: html.HtmlElement) -> Iterator[tuple[str, int]]:
    """Yield what stands on lines of its own, and its level where it is a heading, else 0."""
    running, depth, bullet = "", 0, ""
    for event, element in etree.iterwalk(root, events=("start", "end")):
        begins = event == "start"
        if element.tag in _BLOCKS:
            if block := "\t".join(filter(None, (" ".join(cell.split()) for cell in running.split(_CELL_MARK)))):
                yield (
                    "  " * (depth - 1) + (bullet or "  " * bool(depth)) + block,
                    int(element.tag[1]) if element.tag in _HEADINGS and not begins else 0,
                )
                bullet = ""
            running = ""
        if element.tag in _ITEMS:
            depth, bullet = (depth + 1, "- ") if begins else (depth - 1, "")
        if begins:
            running += _CELL_MARK if element.tag in CELLS else ""
        running += _CONTROLS.sub(" ", (element.text if begins else element.tail) or "")


def read_whole(stream: BufferedIOBase) -> bytes:
    """All of a file's content. Raises UnreadableError when it is too large."""
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UnreadableError(f"The file has more than {MAX_BYTES:,} bytes: split it.")
    return content


def file_document(
    document_id: str, text: str, *, kind: str, title: str = "", metadata: Mapping[str, Any] | None = None
) -> Document:
    """A document that is a whole file; without a title of its own, the file's name without its ending is its title.

    Raises UnreadableError when there is no text.
    """
    if not text.strip():
        raise UnreadableError("It has no text.")
    return record(document_id, text, title=title or stem(document_id), kind=kind, metadata=metadata or {}, optional={})


def stem(document_id: str) -> str:
    """The file's name without its ending."""
    return PurePosixPath(document_id.removesuffix(".gz")).stem


def decoded(content: bytes) -> str:
    """Return text in UTF-8 or UTF-16. Raises UnreadableError for another encoding."""
    try:
        text = content.decode("utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig")
    except UnicodeDecodeError as error:
        shown = content[error.start : error.start + 1].hex()
        raise UnreadableError(
            f"It is not {error.encoding.upper()} (byte 0x{shown} at {error.start:,}): convert it to UTF-8, for example "
            "with `iconv -f WINDOWS-1252 -t UTF-8`."
        ) from None
    if "\0" in text:
        raise UnreadableError("It holds NUL characters: it is not text.")
    return text


def _parsed(content: bytes) -> html.HtmlElement:
    try:
        content.decode()
        # Of letters in UTF-8 what the file states may be wrong, or be stated of another; some charsets have ASCII only.
        encoding = None if content.isascii() else "utf-8"
    except UnicodeDecodeError:
        encoding = None
        if not _STATED.search(content[:4096]):
            raise UnreadableError("It is not UTF-8, and states no charset: convert it to UTF-8.") from None
    try:
        return html.document_fromstring(content, parser=html.HTMLParser(no_network=True, encoding=encoding))
    except (etree.ParserError, etree.XMLSyntaxError):
        raise UnreadableError("It has no text.") from None
