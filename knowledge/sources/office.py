"""Word documents and PowerPoint slides, made plain for pandoc, which loses some of their text."""

import zipfile
from collections.abc import Iterator
from io import BufferedIOBase, BytesIO

from lxml import etree

from briefcontext.knowledge.sources.formulas import with_subscript, with_superscript
from briefcontext.knowledge.sources.pandoc import archive_errors, outline, text_parts
from briefcontext.knowledge.sources.source import Entry, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import read_whole

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_STRICT = b"http://purl.oclc.org/ooxml/wordprocessingml/main"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_PARTS = ("document", "endnotes", "footnotes", "styles")
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_UNWRAPPED = ("bdo", "dir", "fldSimple", "ins", "moveTo", "ruby", "rubyBase", "smartTag")
"""Elements that pandoc leaves out with what is in them."""
_RENAMED = {"cr": "br", "ptab": "tab", "dstrike": "strike", "vanish": "strike"}
"""Elements that pandoc ignores, and ones that it reads alike."""
_SYMBOL_FONTS = ("Symbol", "Webdings", "Wingdings", "Wingdings 2", "Wingdings 3")
"""Fonts whose signs pandoc knows."""
_OLD = b"\xd0\xcf\x11\xe0"


@rejecting
def read_docx(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as one document, as `read_document` does; or its reject.

    Inserted text is read; deleted, struck and hidden text is not. A footnote is at its reference,
    and a text box after its paragraph. Headers, footers, comments and pictures are left out.
    """
    content = read_whole(stream)
    if content.startswith(_OLD):
        reason = "It needs a password, or is of Word 97 to 2003"
        raise UnreadableError(f"{reason}: save it as .docx without a password.")
    yield from _read(content, document_id, "docx")


@rejecting
def read_pptx(stream: BufferedIOBase, document_id: str) -> Iterator[Entry]:
    """Read the file as one document, as `read_document` does; or its reject."""
    yield from _read(read_whole(stream), document_id, "pptx")


def _read(content: bytes, document_id: str, format: str) -> Iterator[Entry]:
    with archive_errors("Word document" if format == "docx" else "PowerPoint file"):
        prepared, title = _prepared(content)
    yield outline(prepared, format).document(document_id, kind="text", title=title)


def _prepared(content: bytes) -> tuple[bytes, str]:
    """Return the file without pictures, as pandoc reads it whole, and the title that it states."""
    written = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as file, zipfile.ZipFile(written, "w") as prepared:
        parts, title = text_parts(file)
        hidden: set[str] = set()
        for part in sorted(parts, key=lambda part: "styles" not in part.filename):
            xml = file.read(part)
            if part.filename.startswith(("word/", "ppt/slides/")) and part.filename[-5:] != ".rels":
                tree = _parsed(xml)
                if tree.tag in (f"{_W}{name}" for name in _PARTS):
                    _prepare(tree, hidden)
                for paragraph in tree.iter(f"{_A}p"):
                    _join_runs(paragraph)
                for body in tree.iter(f"{_P}txBody"):
                    _number(body)
                xml = etree.tostring(tree)
            prepared.writestr(part.filename, xml)
        names = {part.filename for part in parts}
        _relate(prepared, names, "_rels/.rels", {"officeDocument": "word/document.xml"})
        targets = {name: f"{name}.xml" for name in (*_PARTS[1:], "numbering")}
        _relate(prepared, names, "word/_rels/document.xml.rels", targets)
    return written.getvalue(), title


def _relate(file: zipfile.ZipFile, names: set[str], name: str, targets: dict[str, str]) -> None:
    """Add the part that names others, which Word does without."""
    if name not in names:
        links = "".join(
            f'<Relationship Id="{kind}" Type="{_KINDS}/{kind}" Target="{target}"/>'
            for kind, target in targets.items()
            if target in names or f"word/{target}" in names
        )
        file.writestr(name, f'<Relationships xmlns="{_RELATIONS}">{links}</Relationships>')


def _parsed(xml: bytes) -> etree._Element:
    xml = xml.replace(_STRICT, _W[1:-1].encode())
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    tree = etree.fromstring(xml, parser)
    if tree.getroottree().docinfo.internalDTD is not None:
        raise UnreadableError("It has a document type, as no Word document does.")
    return tree


def _prepare(tree: etree._Element, hidden: set[str]) -> None:
    """Prepare a part; `hidden` are the styles that hide or strike out their paragraphs."""
    _place_boxes(tree)
    etree.strip_elements(tree, f"{_W}rt", f"{_W}rubyPr", with_tail=False)
    for base in tree.iter(f"{_W}rubyBase"):
        etree.strip_tags(base, f"{_W}r")
    etree.strip_tags(tree, *(f"{_W}{name}" for name in _UNWRAPPED))
    for name, alike in _RENAMED.items():
        for element in list(tree.iter(f"{_W}{name}")):
            _rename(element, alike)
    for symbol in tree.iter(f"{_W}sym"):
        code = symbol.get(f"{_W}char", "")
        if symbol.get(f"{_W}font") not in _SYMBOL_FONTS and code.isalnum():
            symbol.tag = f"{_W}t"
            symbol.text = _sign(code)
    for row in tree.iter(f"{_W}tr"):
        _fill_row(row)
    for look in tree.iter(f"{_W}tblLook"):
        look.attrib.clear()
    for field in list(tree.iter(f"{_W}ffData")):
        _show_field(field)
    _level_styles(tree)
    hidden.update(_hiding_styles(tree))
    for style in tree.iter(f"{_W}pStyle"):
        paragraph = next(style.iterancestors(f"{_W}p"), None)
        if _value(style) in hidden and paragraph is not None:
            for run in paragraph.iter(f"{_W}r"):
                _strike(run)


def _hiding_styles(tree: etree._Element) -> set[str]:
    styles = tree.findall(f"{_W}style")
    hidden: set[str] = set()
    count = -1
    while count < len(hidden):
        count = len(hidden)
        for style in styles:
            own = style.find(f"{_W}rPr/{_W}strike")
            inherited = _value(style.find(f"{_W}basedOn")) in hidden
            if inherited if own is None else _is_on(own):
                hidden.add(style.get(f"{_W}styleId", ""))
    return hidden


def _strike(run: etree._Element) -> None:
    properties = run.find(f"{_W}rPr")
    if properties is None:
        properties = etree.Element(f"{_W}rPr")
        run.insert(0, properties)
    if properties.find(f"{_W}strike") is None:
        etree.SubElement(properties, f"{_W}strike")


def _sign(code: str) -> str:
    """Return the sign of a hexadecimal code, or □ if it has none outside its font."""
    number = int(code, 16)
    printed = 0x20 <= number < 0xD800 or 0xF900 <= number < 0xFFFE
    return chr(number) if printed else "□"


def _place_boxes(tree: etree._Element) -> None:
    """Put the paragraphs of a text box, which files have twice, after the paragraph it is in."""
    for choice in list(tree.iter(f"{_COMPATIBILITY}Choice")):
        alternate = choice.getparent()
        if alternate is not None and choice.find(f".//{_W}txbxContent") is not None:
            for fallback in alternate.findall(f"{_COMPATIBILITY}Fallback"):
                alternate.remove(fallback)
    for box in list(tree.iter(f"{_W}txbxContent")):
        for paragraph in list(box.iterancestors(f"{_W}p"))[:1]:
            for block in reversed(box):
                paragraph.addnext(block)


def _rename(element: etree._Element, name: str) -> None:
    """Give an element a name; it replaces a sibling of that name."""
    parent = element.getparent()
    known = None if parent is None or name != "strike" else parent.find(f"{_W}strike")
    if parent is not None and known is not None and _is_on(element):
        parent.remove(known)
    element.tag = f"{_W}{name}"


def _is_on(element: etree._Element) -> bool:
    return _value(element) not in ("0", "false", "off")


def _value(element: etree._Element | None) -> str:
    return "" if element is None else element.get(f"{_W}val", "1")


def _fill_row(row: etree._Element) -> None:
    """Have the columns that a row leaves out be empty cells."""
    for name, place in (("gridBefore", 1), ("gridAfter", len(row) + 1)):
        columns = _value(row.find(f"{_W}trPr/{_W}{name}"))
        if columns not in ("", "0"):
            cell = etree.Element(f"{_W}tc")
            properties = etree.SubElement(cell, f"{_W}tcPr")
            etree.SubElement(properties, f"{_W}gridSpan", {f"{_W}val": columns})
            etree.SubElement(cell, f"{_W}p")
            row.insert(place, cell)


def _show_field(field: etree._Element) -> None:
    """Have the state of a form's box, or the choice of its list, be text."""
    run = next(field.iterancestors(f"{_W}r"), None)
    box, choices = field.find(f"{_W}checkBox"), field.find(f"{_W}ddList")
    if box is not None:
        checked = box.find(f"{_W}checked")
        checked = box.find(f"{_W}default") if checked is None else checked
        state = "☒" if checked is not None and _is_on(checked) else "☐"
    elif choices is not None:
        entries = choices.findall(f"{_W}listEntry")
        number = _value(choices.find(f"{_W}result")) or "0"
        state = _value(entries[int(number)]) if int(number) < len(entries) else ""
    else:
        return
    if run is not None:
        shown = etree.Element(f"{_W}r")
        etree.SubElement(shown, f"{_W}t").text = state
        run.addprevious(shown)


def _level_styles(tree: etree._Element) -> None:
    """Have outline levels, by which Word knows headings, be the names of styles, as pandoc does."""
    for level in tree.iter(f"{_W}outlineLvl"):
        properties = level.getparent()
        owner = None if properties is None else properties.getparent()
        number = _value(level)
        if properties is None or owner is None or not number.isdecimal():
            continue
        name = f"heading {int(number) + 1}" if int(number) < 9 else "Normal"
        if owner.tag == f"{_W}style":
            for element in owner.findall(f"{_W}name"):
                owner.remove(element)
            etree.SubElement(owner, f"{_W}name", {f"{_W}val": name})
            for element in owner.findall(f"{_W}basedOn") if int(number) == 9 else ():
                owner.remove(element)
        elif owner.tag == f"{_W}p":
            for element in properties.findall(f"{_W}pStyle"):
                properties.remove(element)
            etree.SubElement(properties, f"{_W}pStyle", {f"{_W}val": name.replace(" ", "")})
    if tree.tag == f"{_W}styles":
        for outline in range(1, 10):
            style = etree.SubElement(tree, f"{_W}style", {f"{_W}styleId": f"heading{outline}"})
            style.set(f"{_W}type", "paragraph")
            etree.SubElement(style, f"{_W}name", {f"{_W}val": f"heading {outline}"})


def _join_runs(paragraph: etree._Element) -> None:
    """Have the runs of a slide's paragraph be one, with exponents and without struck text."""
    runs = [run for run in paragraph if run.tag in (f"{_A}r", f"{_A}br", f"{_A}fld")]
    text = ""
    for run in runs:
        own = "\n" if run.tag == f"{_A}br" else run.findtext(f"{_A}t") or ""
        properties = run.find(f"{_A}rPr")
        properties = etree.Element("none") if properties is None else properties
        baseline = properties.get("baseline", "0")
        if properties.get("strike", "noStrike") != "noStrike":
            continue
        if baseline.strip("0%"):
            text = with_subscript(text, own) if baseline < "0" else with_superscript(text, own)
        else:
            text += own
    for run in runs[1:]:
        paragraph.remove(run)
    if runs:
        runs[0][:], runs[0].tag = [], f"{_A}r"
        etree.SubElement(runs[0], f"{_A}t").text = " ".join(text.split())


def _number(body: etree._Element) -> None:
    """Have the paragraphs of a slide's text begin with the numbers that it shows."""
    counts: dict[int, int] = {}
    for paragraph in body.iterfind(f"{_A}p"):
        properties, shown = paragraph.find(f"{_A}pPr"), paragraph.find(f"{_A}r/{_A}t")
        level = 0 if properties is None else int(properties.get("lvl", "0"))
        mark = None if properties is None else properties.find(f"{_A}buAutoNum")
        counts = {outer: count for outer, count in counts.items() if outer <= level}
        if mark is None:
            counts.pop(level, None)
        elif shown is not None:
            counts[level] = counts.get(level, int(mark.get("startAt", "1")) - 1) + 1
            shown.text = f"{counts[level]}. {shown.text or ''}"
