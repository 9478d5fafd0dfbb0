"""Word documents: what stands in them is read, and what was struck out is not."""

import io
import zipfile

import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.office import read_office
from briefcontext.knowledge.sources.pandoc import MOST_UNPACKED
from briefcontext.knowledge.sources.source import Reject
from tests.test_document_laws import relations

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
NAMES = (
    f'xmlns:w="{W}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:schemas-microsoft-com:vml"'
)
STYLES = (
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:basedOn w:val="berschrift2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Old"><w:rPr><w:strike/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Gone"><w:rPr><w:strike/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>'
    '<w:style w:type="character" w:styleId="Up"><w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>'
)
NUMBERING = (
    '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/>'
    '<w:lvlText w:val="•"/></w:lvl><w:lvl w:ilvl="1"><w:start w:val="1"/>'
    '<w:numFmt w:val="decimal"/><w:lvlText w:val="%2."/></w:lvl></w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
)
NOTES = '<w:footnote w:id="2"><w:p><w:r><w:t>Not at night.</w:t></w:r></w:p></w:footnote>'


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{text if text.startswith('<') else run(text)}</w:p>"


def styled(text: str, style: str) -> str:
    return p(text, f'<w:pStyle w:val="{style}"/>')


def item(text: str, level: int = 0) -> str:
    return p(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>')


def row(*cells: str, header: bool = False) -> str:
    marked = "<w:trPr><w:tblHeader/></w:trPr>" if header else ""
    return f"<w:tr>{marked}{''.join(cells)}</w:tr>"


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"


def word(body: str, **parts: str) -> bytes:
    stream = io.BytesIO()
    parts = {"styles": STYLES, "numbering": NUMBERING, "footnotes": NOTES, **parts}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr(
            "word/document.xml", f"<w:document {NAMES}><w:body>{body}</w:body></w:document>"
        )
        for name, content in parts.items():
            file.writestr(f"word/{name}.xml", f"<w:{name} {NAMES}>{content}</w:{name}>")
        file.writestr("_rels/.rels", relations(officeDocument="word/document.xml"))
        targets = {name: f"{name}.xml" for name in parts}
        file.writestr("word/_rels/document.xml.rels", relations(**targets))
    return stream.getvalue()


def blocks(body: str) -> list[str]:
    (entry,) = read_office(io.BytesIO(word(body)), "f/a.docx", format="docx")
    assert isinstance(entry, Document), entry
    return entry.page_content.split("\n\n")


def test_headings_lists_and_notes_of_word_are_read() -> None:
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    body = (
        styled("Contraindications", "berschrift1")
        + styled("Adults", "Own")
        + item("Stroke")
        + item("in men", 1)
        + p(run("Read this.") + reference)
    )
    assert blocks(body) == [
        *("Contraindications", "Contraindications › Adults", "- Stroke", "  1. in men"),
        "Read this. (Not at night.)",
    ]


@pytest.mark.parametrize(
    "gone",
    [
        *(run("10 ", f"<w:{name}/>") for name in ("strike", "dstrike", "vanish")),
        run("10 ", '<w:rStyle w:val="Gone"/>'),
        run("10 ", '<w:strike w:val="0"/><w:dstrike/>'),
        run("10 ", '<w:strike/><w:dstrike w:val="0"/>'),
        "<w:del><w:r><w:delText>10 </w:delText></w:r></w:del>",
        f"<w:moveFrom>{run('10 ')}</w:moveFrom>",
    ],
)
def test_what_word_strikes_out_deletes_or_hides_is_left_out(gone: str) -> None:
    kept = "".join(f"<w:{name}>{run('5 ')}</w:{name}>" for name in ("ins", "moveTo"))
    standing = run("mg", '<w:rStyle w:val="Gone"/><w:strike w:val="0"/>') + run(
        ".", '<w:rStyle w:val="Loop"/>'
    )
    assert blocks(styled("Old.", "Old") + p(run("Give ") + gone + kept + standing)) == [
        "Give 5 5 mg."
    ]


def test_cells_of_word_have_their_headers_also_where_they_are_merged() -> None:
    restart, goes_on = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    table = (
        row(cell("Who"), cell("Day"), cell("Dose"), header=True)
        + row(cell("Adults", restart), cell("1"), cell("5 mg"))
        + row(cell("", goes_on), cell("2"), cell("1 mg"))
        + row(cell("Children"), cell("Never", '<w:gridSpan w:val="2"/>'))
    )
    assert blocks(f"<w:tbl>{table}</w:tbl>") == [
        *("Who: Adults | Day: 1 | Dose: 5 mg", "Who: Adults | Day: 2 | Dose: 1 mg"),
        "Who: Children | Day: Never | Dose: Never",
    ]
    table = row(cell("Adults", restart), cell("5 mg")) + row(cell("", goes_on), cell("1 mg"))
    assert blocks(f"<w:tbl>{table}</w:tbl>") == ["Adults | 5 mg", "Adults | 1 mg"]

    short = "<w:tr><w:trPr><w:gridBefore w:val='2'/></w:trPr>" + cell("9 mg") + "</w:tr>"
    shorter = (
        "<w:tr><w:trPr><w:gridAfter w:val='1'/></w:trPr>" + cell("Men") + cell("3") + "</w:tr>"
    )
    middle = (
        "<w:tr><w:trPr><w:gridBefore w:val='1'/><w:gridAfter w:val='1'/></w:trPr>"
        + cell("3")
        + "</w:tr>"
    )
    whole = (
        "<w:tr><w:trPr><w:gridBefore w:val='0'/></w:trPr>"
        + cell("All")
        + cell("4")
        + cell("2 mg")
        + "</w:tr>"
    )
    mark = '<w:bookmarkStart w:id="1" w:name="a"/>'
    table = (
        row(cell("Who"), cell("Day"), cell("Dose"), header=True)
        + row(cell("Adults", restart), cell("1"), cell("5 mg"))
        + mark
        + row(cell("", goes_on), cell("2"), cell("1 mg"))
        + short
        + shorter
        + middle
        + whole
    )
    assert blocks(f"<w:tbl>{table}</w:tbl>") == [
        *("Who: Adults | Day: 1 | Dose: 5 mg", "Who: Adults | Day: 2 | Dose: 1 mg"),
        *("Dose: 9 mg", "Who: Men | Day: 3", "Day: 3", "Who: All | Day: 4 | Dose: 2 mg"),
    ]


@pytest.mark.parametrize(
    ("within", "text"),
    [
        *((f"<w:{name}>{run('5 mg')}</w:{name}>", "5 mg") for name in ("fldSimple", "bdo", "dir")),
        *(
            (f"<w:r><w:t>5</w:t><w:{name}/><w:t>10</w:t></w:r>", "5 10")
            for name in ("cr", "ptab", "br", "tab")
        ),
        (run("10") + run("9 ", '<w:rStyle w:val="Up"/>') + run("cells"), "10^9 cells"),
        (
            run("10")
            + '<w:bookmarkStart w:id="1" w:name="a"/>'
            + run("9", '<w:rStyle w:val="Up"/>'),
            "10^9",
        ),
        (
            run("\uf0b3") + run("\uf0b35 m", '<w:rFonts w:ascii="Symbol"/>') + run("g"),
            "\uf0b3≥5\xa0μg",
        ),
        ('<w:r><w:sym w:font="Symbol"/><w:sym w:char="0001"/><w:t>5</w:t></w:r>', "□5"),
        (
            '<w:r><w:sym w:font="Symbol" w:char="f0a3"/><w:sym w:font="Arial" w:char="2265"/></w:r>',
            "≤≥",
        ),
    ],
)
def test_no_text_of_word_is_lost_or_another(within: str, text: str) -> None:
    assert blocks(p(run("Give ") + within + run("."))) == [f"Give {text}."]


def test_text_boxes_and_formulas_of_word_are_not_lost() -> None:
    def box(text: str) -> str:
        return f"<w:txbxContent>{p(text)}{p('Second.')}</w:txbxContent>"

    both = (
        f"<mc:AlternateContent><mc:Choice><w:drawing>{box('First.')}</w:drawing></mc:Choice><mc:Fallback><w:pict>"
        f"<v:textbox>{box('First.')}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent>"
    )
    old = f"<w:pict><v:shape><v:textbox>{box('Old.')}</v:textbox></v:shape></w:pict>"
    formula = "<m:oMath><m:r><m:t>9</m:t></m:r></m:oMath>"
    assert blocks(
        p(run("A.") + f"<w:r>{both}</w:r>") + p(f"<w:r>{old}</w:r>{run('10')}{formula}{run(' mg')}")
    ) == [*("A.", "First.", "Second.", "10 9 mg", "Old.", "Second.")]


def encrypted() -> bytes:
    content = bytearray(word(p("Text.")))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := content.find(signature, at + 1)) >= 0:
            content[at + offset] |= 1
    return bytes(content)


def archive(**parts: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in parts.items():
            file.writestr(f"word/{name}.xml", content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "It is not a DOCX file, or it is damaged"),
        (word(p("Text."))[:-30], "It is not a DOCX file, or it is damaged"),
        (archive(other=b"<a/>"), "It is damaged, or not docx"),
        (archive(document=b"<a>"), "It is not a DOCX file, or it is damaged"),
        (
            archive(document=b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"),
            "It has a document type, as no Office document does.",
        ),
        (word("<w:p>" * 300 + "</w:p>" * 300), "It is not a DOCX file, or it is damaged"),
        (word(p("")), "It has no text."),
        (encrypted(), "It needs a password: save it without one."),
        (
            b"\xd0\xcf\x11\xe0" + bytes(600),
            "It needs a password, or is of Office 97 to 2003: save it as .docx without",
        ),
        (archive(document=bytes(MOST_UNPACKED + 1)), "It would be 33,554,433 bytes unpacked"),
    ],
)
def test_what_is_no_word_document_is_one_clear_reject(content: bytes, reason: str) -> None:
    (entry,) = read_office(io.BytesIO(content), "f/a.docx", format="docx")
    assert isinstance(entry, Reject)
    assert entry.reason.startswith(reason)
