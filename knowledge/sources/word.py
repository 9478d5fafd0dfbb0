"""Word documents (.docx), which mammoth makes HTML of: one document per file."""

import re
import zipfile
from collections.abc import Iterator
from io import BufferedIOBase, BytesIO

from lxml import etree

from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import read_html, read_whole

MOST_UNPACKED = 64 * 1024 * 1024
"""Bytes of a file's XML."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_FORMULAS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"
_STRICT = (
    (b"http://purl.oclc.org/ooxml/wordprocessingml/main", _W[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/officeDocument/math", _FORMULAS[1:].partition("}")[0].encode()),
)
"""Namespaces of Strict Open XML, and those that nearly all files have."""
_TEXT = re.compile(r"word/[^/]+\.xml", re.ASCII)
_NOT_SHOWN = ("strike", "dstrike", "vanish")
_FIELDS = (f"{_W}rPr", f"{_W}fldChar", f"{_W}instrText")
"""What a run may have beside what is shown of it."""
_READ_AS = {
    **dict.fromkeys((f"{_W}{name}" for name in ("bdo", "dir", "fldSimple", "ruby", "rubyBase")), f"{_W}smartTag"),
    **{f"{_W}cr": f"{_W}tab", f"{_W}ptab": f"{_W}tab", f"{_W}bookmarkStart": f"{_W}bookmarkEnd"},
}
"""Elements that mammoth does not know, or that part what belongs together for it, by one that it reads as they are."""
_LEVELS = 6
_CODE = re.compile("[0-9a-fA-F]{2,4}")
_ENCRYPTED_OR_OLD = b"\xd0\xcf\x11\xe0"


@rejecting
def read_docx(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """The file as one document, as `read_html` reads it: headings, lists, tables with their headers; or its reject.

    Inserted text is in it, deleted, struck out and hidden text is not. Footnotes and endnotes come last, text boxes
    behind their paragraph; headers, footers, comments and pictures are left out, and a formula is `[formula]`. A
    heading is what has an outline level, by itself or by its style. Headers of a table are those that it repeats on
    each page.
    """
    import mammoth  # Takes a while, which other files need not wait for.

    content = read_whole(stream)
    if content.startswith(_ENCRYPTED_OR_OLD):
        raise UnreadableError("It needs a password, or is of Word 97 to 2003: save it as .docx without a password.")
    try:
        without_pictures = mammoth.images.img_element(lambda image: {})
        page = mammoth.convert_to_html(BytesIO(_prepared(content)), convert_image=without_pictures).value
    except UnreadableError:
        raise
    # What mammoth raises where a part is missing, or has not what it should have, is not known.
    except Exception as error:
        raise UnreadableError(f"It is no Word document, or a damaged one ({type(error).__name__}).") from error
    yield from read_html(BytesIO(page.replace("↑</a>", "</a>").encode()), document_id)


def _prepared(content: bytes) -> bytes:
    """Return the file's XML, as mammoth needs it to tell headings, and to leave out what is not shown."""
    written = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as given, zipfile.ZipFile(written, "w") as prepared:
        parts = [part for part in given.infolist() if part.filename.endswith((".xml", ".rels"))]
        if (unpacked := sum(part.file_size for part in parts)) > MOST_UNPACKED:
            raise UnreadableError(f"It would be {unpacked:,} bytes unpacked: at most {MOST_UNPACKED:,} are.")
        if any(part.flag_bits & 1 for part in parts):
            raise UnreadableError("It needs a password: save it without one.")
        texts = {part.filename: given.read(part) for part in parts}
        trees = {name: _parsed(text) for name, text in texts.items()}
        styles = {
            style.get(f"{_W}styleId", ""): style for tree in trees.values() for style in tree.iterchildren(f"{_W}style")
        }
        for name, tree in trees.items():
            if _TEXT.fullmatch(name) and tree.tag != f"{_W}styles":
                _show(tree, styles)
            prepared.writestr(name, etree.tostring(tree))
    return written.getvalue()


def _parsed(text: bytes) -> etree._Element:
    for strict, usual in _STRICT:
        text = text.replace(strict, usual)
    tree = etree.fromstring(text, etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True))
    if tree.getroottree().docinfo.internalDTD is not None:
        raise UnreadableError("It has a document type, as no Word document does.")
    return tree


def _show(tree: etree._Element, styles: dict[str, etree._Element]) -> None:
    _place_boxes(tree)
    for element in tree.iter(*_READ_AS):
        element.tag = _READ_AS[element.tag]
    for row in tree.iter(f"{_W}tr"):
        for name in ("gridBefore", "gridAfter"):
            if (left_out := _value(row, f"trPr/{name}")) not in (None, "0"):
                cell = etree.Element(f"{_W}tc")
                etree.SubElement(etree.SubElement(cell, f"{_W}tcPr"), f"{_W}gridSpan", {f"{_W}val": left_out})
                row.insert(0 if name == "gridBefore" else len(row), cell)
    for formula in tree.iter(_FORMULAS):
        tail = formula.tail
        formula.clear()
        formula.tag, formula.tail = f"{_W}r", tail
        etree.SubElement(formula, f"{_W}t").text = "[formula]"
    for run in tree.iter(f"{_W}r"):
        if any(_of_run(run, name, styles) not in (None, "0", "false", "off") for name in _NOT_SHOWN):
            for child in list(run):
                if child.tag not in _FIELDS:
                    run.remove(child)
        properties = run.find(f"{_W}rPr")
        if properties is not None and _of_run(run, "vertAlign", styles) == "superscript":
            etree.SubElement(properties, f"{_W}vertAlign", {f"{_W}val": "superscript"})
        fonts = run.find(f"{_W}rPr/{_W}rFonts")
        for text in run.iterchildren(f"{_W}t"):
            text.text = _in_font(text.text or "", None if fonts is None else fonts.get(f"{_W}ascii"))
        for symbol in run.iterchildren(f"{_W}sym"):
            symbol.tag = f"{_W}t"
            symbol.text = _in_font(_sign(symbol.get(f"{_W}char", "")), symbol.get(f"{_W}font"))
    for paragraph in tree.iter(f"{_W}p"):
        level = _level(paragraph, styles)
        if level is not None and level < 9:
            properties = paragraph.find(f"{_W}pPr")
            if properties is None:
                properties = etree.Element(f"{_W}pPr")
                paragraph.insert(0, properties)
            for style in properties.findall(f"{_W}pStyle"):
                properties.remove(style)
            etree.SubElement(properties, f"{_W}pStyle", {f"{_W}val": f"Heading{min(level + 1, _LEVELS)}"})


def _place_boxes(tree: etree._Element) -> None:
    """Have the paragraphs of text boxes, which files have in two ways side by side, follow the one that they are at."""
    for choice in list(tree.iter(f"{_COMPATIBILITY}Choice")):
        if choice.find(f".//{_W}txbxContent") is not None and (alternate := choice.getparent()) is not None:
            for fallback in alternate.findall(f"{_COMPATIBILITY}Fallback"):
                alternate.remove(fallback)
    for box in list(tree.iter(f"{_W}txbxContent")):
        if (paragraph := next(box.iterancestors(f"{_W}p"), None)) is not None:
            for block in reversed(box):
                paragraph.addnext(block)


def _chain(style: str | None, styles: dict[str, etree._Element]) -> Iterator[etree._Element]:
    """Yield a style, and those that it is based on."""
    seen = set[str]()
    while style in styles and style not in seen:
        seen.add(style)
        yield styles[style]
        style = _value(styles[style], "basedOn")


def _value(element: etree._Element | None, path: str) -> str | None:
    found = None if element is None else element.find("/".join(f"{_W}{name}" for name in path.split("/")))
    return None if found is None else found.get(f"{_W}val", "1")


def _sign(code: str) -> str:
    """Return the sign of a code in hexadecimal digits; empty where it is none that a text may hold."""
    number = int(code, 16) if _CODE.fullmatch(code) else 0
    return chr(number) if 0x20 <= number < 0xD800 or 0xE000 <= number < 0xFFFE else ""


def _in_font(signs: str, font: str | None) -> str:
    """Return the signs that a font draws: some have others in the place of letters, as Symbol has μ in that of m."""
    from mammoth.docx.dingbats import dingbats

    codes = ((ord(sign), ord(sign) - 0xF000 * ("\uf000" <= sign <= "\uf0ff")) for sign in signs)
    return "".join(chr(dingbats.get((font, drawn), code)) for code, drawn in codes)


def _of_run(run: etree._Element, name: str, styles: dict[str, etree._Element]) -> str | None:
    """Return what a run, or else a style of it, says of a property."""
    paragraph = next(run.iterancestors(f"{_W}p"), None)
    named = (_value(run, "rPr/rStyle"), _value(paragraph, "pPr/pStyle"))
    for element in (run, *(style for start in named for style in _chain(start, styles))):
        if (value := _value(element, f"rPr/{name}")) is not None:
            return value
    return None


def _level(paragraph: etree._Element, styles: dict[str, etree._Element]) -> int | None:
    """Return the outline level of a paragraph, 0 for the first; 9 says that it has none."""
    for element in (paragraph, *_chain(_value(paragraph, "pPr/pStyle"), styles)):
        if (value := _value(element, "pPr/outlineLvl")) is not None and value.isdecimal():
            return int(value)
    return None
