"""Word documents and PowerPoint slides, made plain for pandoc, which loses some of their text."""

from collections.abc import Iterator
from io import BufferedIOBase, BytesIO
from zipfile import ZipFile

from lxml import etree

from briefcontext.knowledge.sources.formulas import with_subscript, with_superscript
from briefcontext.knowledge.sources.pandoc import opened_archive, outline, text_parts
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import read_whole

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_UNWRAPPED = ("bdo", "dir", "fldSimple", "ins", "moveTo", "smartTag")
"""Elements that pandoc leaves out with their content."""
_STRUCK = tuple(f"{_W}{name}" for name in ("strike", "dstrike", "vanish"))
_SHOWN = tuple(f"{_W}{name}" for name in ("t", "sym", "footnoteReference", "endnoteReference"))
_RENAMED = {"cr": "br", "ptab": "tab"}
"""Elements that pandoc ignores, and ones that it reads."""
_SYMBOL_FONTS = ("Symbol", "Webdings", "Wingdings", "Wingdings 2", "Wingdings 3")
_OLD = b"\xd0\xcf\x11\xe0"


@rejecting
def read_office(stream: BufferedIOBase, document_id: str, *, format: str) -> Iterator[Entry]:
    """Read a .docx or .pptx file as one document, as `read_document` does; or its reject.

    Inserted text is read; deleted, struck and hidden text is not. A footnote is at its reference,
    and a text box after its paragraph. Headers, footers, comments and pictures are left out.
    """
    content = read_whole(stream)
    if content.startswith(_OLD):
        reason = "It needs a password, or is of Office 97 to 2003"
        raise UnreadableError(f"{reason}: save it as .{format} without a password.")
    plain = BytesIO()
    with opened_archive(content, format) as file, ZipFile(plain, "w") as prepared:
        parts, title = text_parts(file)
        struck: set[str] = set()
        for part in sorted(parts, key=lambda part: part.filename != "word/styles.xml"):
            xml = file.read(part)
            if part.filename.startswith(("word/", "ppt/")) and part.filename.endswith(".xml"):
                tree = _parsed(xml)
                _prepare_word(tree, struck)
                for paragraph in tree.iter(f"{_A}p"):
                    _prepare_slide(paragraph)
                xml = etree.tostring(tree)
            prepared.writestr(part.filename, xml)
    yield outline(plain.getvalue(), format).document(document_id, title=title)


def _parsed(xml: bytes) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    tree = etree.fromstring(xml, parser)
    if tree.getroottree().docinfo.internalDTD is not None:
        raise UnreadableError("It has a document type, as no Office document does.")
    return tree


def _prepare_slide(paragraph: etree._Element) -> None:
    """Join the runs of a slide's paragraph, with exponents and without struck text."""
    text = ""
    for run in paragraph.findall(f"{_A}*"):
        shown = " " if run.tag == f"{_A}br" else run.findtext(f"{_A}t") or ""
        properties = run.find(f"{_A}rPr")
        properties = etree.Element("none") if properties is None else properties
        baseline = int(properties.get("baseline", "0").rstrip("%"))
        if properties.get("strike", "noStrike") != "noStrike":
            shown = ""
        if baseline:
            text = (with_superscript if baseline > 0 else with_subscript)(text, shown)
        else:
            text += shown
        if run.tag != f"{_A}pPr":
            paragraph.remove(run)
    etree.SubElement(etree.SubElement(paragraph, f"{_A}r"), f"{_A}t").text = " ".join(text.split())


def _prepare_word(tree: etree._Element, struck: set[str]) -> None:
    """Prepare a part; `struck` are the styles of struck paragraphs, which the styles part names."""
    _place_boxes(tree)
    etree.strip_tags(tree, *(f"{_W}{name}" for name in _UNWRAPPED))
    for name, alike in _RENAMED.items():
        for element in tree.iter(f"{_W}{name}"):
            element.tag = f"{_W}{alike}"
    for style in tree.iterfind(f"{_W}style"):
        for mark in filter(_is_struck, style.iterfind(f"{_W}rPr/*")):
            mark.tag = _STRUCK[0]
            struck.add(style.get(f"{_W}styleId", ""))
    for paragraph in tree.iter(f"{_W}p"):
        whole = _value(paragraph.find(f"{_W}pPr/{_W}pStyle")) in struck
        for run in paragraph.iter(f"{_W}r"):
            if whole or any(map(_is_struck, run.iterfind(f"{_W}rPr/*"))):
                etree.strip_elements(run, *_SHOWN, with_tail=False)
    for symbol in tree.iter(f"{_W}sym"):
        code = symbol.get(f"{_W}char", "")
        if symbol.get(f"{_W}font") not in _SYMBOL_FONTS and code.isalnum():
            symbol.tag = f"{_W}t"
            symbol.text = _sign(int(code, 16))
    for row in tree.iter(f"{_W}tr"):
        _fill_row(row)
    for look in tree.iter(f"{_W}tblLook"):
        look.attrib.clear()
    for field in list(tree.iter(f"{_W}ffData")):
        _show_field(field)


def _sign(code: int) -> str:
    """Return the sign of a code, or □ if it has none outside its font."""
    printed = 0x20 <= code < 0xD800 or 0xF900 <= code < 0xFFFE
    return chr(code) if printed else "□"


def _place_boxes(tree: etree._Element) -> None:
    """Put the paragraphs of a text box, which files have twice, after the paragraph it is in."""
    etree.strip_elements(tree, _FALLBACK, with_tail=False)
    for box in list(tree.iter(f"{_W}txbxContent")):
        for paragraph in list(box.iterancestors(f"{_W}p"))[:1]:
            for block in reversed(box):
                paragraph.addnext(block)


def _is_struck(mark: etree._Element) -> bool:
    return mark.tag in _STRUCK and _is_on(mark)


def _is_on(element: etree._Element) -> bool:
    return _value(element) not in ("0", "false", "off")


def _value(element: etree._Element | None) -> str:
    return "" if element is None else element.get(f"{_W}val", "1")


def _fill_row(row: etree._Element) -> None:
    columns = _value(row.find(f"{_W}trPr/{_W}gridBefore"))
    if columns not in ("", "0"):
        cell = etree.Element(f"{_W}tc")
        properties = etree.SubElement(cell, f"{_W}tcPr")
        etree.SubElement(properties, f"{_W}gridSpan", {f"{_W}val": columns})
        etree.SubElement(cell, f"{_W}p")
        row.insert(1, cell)


def _show_field(field: etree._Element) -> None:
    box, choices = field.find(f"{_W}checkBox"), field.find(f"{_W}ddList")
    if box is not None:
        checked = box.find(f"{_W}checked")
        checked = box.find(f"{_W}default") if checked is None else checked
        state = "☒" if checked is not None and _is_on(checked) else "☐"
    elif choices is not None:
        entries = choices.findall(f"{_W}listEntry")
        number = int(_value(choices.find(f"{_W}result")) or "0")
        state = "".join(map(_value, entries[number : number + 1]))
    else:
        return
    for run in list(field.iterancestors(f"{_W}r"))[:1]:
        shown = etree.Element(f"{_W}r")
        etree.SubElement(shown, f"{_W}t").text = state
        run.addprevious(shown)
