import io
import sys
from pathlib import Path

import pytest
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError, MissingExtraError
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.pdf import read_pdf
from briefcontext.knowledge.sources.records import Entry, Reject

pypdf = pytest.importorskip("pypdf")


def pdf(*pages: str, title: str = "", password: str | None = None, algorithm: str = "RC4-128") -> bytes:
    """A PDF with a line of text on each page, in Helvetica; "" is a page without text."""
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
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = content
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, "owner", algorithm=algorithm)
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def read(content: bytes) -> list[Entry]:
    return list(read_pdf(io.BytesIO(content), "guidelines/asthma.pdf"))


def test_pages_are_parted_by_form_feeds() -> None:
    (entry,) = read(pdf("First page.", "", "Third page."))
    assert entry == Document(
        id="guidelines/asthma.pdf",
        page_content="First page.\f\fThird page.",
        metadata={
            "source_id": "guidelines/asthma.pdf",
            "title": "asthma",
            "kind": "pdf",
            "chunk_index": 0,
            "start": 0,
            "end": 24,
            "pages": 3,
            "pages_without_text": 1,
        },
    )


def test_the_title_is_the_one_that_the_file_says_it_has() -> None:
    (entry,) = read(pdf("A page.", title="  Asthma in\nadults "))
    assert isinstance(entry, Document)
    assert entry.metadata["title"] == "Asthma in adults"
    assert "pages_without_text" not in entry.metadata


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_a_file_that_only_forbids_changes_is_read(algorithm: str) -> None:
    if algorithm != "RC4-128":
        pytest.importorskip("cryptography")
    (entry,) = read(pdf("A page.", password="", algorithm=algorithm))
    assert isinstance(entry, Document)
    assert entry.page_content == "A page."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pdf("A page.", password="secret"), "It needs a password: save a copy that does not."),
        (pdf("", ""), "None of its 2 pages has text, as in a scan: run text recognition (OCR) over it first."),
        (b"not a PDF", "The PDF cannot be read: "),
        (b"", "The PDF cannot be read: "),
        (pdf("A page.")[:200], "The PDF cannot be read: "),
    ],
    ids=["password", "scan", "something else", "empty", "cut off"],
)
def test_a_file_without_text_that_can_be_read_is_rejected_with_a_way_out(content: bytes, reason: str) -> None:
    (entry,) = read(content)
    assert isinstance(entry, Reject)
    assert entry.position == "the whole file"
    assert entry.reason.startswith(reason)


def test_a_page_that_cannot_be_read_is_told_and_the_others_are_kept() -> None:
    broken = pdf("First page.", "Second page.").replace(b"(Second page.) Tj", b"(Second page.  Tj")
    document, *rejects = read(broken)
    assert isinstance(document, Document)
    assert document.page_content.startswith("First page.\f")
    assert [reject.position for reject in rejects if isinstance(reject, Reject)] == ["page 2"]
    assert document.metadata["pages_without_text"] == 1
    (only,) = read(pdf("One page.").replace(b"(One page.) Tj", b"(One page.  Tj"))
    assert isinstance(only, Reject)
    assert only.reason.startswith("None of its 1 pages can be read, the first because: The PDF cannot be read: ")


def test_without_the_extra_a_pdf_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("A page."))
    (tmp_path / "b.txt").write_bytes(b"A text.")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'briefcontext\[pdf\]'"):
        open_sources([tmp_path / "a.pdf"])
    sources = open_sources([tmp_path])
    assert [Path(source.name).name for source in sources] == ["b.txt"]
    assert "pip install 'briefcontext[pdf]'" in sources.skipped[0].reason
    with pytest.raises(KnowledgeBaseError, match="pip install"):
        open_sources([tmp_path], format="pdf")
