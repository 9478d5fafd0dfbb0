import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.documents import Document

from briefcontext.chains.citation import assign_keys, cite, number_citations
from briefcontext.chains.reader import Quote
from briefcontext.knowledge.chunking import chunk_document
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.pdf import read_pdf
from briefcontext.knowledge.sources.source import Entry, Reject
from tests.hashing_encoder import HashingEncoder

pypdf = pytest.importorskip("pypdf")
pytest.importorskip("pypdfium2", reason="the pdf extra is not installed")

ARTICLE = (
    """@20 290
Journal of Examples 2011, 11:5
@20 260
Adverse events
@20 240
Of the patients under treatment, 58.1 percent
had an adverse event at week 14; none was se-
vere. A follow-up of a year was planned for all
of them.
@30 180
Placebo was given to 42. Their follow-
@150 10
101""",
    """@20 290
Journal of Examples 2011, 11:5
@20 260
up was shorter than that of the others and went
on for a quarter.
@150 10
102""",
)
EVENT = (
    "Of the patients under treatment, 58.1 percent had an adverse event at week 14; none was "
    "severe."
)
TEXT = f"""Adverse events

{EVENT} A follow-up of a year was planned for all of them.

Placebo was given to 42. Their follow-up was shorter than that of the others and went on \
for a quarter."""


def pdf(
    *pages: str, title: str = "", password: str | None = None, algorithm: str = "RC4-128"
) -> bytes:
    """Make a PDF of lines in Helvetica; "" is an empty page, "@20 280" a place, <9> raised."""
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        content.set_data("".join(map(_drawn, _placed(text))).encode())
        page[NameObject("/Contents")] = writer._add_object(content)
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, "owner", algorithm=algorithm)
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def _placed(text: str) -> Iterator[tuple[str, str]]:
    """Lines with their places, one under another where none is named."""
    x, y = 20, 200
    for line in text.splitlines():
        if line.startswith("@"):
            x, y = map(int, line[1:].split())
        else:
            yield f"{x} {y}", line
            y -= 14


def _drawn(line: tuple[str, str]) -> str:
    place, text = line
    raised = text.replace("<", ") Tj /F1 8 Tf 5 Ts (").replace(">", ") Tj /F1 12 Tf 0 Ts (")
    return f"BT /F1 12 Tf {place} Td ({raised}) Tj ET\n"


def read(content: bytes) -> list[Entry]:
    return list(read_pdf(io.BytesIO(content), "guidelines/asthma.pdf"))


FIELD = Path(__file__).resolve().parents[2] / "shared" / "field"
FIELD_TEXTS = {
    "01-pdf-table-rows/doses.pdf": ("\n4.5 2\n9.5 4\n14.5 6\n19.5 8\n24.5 10",),
    "02-pdf-arrows/arrows.pdf": (
        *("acidosis: serum potassium ↑ ", "Alkalosis: serum potassium ↓ "),
        *("Insulin: serum potassium ↓ ", "Salbutamol: dose ↑ ", "Loop diuretic: potassium ↓ "),
    ),
    **dict.fromkeys(
        ("16-two-columns/rows.pdf", "16-two-columns/columns.pdf"),
        (
            "is given to adults in a dose of 500 mg every 8 hours.",
            "Children are given 10 mg per kilogram every 12",
        ),
    ),
    "17-pdf-form/order.pdf": (
        *("Dose in mg: 500\n", "Interval in hours: 8\n", "Do not give in: pregnancy\n"),
        "Renal impairment, do not give ☒",
    ),
    "29-pdf-lost-signs/dose.pdf": ("100 □g once", "are □ 50", "p □ 0.05"),
    **dict.fromkeys(
        ("30-pdf-scaled-text/plain.pdf", "30-pdf-scaled-text/scaled.pdf"),
        ("50 × 10^9/L", "20 × 10^9/L, as thrombocytopenia", "with heparin", "from 10^7 to 10^3"),
    ),
}  # fmt: skip


@pytest.mark.skipif(not FIELD.is_dir(), reason="the field inputs are not there")
@pytest.mark.parametrize("name", FIELD_TEXTS)
def test_field_files_are_read_right(name: str) -> None:
    (entry,) = read((FIELD / name).read_bytes())
    assert isinstance(entry, Document)
    places = [entry.page_content.find(text) for text in FIELD_TEXTS[name]]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.skipif(not FIELD.is_dir(), reason="the field inputs are not there")
def test_a_text_layer_that_is_not_language_is_rejected() -> None:
    (entry,) = read((FIELD / "20-garbled/shifted.pdf").read_bytes())
    assert isinstance(entry, Reject)
    assert "OCR" in entry.reason


def test_a_file_is_one_document_that_knows_its_pages() -> None:
    (entry,) = read(pdf("First page.", "", "Third page."))
    assert entry == Document(
        id="guidelines/asthma.pdf",
        page_content="First page.\n\nThird page.",
        metadata={
            "source_id": "guidelines/asthma.pdf",
            "title": "asthma",
            "kind": "pdf",
            "chunk_index": 0,
            "start": 0,
            "end": 24,
            "page_count": 3,
            "page_starts": "[[0, 1], [13, 3]]",
            "pages_without_text": 1,
        },
    )


def test_lines_are_joined_and_running_heads_left_out() -> None:
    (entry,) = read(pdf(*ARTICLE))
    assert isinstance(entry, Document)
    assert entry.page_content == TEXT
    assert json.loads(entry.metadata["page_starts"]) == [[0, 1], [TEXT.index("up was shorter"), 2]]


def test_a_citation_names_the_page_of_its_quote_and_its_link_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "trial report.pdf"
    path.write_bytes(pdf(*ARTICLE))
    (source,) = open_sources(path)
    (entry,) = source.entries()
    assert isinstance(entry, Document)
    (chunk,) = assign_keys("?", chunk_document(entry, HashingEncoder()))
    pages = {}
    for words in (EVENT, "Placebo was given to 42.", "on for a quarter."):
        start = chunk.page_content.index(words)
        quote = Quote(
            text=words,
            document_id=str(chunk.id),
            start=start,
            end=start + len(words),
            match="exact",
        )
        _, (citation,), _ = number_citations(cite(chunk), [chunk], [quote])
        pages[words] = citation["page"]
        assert citation["url"] == f"{path.as_uri()}#page={citation['page']}"
    assert list(pages.values()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pdf("A page.", password="secret"), "It needs a password: save a copy that does not."),
        (
            pdf("", ""),
            "None of its 2 pages has text, as in a scan: run text recognition (OCR) over it first.",
        ),
        (b"not a PDF", "The PDF cannot be read: "),
        (b"", "The PDF cannot be read: "),
        (pdf("A page.")[:200], "The PDF cannot be read: "),
    ],
    ids=["password", "scan", "something else", "empty", "cut off"],
)
def test_a_file_without_readable_text_is_rejected(content: bytes, reason: str) -> None:
    (entry,) = read(content)
    assert isinstance(entry, Reject)
    assert entry.position == "the whole file"
    assert entry.reason.startswith(reason)


def test_an_unreadable_page_is_rejected_and_the_others_kept() -> None:
    broken = pdf("First page.", "Second page.").replace(b"[ 4 0 R 6 0 R ]", b"[ 4 0 R 9 0 R ]")
    document, *rejects = read(broken)
    assert isinstance(document, Document)
    assert document.page_content.startswith("First page.")
    assert [reject.position for reject in rejects if isinstance(reject, Reject)] == ["page 2"]
    assert document.metadata["pages_without_text"] == 1
    (only,) = read(pdf("One page.").replace(b"[ 4 0 R ]", b"[ 9 0 R ]"))
    assert isinstance(only, Reject)
    assert only.reason.startswith(
        "None of its 1 pages can be read, the first because: The PDF cannot be read: "
    )
