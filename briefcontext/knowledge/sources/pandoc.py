"""Documents that pandoc reads, as plain text with sections, lists and tables."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedIOBase, BytesIO
from itertools import accumulate, pairwise, takewhile
from string import ascii_lowercase
from subprocess import PIPE, TimeoutExpired, run
from tempfile import TemporaryFile
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import ijson  # type: ignore[import-untyped]
from langchain_core.documents import Document
from lxml.etree import XMLParser, XMLSyntaxError, _Element, fromstring

from briefcontext.errors import needing
from briefcontext.knowledge.sources.formulas import formula_text, with_subscript, with_superscript
from briefcontext.knowledge.sources.publication import under
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import decoded, file_document, read_whole

SECONDS = 28
MEMORY = "600M"
MOST_UNPACKED = 32 * 1024 * 1024
TEXT_ENDINGS = (".htm", ".html", ".ncx", ".opf", ".rels", ".xhtml", ".xml")
MOST_CELLS = 500_000
"""Cells of a table; one that spans places counts in each."""
WIDEST = 1000
LONGEST_HEADER = 200
"""Characters of a header, and of a repeated cell."""
ARCHIVES = ("epub", "odt")
PROPERTIES = ("docProps/core.xml", "meta.xml")
TITLE = ".//{http://purl.org/dc/elements/1.1/}title"
PROSE = {"epub": ("title", "subtitle", "abstract"), "html": ()}
"""Metadata that are text in some formats; others have all of the following."""
ALL_PROSE = ("title", "subtitle", "author", "date", "abstract")
NUMERALS = {
    "Alpha": tuple(ascii_lowercase),
    "Roman": ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"),
}

Node = dict[str, Any]
Row = list[tuple[str, Any]]
"""The text and the cell of each column."""
Part = tuple[list[str], list[Row]]
"""The headers of the columns, and the rows below them."""
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), " ")


@rejecting
def read_document(stream: BufferedIOBase, document_id: str, *, format: str) -> Iterator[Entry]:
    """Read a file in one of pandoc's formats as one document, or its reject.

    Paragraphs, headings, list items and rows are separated by a blank line. A heading has its outer
    headings before it (`under`). A row is `Header: value | Header: value`. `sections` is JSON:
    `[heading, start, end]` for each heading in order.
    """
    content = read_whole(stream)
    title = ""
    if format in ARCHIVES:
        with opened_archive(content, format) as archive:
            _, title = text_parts(archive)
    elif format == "latex":
        content = decoded(content).encode()
    elif format == "rtf" and not content.startswith(b"{\\rtf"):
        raise UnreadableError("It is not RTF.")
    yield outline(content, format).document(document_id, title=title)


@contextmanager
def opened_archive(content: bytes, format: str) -> Iterator[ZipFile]:
    """Open an archive. Raises UnreadableError if it or its XML is damaged."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            yield archive
    except (BadZipFile, NotImplementedError, OSError, XMLSyntaxError, zlib.error) as error:
        message = f"It is not a {format.upper()} file, or it is damaged ({type(error).__name__})."
        raise UnreadableError(message) from error


def text_parts(archive: ZipFile) -> tuple[list[ZipInfo], str]:
    """Return the parts with text, and the stated title. Raises UnreadableError for a bomb."""
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
    with converted(content, format, "json") as tree:
        meta = next(ijson.items(tree, "meta"))
        prose = {name: meta[name] for name in PROSE.get(format, ALL_PROSE) if name in meta}
        tree.seek(0)
        try:
            return Outline(prose, ijson.items(tree, "blocks.item"))
        except RecursionError:
            raise UnreadableError("Its elements are nested too deeply.") from None


@contextmanager
def converted(content: bytes, format: str, target: str) -> Iterator[IO[bytes]]:
    """Open a file as pandoc writes it in another format, in a sandbox with limits.

    Raises UnreadableError if pandoc cannot read it, MissingExtraError if pandoc is not installed.
    """
    with needing("documents", "Reading this format needs pandoc"):
        import pypandoc

        try:
            program = pypandoc.get_pandoc_path()
        except OSError as error:
            raise ImportError from error
    limits = ("+RTS", f"-M{MEMORY}", "-RTS", "--sandbox")
    command = [program, *limits, f"--from={format}", f"--to={target}", "--mathml"]
    with TemporaryFile() as output:
        try:
            done = run(command, input=content, stdout=output, stderr=PIPE, timeout=SECONDS)
        except TimeoutExpired:
            message = f"Reading it takes more than {SECONDS} seconds: split it."
            raise UnreadableError(message) from None
        if done.returncode:
            message = " ".join(done.stderr.decode(errors="replace").split())
            if "Heap exhausted" in message:
                raise UnreadableError(f"Reading it takes more than {MEMORY}B of memory: split it.")
            raise UnreadableError(f"It is damaged, or not {format}: {message[:200]}")
        output.seek(0)
        yield output


class Outline:
    """The text of a document, block by block, and its sections."""

    def __init__(self, meta: Mapping[str, Node], blocks: Iterable[Node]) -> None:
        self.title = ""
        self._blocks: list[str] = []
        self._starts: list[tuple[str, int, int]] = []
        """The heading of each section, the number of its first block, and its place in that."""
        self._headings: list[str] = []
        self._left_quotation = False
        self._indent = 0
        self._mark = ""
        for name, value in meta.items():
            self._add_value(value)
            if name == "title":
                self.title = " ".join(self.text.split())
        self._walk(blocks)

    @property
    def text(self) -> str:
        return "\n\n".join(self._blocks)

    @property
    def sections(self) -> list[tuple[str, int, int]]:
        """The heading, start and end of each section."""
        places = list(accumulate((len(block) + 2 for block in self._blocks), initial=0))
        starts = [places[number] + place for _, number, place in self._starts]
        headings = [heading for heading, _, _ in self._starts]
        return list(zip(headings, starts, [*starts[1:], places[-1] - 2], strict=False))

    def document(self, document_id: str, *, kind: str = "text", title: str = "") -> Document:
        """Return the document of a file; `title` is the stated one."""
        sections = json.dumps(self.sections, ensure_ascii=False)
        metadata = {"sections": sections} if self._starts else {}
        titles = (title, self.title)
        return file_document(document_id, self.text, *titles, kind=kind, metadata=metadata)

    def _add_value(self, value: Node) -> None:
        content: Any = value.get("c")
        match value["t"], content:
            case "MetaList", values:
                for each in values:
                    self._add_value(each)
            case "MetaInlines", inlines:
                self._add(_text(inlines))
            case "MetaBlocks", blocks:
                self._walk(blocks)

    def _walk(self, blocks: Iterable[Node]) -> None:
        for block in blocks:
            content: Any = block.get("c")
            match block["t"], content:
                case (("Para" | "Plain"), inlines):
                    self._add(_text(inlines))
                case "Header", [level, _, inlines]:
                    self._head(level, _text(inlines).strip())
                case "Div", [_, inner]:
                    self._walk(inner)
                case "BlockQuote", inner:
                    self._quote(inner)
                case "BulletList", items:
                    for item in items:
                        self._item(item, "- ")
                case "OrderedList", [[first, style, delimiter], items]:
                    for number, item in enumerate(items, start=first):
                        self._item(item, _number(number, style["t"], delimiter["t"]))
                case "DefinitionList", definitions:
                    for term, items in definitions:
                        self._add(_text(term))
                        for item in items:
                            self._item(item, "- ")
                case "LineBlock", lines:
                    self._add("\n".join(map(_text, lines)))
                case "CodeBlock", [_, code]:
                    self._add(code)
                case "Figure", [_, [_, caption], inner]:
                    self._walk(inner)
                    self._walk(caption)
                case "Table", [_, [_, caption], columns, [_, head], bodies, [_, foot]]:
                    self._walk(caption)
                    groups = [(head, []), *(body[2:] for body in bodies), ([], foot)]
                    marked = any(group[0] for group in groups) or any(body[1] for body in bodies)
                    self._table(groups, len(columns), marked=marked)

    def _add(self, text: str) -> None:
        plain = text.translate(_CONTROLS)
        text = (text if plain == text else " ".join(plain.split())).strip(" \n\r\t")
        if text:
            self._resume()
            self._write(text)

    def _resume(self) -> None:
        if self._left_quotation:
            self._left_quotation = False
            self._begin("".join(self._headings[-1:]))

    def _head(self, level: int, own: str) -> None:
        self._left_quotation = False
        if own:
            outer = self._headings[: level - 1]
            outer += [outer[-1] if outer else ""] * (level - 1 - len(outer))
            heading = under(outer[-1] if outer else "", own)
            self._headings = [*outer, heading]
            self.title = self.title or own
            self._begin(heading)

    def _begin(self, heading: str) -> None:
        self._starts.append((heading, len(self._blocks), len(self._prefix())))
        if heading:
            self._write(heading)

    def _write(self, text: str) -> None:
        self._blocks.append(self._prefix() + text)
        self._mark = ""

    def _prefix(self) -> str:
        return "  " * (self._indent - 1) + self._mark if self._mark else "  " * self._indent

    def _item(self, blocks: Sequence[Node], mark: str) -> None:
        self._resume()
        self._indent += 1
        self._mark += mark
        self._walk(blocks)
        self._indent -= 1
        self._mark = ""

    def _quote(self, blocks: Sequence[Node]) -> None:
        """Add a quotation, with which its headings end."""
        outer, count = self._headings, len(self._starts)
        self._walk(blocks)
        self._headings = outer
        self._left_quotation = self._left_quotation or len(self._starts) > count

    def _table(self, groups: Sequence[Sequence[Any]], width: int, *, marked: bool) -> None:
        cells = [cell for group in groups for rows in group for row in rows for cell in row[1]]
        inner = ("Table",) if marked else ("Header", "Table")
        layout = any(block["t"] in inner for cell in cells for block in cell[4])
        if layout or (width == 1 and not marked):
            for cell in cells:
                self._walk(cell[4])
            return
        parts: list[Part] = []
        for head, body in groups:
            grid = _grid([*head, *body], width)
            if head or not parts:
                parts.append((_headers(grid[: len(head)]), []))
            parts[-1][1].extend(grid[len(head) :])
        for headers, rows in parts if marked else _parts(parts[0][1]):
            for line in _lines(headers, rows):
                self._add(line)


def _number(number: int, style: str, delimiter: str) -> str:
    for kind, numerals in NUMERALS.items():
        if style.endswith(kind) and 0 < number <= len(numerals):
            numeral = numerals[number - 1]
            return f"{numeral.upper() if style.startswith('Upper') else numeral}) "
    return f"{number}{')' if 'Paren' in delimiter else '.'} "


def _text(inlines: Sequence[Node], text: str = "") -> str:
    for place, inline in enumerate(inlines):
        content: Any = inline.get("c")
        match inline["t"], content:
            case "Str", word:
                script = place and inlines[place - 1]["t"] in ("Superscript", "Subscript")
                text += " " if script and text[-1:].isdigit() and word[:1].isdigit() else ""
                text += word
            case (("Space" | "SoftBreak" | "LineBreak"), _):
                text += "" if text[-1:] == " " else " "
            case (("Emph" | "Underline" | "Strong" | "SmallCaps"), inner):
                text = _text(inner, text)
            case "Link", [_, [{"t": "Superscript", "c": raised}], _]:
                text += _citation(_text(raised))
            case (("Cite" | "Link" | "Span"), [_, inner, *_]):
                text = _text(inner, text)
            case "Quoted", [kind, inner]:
                opening, closing = "‘’" if kind["t"] == "SingleQuote" else "“”"
                text = _text(inner, text + opening) + closing
            case "Superscript", raised if place and inlines[place - 1]["t"] == "Superscript":
                text += _text(raised)
            case "Superscript", raised:
                text = _raise(text, raised, inlines[place + 1 : place + 3])
            case "Subscript", lowered:
                text = with_subscript(text, _text(lowered))
            case "Code", [_, code]:
                text += code
            case "Math", [_, tex]:
                formula = formula_text(tex)
                text += " " if text[-1:].isdigit() and formula[:1].isdigit() else ""
                text += formula
            case "Image", [_, description, _]:
                sign = _text(description)
                text += sign if len(sign) == 1 else ""
            case "Note", blocks:
                note = _flat(blocks)
                text = f"{text.rstrip()} ({note})" if note else text
    return text


def _raise(text: str, raised: Sequence[Node], following: Sequence[Node]) -> str:
    """Add what is raised after a text: a numerator, a citation or an exponent."""
    own = _text(raised)
    stroke = str(following[0].get("c")) if following else ""
    # A solidus alone may divide a power, as in 10^9/2; a fraction slash does not.
    lowered = stroke == "/" and [node["t"] for node in following[1:]] == ["Subscript"]
    if own.isdigit() and not text[-1:].isalpha() and (lowered or stroke[:1] == "⁄"):
        return f"{text} {own}" if text[-1:].isdigit() else text + own
    if any(node["t"] in ("Link", "Cite") for node in raised):
        return text + _citation(own)
    return with_superscript(text, own)


def _citation(text: str) -> str:
    return f"[{text}]" if text[:1].isdigit() else text


def _flat(blocks: Sequence[Node]) -> str:
    return " ".join(Outline({}, blocks).text.split())


def span(cell: _Element, name: str) -> int:
    """Return the number of columns or rows that a cell of HTML spans."""
    value = cell.get(name, "").strip()
    return min(max(int(value), 1), WIDEST) if value.isdecimal() and len(value) < 9 else 1


def _grid(rows: Sequence[Sequence[Any]], width: int) -> list[Row]:
    if width * len(rows) > MOST_CELLS:
        raise UnreadableError("A table has too many cells: split it.")
    grid: list[list[Any]] = [[None] * width for _ in rows]
    for number, (_, cells) in enumerate(rows):
        places = (column for column in range(width) if grid[number][column] is None)
        for cell, column in zip(cells, places, strict=False):
            spanned = (_flat(cell[4]), cell)
            end = min(column + cell[3], width)
            for row in grid[number : number + cell[2]]:
                row[column:end] = [spanned] * (end - column)
    return [[place or ("", None) for place in row] for row in grid]


def _headers(rows: Sequence[Row]) -> list[str]:
    names = [text for text, _ in rows[0]] if rows else []
    for above, row in pairwise(rows):
        names = [
            name if cell is upper else under(name, text)
            for name, (_, upper), (text, cell) in zip(names, above, row, strict=True)
        ]
    return names


def _parts(rows: Sequence[Row]) -> list[Part]:
    """Return the parts of a table that marks no header.

    The first row is the header, with the rows that its cells span, if no cell is empty or a figure.
    """
    title = list(takewhile(_is_whole, rows))
    others = rows[len(title) :]
    height = max((cell[2] for _, cell in others[0] if cell), default=1) if others else 0
    head, body = others[:height], others[height:]
    if body and all(_is_name(text) for row in head for text, _ in row):
        return [([], title), (_headers(head), list(body))]
    return [([], list(rows))]


def _is_name(text: str) -> bool:
    figure = text.lstrip("<>≤≥=~±+-−–()$€£ ")[:1].isdigit()
    return 0 < len(text) <= LONGEST_HEADER and not figure


def _lines(headers: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield rows below headers; a cell that spans a row is the heading of the rows after it."""
    cells = [row for row in rows if not _is_whole(row)]
    columns = zip(headers, range(len(headers)), strict=True)
    missing = (name for name, column in columns if not any(row[column][0] for row in cells))
    if any(missing) or any(len(name) > LONGEST_HEADER for name in headers):
        yield " | ".join(dict.fromkeys(filter(None, headers)))
    heading, after_heading = "", False
    seen: set[int] = set()
    for row in rows:
        texts = []
        for text, cell in row:
            texts.append(_cut(text) if id(cell) in seen else text)
            seen.add(id(cell))
        if _is_whole(row):
            heading = under(heading if after_heading else "", _cut(texts[0]))
            after_heading = True
            yield texts[0]
        elif line := _row(headers, texts):
            yield f"{heading} | {line}" if heading else line
            after_heading = False


def _is_whole(row: Row) -> bool:
    return len(row) > 1 and bool(row[0][0]) and all(cell is row[0][1] for _, cell in row)


def _row(headers: Sequence[str], texts: Sequence[str]) -> str:
    """Return a row. Without headers, empty cells keep their places."""
    if not any(headers):
        return " | ".join(texts) if any(texts) else ""
    cells = zip(map(_cut, headers), texts, strict=True)
    return " | ".join(f"{header}: {text}" if header else text for header, text in cells if text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_HEADER else f"{text[: LONGEST_HEADER - 1]}…"
