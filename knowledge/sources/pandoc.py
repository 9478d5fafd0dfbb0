"""Documents that pandoc reads, as plain text with sections, lists and tables.

pandoc runs in a sandbox, in a process with a limit of time and memory. `Outline` flattens its tree.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedIOBase, BytesIO
from itertools import pairwise, takewhile
from pathlib import PurePath
from subprocess import PIPE, TimeoutExpired, run
from tempfile import TemporaryFile
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import ijson  # type: ignore[import-untyped]
from langchain_core.documents import Document
from lxml.etree import XMLParser, XMLSyntaxError, fromstring

from briefcontext.errors import needing
from briefcontext.knowledge.sources.formulas import (
    formula_text,
    with_subscript,
    with_superscript,
)
from briefcontext.knowledge.sources.publication import under
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import decoded, file_document, read_whole

SECONDS = 30
"""Time limit of pandoc for one file."""
MEMORY = "600M"
"""Limit of pandoc's heap."""
MOST_UNPACKED = 32 * 1024 * 1024
"""Limit of the bytes of text in an archive, such as a Word file."""
TEXT_ENDINGS = (".htm", ".html", ".ncx", ".opf", ".rels", ".xhtml", ".xml")
MOST_SPANS = 100_000
"""Limit of cells that a table repeats because they span several rows or columns."""
WIDEST = 1000
"""Limit of the columns and rows that a cell spans."""
LONGEST_HEADER = 200
"""Characters of a header, and of a repeated cell, after which it is cut."""
ARCHIVES = ("epub", "odt")
PROPERTIES = ("docProps/core.xml", "meta.xml")
"""Parts of archives that state a title."""
TITLE = ".//{http://purl.org/dc/elements/1.1/}title"
FILE_ENDINGS = (".doc", ".docx", ".htm", ".html", ".odt", ".pdf", ".ppt", ".pptx", ".rtf", ".tex")
"""Endings by which a stated title is recognised as a file's name."""

Node = dict[str, Any]
Row = list[tuple[str, Any]]
"""The text and the cell in each column."""
Group = tuple[list[Any], list[Any]]
"""Rows of headers, and the rows below them."""
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), " ")
_EMPTY: list[Any] = ["", "", 1, 1, []]


@rejecting
def read_document(stream: BufferedIOBase, document_id: str, *, format: str) -> Iterator[Entry]:
    """Read a file in one of pandoc's formats as one document, or its reject.

    Paragraphs, headings, list items and table rows are separated by a blank line. A heading has its
    outer headings before it (`under`). A row is `Header: value | Header: value`. `sections` is
    JSON: `[heading, start, end]` for each heading in order, as `read_jats` writes it.
    """
    content = read_whole(stream)
    title = ""
    if format in ARCHIVES:
        with archive_errors(f"{format.upper()} file"), ZipFile(BytesIO(content)) as archive:
            _, title = text_parts(archive)
    elif format == "latex":
        content = decoded(content).encode()
    elif format == "rtf" and not content.startswith(b"{\\rtf"):
        raise UnreadableError("It is not RTF.")
    yield outline(content, format).document(document_id, kind="text", title=title)


@contextmanager
def archive_errors(kind: str) -> Iterator[None]:
    """Raise UnreadableError if an archive or its XML is damaged."""
    try:
        yield
    except (BadZipFile, NotImplementedError, OSError, XMLSyntaxError, zlib.error) as error:
        message = f"It is no {kind}, or a damaged one ({type(error).__name__})."
        raise UnreadableError(message) from error


def text_parts(archive: ZipFile) -> tuple[list[ZipInfo], str]:
    """Return the parts of an archive with text, and the title that it states.

    Raises UnreadableError if they are too large.
    """
    parts = [part for part in archive.infolist() if part.filename.endswith(TEXT_ENDINGS)]
    if (unpacked := sum(part.file_size for part in parts)) > MOST_UNPACKED:
        raise UnreadableError(f"It would be {unpacked:,} bytes unpacked, more than are read.")
    if any(part.flag_bits & 1 for part in parts):
        raise UnreadableError("It needs a password: save it without one.")
    title = ""
    for part in parts:
        if part.filename in PROPERTIES:
            properties = fromstring(archive.read(part), XMLParser(resolve_entities=False))
            title = str(properties.findtext(TITLE) or "")
    return parts, title


def outline(content: bytes, format: str) -> "Outline":
    """Return the outline of a file. Raises UnreadableError if pandoc cannot read it."""
    with TemporaryFile() as tree:
        convert(content, format, "json", tree)
        tree.seek(0)
        meta = next(ijson.items(tree, "meta"))
        if format in ("epub", "html"):
            # Their metadata are not part of the text.
            meta = {"title": meta["title"]} if format == "epub" and "title" in meta else {}
        tree.seek(0)
        try:
            return Outline(meta, ijson.items(tree, "blocks.item"))
        except RecursionError:
            raise UnreadableError("Its elements are nested too deeply.") from None


def convert(content: bytes, format: str, target: str, output: Any) -> None:
    """Have pandoc write a file in another format to an open file.

    Raises:
        UnreadableError: pandoc cannot read the file, or not within its limits.
        MissingExtraError: pandoc is not installed.
    """
    with needing("documents", "Reading this format needs pandoc"):
        import pypandoc

        try:
            program = pypandoc.get_pandoc_path()
        except OSError as error:
            raise ImportError from error
    limits = ("+RTS", f"-M{MEMORY}", "-RTS", "--sandbox")
    command = [program, *limits, f"--from={format}", f"--to={target}", "--mathml"]
    try:
        done = run(command, input=content, stdout=output, stderr=PIPE, timeout=SECONDS, check=False)
    except TimeoutExpired:
        raise UnreadableError(f"Reading it takes more than {SECONDS} seconds: split it.") from None
    if done.returncode:
        message = " ".join(done.stderr.decode(errors="replace").split())
        if "Heap exhausted" in message:
            raise UnreadableError(f"Reading it takes more than {MEMORY}B of memory: split it.")
        raise UnreadableError(f"It is damaged, or not {format}: {message[:200]}")


class Outline:
    """The text of a document, block by block, and its sections."""

    def __init__(self, meta: Mapping[str, Node], blocks: Iterator[Node] | Sequence[Node]) -> None:
        self.stated_title = ""
        self._parts: list[str] = []
        self._length = 0
        self._starts: list[tuple[str, int]] = []
        self._headings: list[str] = []
        self._left_quotation = False
        self._indent = 0
        self._mark = ""
        self._first_heading = ""
        for name in ("title", "subtitle", "author", "date", "abstract"):
            for value in _values(meta.get(name)):
                self._walk(value)
            if name == "title":
                self.stated_title = " ".join("".join(self._parts).split())
        self._walk(blocks)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self._parts)

    @property
    def title(self) -> str:
        """The title that the document states, else its first heading."""
        return self.stated_title or self._first_heading

    @property
    def sections(self) -> list[tuple[str, int, int]]:
        """The heading, start and end of each section; empty if there are no headings."""
        ends = [start for _, start in self._starts[1:]] + [self._length]
        parts = zip(self._starts, ends, strict=False)
        return [(heading, start, end) for (heading, start), end in parts]

    def document(self, document_id: str, *, kind: str, title: str = "") -> Document:
        """Return the document of a file; `title` is the stated one, which may be a file's name."""
        stated = "" if _is_file_name(title) else " ".join(title.split())
        sections = json.dumps(self.sections, ensure_ascii=False)
        return file_document(
            document_id,
            self.text,
            title=stated or self.title,
            kind=kind,
            metadata={"sections": sections} if self._starts else {},
        )

    def _walk(self, blocks: Iterator[Node] | Sequence[Node]) -> None:
        for block in blocks:
            kind: str = block["t"]
            content: Any = block.get("c")
            if kind in ("Para", "Plain"):
                self._add(_text(content))
            elif kind == "Header":
                self._head(content[0], _text(content[2]).strip())
            elif kind == "Div":
                self._walk(content[1])
            elif kind == "BlockQuote":
                self._quote(content)
            elif kind == "BulletList":
                for item in content:
                    self._item(item, "- ")
            elif kind == "OrderedList":
                (first, style, delimiter), items = content
                for number, item in enumerate(items, start=first):
                    self._item(item, _number(number, style["t"], delimiter["t"]))
            elif kind == "DefinitionList":
                for term, definitions in content:
                    self._add(_text(term))
                    for definition in definitions:
                        self._item(definition, "- ")
            elif kind == "LineBlock":
                self._add("\n".join(map(_text, content)))
            elif kind == "CodeBlock":
                self._add(content[1])
            elif kind == "Figure":
                self._walk(content[2])
                self._walk(content[1][1])
            elif kind == "Table":
                self._table(content)

    def _add(self, text: str) -> None:
        plain = text.translate(_CONTROLS)
        text = (text if plain == text else " ".join(plain.split())).strip(" \n\r\t")
        if not text:
            return
        if self._left_quotation:
            self._left_quotation = False
            self._begin("".join(self._headings[-1:]))
        self._write(text)

    def _head(self, level: int, own: str) -> None:
        self._left_quotation = False
        if own:
            outer = self._headings[: level - 1]
            outer += [outer[-1] if outer else ""] * (level - 1 - len(outer))
            heading = under(outer[-1] if outer else "", own)
            self._headings = [*outer, heading]
            self._first_heading = self._first_heading or own
            self._begin(heading)

    def _begin(self, heading: str) -> None:
        """Begin a section; its heading is a block."""
        mark = len(self._prefix())
        self._starts.append((heading, self._length + (2 if self._parts else 0) + mark))
        if heading:
            self._write(heading)

    def _write(self, text: str) -> None:
        block = f"{self._prefix()}{text}"
        self._mark = ""
        self._parts += ["\n\n", block] if self._parts else [block]
        self._length += len(block) + (2 if len(self._parts) > 1 else 0)

    def _prefix(self) -> str:
        return "  " * (self._indent - 1) + self._mark if self._mark else "  " * self._indent

    def _item(self, blocks: Sequence[Node], mark: str) -> None:
        self._indent += 1
        self._mark += mark
        self._walk(blocks)
        self._indent -= 1
        self._mark = ""

    def _quote(self, blocks: Sequence[Node]) -> None:
        """Add a quotation; a heading in it ends with it."""
        outer, count = self._headings, len(self._starts)
        self._walk(blocks)
        self._headings = outer
        self._left_quotation = self._left_quotation or len(self._starts) > count

    def _table(self, content: list[Any]) -> None:
        _, (_, caption), columns, head, bodies, foot = content
        self._walk(caption)
        marked = bool(head[1] or any(body[1] or body[2] for body in bodies))
        groups = [(head[1], []), *((body[2], body[3]) for body in bodies), ([], foot[1])]
        cells = [cell for group in groups for rows in group for row in rows for cell in row[1]]
        parts = ("Table",) if marked else ("Header", "Table")
        layout = any(block["t"] in parts for cell in cells for block in cell[4])
        if layout or (len(columns) == 1 and not marked):
            for cell in cells:
                self._walk(cell[4])
            return
        for line in _table_lines(groups, len(columns), marked=marked):
            self._add(line)


def _values(value: Node | None) -> Iterator[list[Node]]:
    """Yield the blocks of a value of metadata."""
    if value is None:
        return
    kind: str = value["t"]
    content: Any = value.get("c")
    if kind == "MetaList":
        for item in content:
            yield from _values(item)
    elif kind == "MetaInlines":
        yield [{"t": "Plain", "c": content}]
    elif kind == "MetaBlocks":
        yield content
    elif kind == "MetaString":
        yield [{"t": "Plain", "c": [{"t": "Str", "c": content}]}]


def _is_file_name(title: str) -> bool:
    title = title.strip().lower()
    return title.startswith("microsoft word - ") or PurePath(title).suffix in FILE_ENDINGS


def _number(number: int, style: str, delimiter: str) -> str:
    """Return the mark of an item of an ordered list."""
    if style.endswith("Alpha") and 0 < number <= 26:
        mark = chr(ord("a") + number - 1)
    elif style.endswith("Roman"):
        mark = _roman(number)
    else:
        return f"{number}{')' if 'Paren' in delimiter else '.'} "
    return f"{mark.upper() if style.startswith('Upper') else mark}) "


def _roman(number: int) -> str:
    values = {100: "c", 90: "xc", 50: "l", 40: "xl", 10: "x", 9: "ix", 5: "v", 4: "iv", 1: "i"}
    text = ""
    for value, letters in values.items():
        text += letters * (number // value)
        number %= value
    return text


def _text(inlines: Sequence[Node], before: str = "") -> str:
    """Return a text followed by inline elements."""
    text = before
    for place, inline in enumerate(inlines):
        kind: str = inline["t"]
        content: Any = inline.get("c")
        if kind == "Str":
            lowered = place and inlines[place - 1]["t"] in ("Superscript", "Subscript")
            text += " " if lowered and text[-1:].isdigit() and content[:1].isdigit() else ""
            text += content
        elif kind in ("Space", "SoftBreak", "LineBreak"):
            text += "" if text[-1:] == " " else " "
        elif kind in ("Emph", "Underline", "Strong", "SmallCaps"):
            text = _text(content, text)
        elif kind == "Link" and [node["t"] for node in content[1]] == ["Superscript"]:
            raised = _text(content[1][0]["c"])
            text += f"[{raised}]" if raised[:1].isdigit() else raised
        elif kind in ("Cite", "Link", "Span"):
            text = _text(content[1], text)
        elif kind == "Quoted":
            opening, closing = "‘’" if content[0]["t"] == "SingleQuote" else "“”"
            text = _text(content[1], text + opening) + closing
        elif kind == "Superscript":
            raised = _text(content)
            if raised.isdigit() and not text[-1:].isalpha() and _is_numerator(inlines, place):
                text += f" {raised}" if text[-1:].isdigit() else raised
            elif _has_link(content) and raised[:1].isdigit():
                text += f"[{raised}]"
            elif place and inlines[place - 1]["t"] == "Superscript":
                text += raised
            else:
                text = with_superscript(text, raised)
        elif kind == "Subscript":
            text = with_subscript(text, _text(content))
        elif kind == "Code":
            text += content[1]
        elif kind == "Math":
            formula = formula_text(content[1])
            text += f" {formula}" if text[-1:].isdigit() and formula[:1].isdigit() else formula
        elif kind == "Image":
            sign = _text(content[1])
            text += sign if len(sign) == 1 else ""
        elif kind == "Note":
            text = f"{text.rstrip()} ({' '.join(_flat(content))})"
    return text


def _is_numerator(inlines: Sequence[Node], place: int) -> bool:
    """Return whether a fraction begins at a place, as in `<sup>1</sup>/<sub>2</sub>`."""
    stroke, lowered = (inlines[at : at + 1] for at in (place + 1, place + 2))
    text = str(stroke[0].get("c")) if stroke else ""
    # A solidus alone may divide a power, as in 10^9/2; a fraction slash does not.
    below = [node["t"] for node in lowered] == ["Subscript"] and len(text) == 1
    return text[:1] == "⁄" or (text == "/" and below)


def _has_link(inlines: Sequence[Node]) -> bool:
    return any(node["t"] in ("Link", "Cite") for node in inlines)


def _flat(blocks: Sequence[Node]) -> list[str]:
    """Return blocks as texts, without sections and indents."""
    inner = Outline({}, blocks)
    return inner.text.split()


def _table_lines(groups: Sequence[Group], width: int, *, marked: bool) -> Iterator[str]:
    """Yield the rows of a table, each cell with its header if there is one."""
    parts: list[tuple[list[str], list[Row]]] = [([], [])]
    for head, body in groups:
        grid = _grid([*head, *body], width)
        if head:
            parts.append((_headers(grid[: len(head)]), []))
        parts[-1][1].extend(grid[len(head) :])
    if not marked:
        rows = parts[0][1]
        title = list(takewhile(_is_whole, rows))
        first, *others = rows[len(title) :] or [[]]
        if others and _names_columns(first):
            parts = [([], title), (_headers([first]), others)]
    for headers, rows in parts:
        cells = [row for row in rows if not _is_whole(row)]
        filled = [any(row[column][0] for row in cells) for column in range(width)]
        shown = zip(headers, filled, strict=False)
        if any(len(header) > LONGEST_HEADER or (header and not full) for header, full in shown):
            yield " | ".join(dict.fromkeys(filter(None, headers)))
        yield from _lines(headers, rows)


def _lines(headers: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield rows below headers; a cell that spans a whole row is the heading of those after it."""
    heading, after_heading = "", False
    seen: set[int] = set()
    for row in rows:
        texts = []
        for text, cell in row:
            texts.append(_cut(text) if id(cell) in seen else text)
            seen.add(id(cell))
        whole = _is_whole(row)
        if whole:
            heading = under(heading if after_heading else "", _cut(texts[0]))
            yield texts[0]
        elif line := _row(headers, texts):
            yield f"{heading} | {line}" if heading else line
        after_heading = whole


def _is_whole(row: Row) -> bool:
    """Return whether one cell spans a row."""
    return len(row) > 1 and bool(row[0][0]) and all(cell is row[0][1] for _, cell in row)


def _row(headers: Sequence[str], texts: Sequence[str]) -> str:
    """Return a row. Without headers, empty cells keep their places."""
    if not any(headers):
        return " | ".join(texts) if any(texts) else ""
    cells = zip(map(_cut, headers), texts, strict=True)
    return " | ".join(f"{header}: {text}" if header else text for header, text in cells if text)


def _headers(rows: Sequence[Row]) -> list[str]:
    names = [text for text, _ in rows[0]]
    for above, row in pairwise(rows):
        names = [
            name if cell is upper else under(name, text)
            for name, (_, upper), (text, cell) in zip(names, above, row, strict=True)
        ]
    return names


def _names_columns(row: Row) -> bool:
    """Return whether a first row that is not marked is a header: all cells full, and no figure."""
    texts = [text for text, _ in row]
    return all(0 < len(text) <= LONGEST_HEADER and not _is_figure(text) for text in texts)


def _is_figure(text: str) -> bool:
    return text.lstrip("<>≤≥=~±+-−–()$€£ ")[:1].isdigit()


def _grid(rows: Sequence[list[Any]], width: int) -> list[Row]:
    """Return the text and the cell at each place; a cell that spans places is in each of them."""
    grid: list[Row] = []
    below: dict[int, tuple[str, Any, int]] = {}
    repeats = 0
    for _, cells in rows:
        line: Row = []
        rest = iter(cells)
        while len(line) < width:
            column = len(line)
            if column in below:
                text, cell, left = below.pop(column)
                columns = 1
            else:
                cell = next(rest, _EMPTY)
                text, left, columns = " ".join(_flat(cell[4])), cell[2], cell[3]
            for place in range(column, min(column + columns, width)):
                line.append((text, cell))
                if left > 1:
                    below[place] = text, cell, left - 1
            repeats += columns - 1 + (left > 1)
        grid.append(line)
        if repeats > MOST_SPANS:
            raise UnreadableError("A table repeats its cells too often: split it.")
    return grid


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_HEADER else f"{text[: LONGEST_HEADER - 1]}…"
