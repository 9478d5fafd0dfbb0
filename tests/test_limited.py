"""Files that take more time or memory than they may."""

import time
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import psutil
import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.limited import AVAILABLE, ReadLimits
from briefcontext.knowledge.sources.source import WHOLE_FILE, Entry, Reject
from tests.test_document_laws import relations

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no limits of a process")
LIMITS = ReadLimits(seconds=2.0, gigabytes=0.3)
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CITATION = (
    "<PubmedArticle><MedlineCitation><PMID>{}</PMID><Article><ArticleTitle>On toys.</ArticleTitle>"
    "<Abstract>{}</Abstract></Article></MedlineCitation></PubmedArticle>"
)


def word_bomb() -> bytes:
    """A small file of very many paragraphs."""
    stream = BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED) as parts:
        body = "<w:p/>" * 10_000_000
        document = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
        parts.writestr("word/document.xml", document)
        parts.writestr("_rels/.rels", relations(officeDocument="word/document.xml"))
    return stream.getvalue()


def html_bomb() -> bytes:
    """A tag of very many attributes."""
    attributes = " ".join(f"a{number}='x'" for number in range(300_000))
    return f"<html><body><p {attributes}>A text.</p></body></html>".encode()


def pdf_bomb() -> bytes:
    """A page whose content is large when it is unpacked."""
    content = zlib.compress(b"BT /F1 12 Tf 10 10 Td (x) Tj ET\n" * 3_000_000, 9)
    length = b"<</Length %d/Filter/FlateDecode>>" % len(content)
    page = b"/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R%b>>" % page,
        b"%b stream\n%b\nendstream" % (length, content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    written = b"%PDF-1.7\n"
    for number, item in enumerate(objects, start=1):
        written += b"%d 0 obj %b endobj\n" % (number, item)
    return written + b"trailer <</Size 6/Root 1 0 R>>\n%%EOF"


def pubmed_bomb() -> bytes:
    """A record of very many elements, after one that can be read."""
    parts = "<AbstractText Label='x'>x</AbstractText>" * 3_000_000
    records = CITATION.format(1, "") + CITATION.format(2, parts)
    return f"<PubmedArticleSet>{records}</PubmedArticleSet>".encode()


BOMBS: dict[str, Callable[[], bytes]] = {
    "a.docx": word_bomb,
    "a.html": html_bomb,
    "a.pdf": pdf_bomb,
    "a.xml": pubmed_bomb,
}


def entries(path: Path, limits: ReadLimits = LIMITS) -> list[Entry]:
    [source] = open_sources(path, limits=limits)
    return list(source.entries())


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_reject_in_time(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    began = time.monotonic()
    last = entries(path)[-1]
    assert isinstance(last, Reject)
    assert "more" in last.reason
    assert time.monotonic() - began < 10


def test_records_before_a_bomb_and_files_after_it_are_read(tmp_path: Path) -> None:
    bomb, note = tmp_path / "a.xml", tmp_path / "note.txt"
    bomb.write_bytes(pubmed_bomb())
    note.write_text("The toy drug lowered the toy score.")
    first, reject = entries(bomb)
    assert isinstance(first, Document)
    assert isinstance(reject, Reject)
    assert (first.id, reject.position) == ("1", "after record 1")
    assert "--max-memory" in reject.reason
    [document] = entries(note)
    assert isinstance(document, Document)


def test_a_reader_that_takes_no_entry_is_ended_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(html_bomb())
    [reject] = entries(path, ReadLimits(seconds=0.5))
    assert isinstance(reject, Reject)
    assert reject.position == WHOLE_FILE
    assert "0.5 seconds" in reject.reason


def test_higher_limits_read_a_rejected_file_again(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("A text.")
    [usual], [raised] = open_sources(path), open_sources(path, limits=ReadLimits(gigabytes=4))
    assert usual.fingerprint != raised.fingerprint


def test_a_reader_that_is_left_early_ends(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"id": "{n}", "text": "Text."}}\n' for n in range(20_000)))
    [source] = open_sources(path)
    reading = iter(source.entries())
    assert isinstance(next(reading), Document)
    reading.close()  # type: ignore[attr-defined]
    assert len(entries(path)) == 20_000


def test_a_process_that_was_killed_while_it_waited_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("A text.")
    entries(path)
    for child in psutil.Process().children():
        if "limited" in str(child.cmdline()):
            child.kill()
            psutil.wait_procs([child], timeout=10)
    [document] = entries(path)
    assert isinstance(document, Document)
