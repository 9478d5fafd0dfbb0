"""Word documents: their text is read, and struck-out text is not."""

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
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)
STYLES = (
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:basedOn w:val="berschrift2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Old"><w:rPr><w:strike/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Gone"><w:rPr><w:strike/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>'
    '<w:style w:type="character" w:styleId="Up"><w:rPr><w:vertAlign '
    'w:val="superscript"/></w:rPr></w:style>'
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


@pytest.mark.parametrize(
    "gone",
    [
        *(run("10 ", f"<w:{name}/>") for name in ("strike", "dstrike", "vanish")),
        run("10 ", '<w:rStyle w:val="Gone"/>'),
        "<w:del><w:r><w:delText>10 </w:delText></w:r></w:del>",
    ],
)
def test_struck_deleted_and_hidden_text_is_left_out(gone: str) -> None:
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
        (word(p("Text."))[:-30], "It is not a DOCX file, or it is damaged"),
        (archive(other=b"<a/>"), "It is damaged, or not docx"),
        (
            archive(document=b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"),
            "It has a document type, as no Office document does.",
        ),
        (encrypted(), "It needs a password: save it without one."),
        (
            b"\xd0\xcf\x11\xe0" + bytes(600),
            "It needs a password, or is of Office 97 to 2003: save it as .docx without",
        ),
        (archive(document=bytes(MOST_UNPACKED + 1)), "It would be 33,554,433 bytes unpacked"),
    ],
)
def test_a_damaged_word_document_is_rejected(content: bytes, reason: str) -> None:
    (entry,) = read_office(io.BytesIO(content), "f/a.docx", format="docx")
    assert isinstance(entry, Reject)
    assert entry.reason.startswith(reason)
