"""Damaged and hostile files are rejected within limits of time and memory."""

import io
import resource
import time
import zipfile
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
from briefcontext.knowledge.sources.source import Entry, Reject
from tests.test_document_laws import relations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AVAILABLE, reason="this system has no limits of a process"),
]
KILOBYTES = 1_000_000
"""Limit of the memory of a child process."""
DEEP = 1000


def archive(**parts: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in parts.items():
            file.writestr(name.replace("_in_", "/").replace("__", "."), content)
    return stream.getvalue()


def nested(tag: str) -> bytes:
    return f"<{tag}>".encode() * DEEP + b"5 mg" + f"</{tag}>".encode() * DEEP


BOMB = bytes(200 * 1024**2)
JATS = b"<article><front><article-meta><article-id>1</article-id></article-meta></front><body>"
FILES: dict[str, Callable[[], bytes]] = {
    "bomb.docx": lambda: archive(word_in_document__xml=BOMB),
    "truncated.docx": lambda: archive(word_in_document__xml=b"<a/>")[:-30],
    "page.epub": lambda: b"<html><body><p>5 mg</p></body></html>",
    "nested.html": lambda: nested("div"),
    "tables.html": lambda: b"<table><tr><td>" * DEEP + b"5 mg",
    "lists.md": lambda: b"> " * DEEP + b"5 mg",
    "nested.nxml": lambda: JATS + nested("sec") + b"</body></article>",
    "bytes.rtf": lambda: bytes(range(256)) * 100,
    "entities.docx": lambda: archive(
        word_in_document__xml=b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_a_reject_in_bounded_memory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name]())
    # A child counts as large as this process until it runs its own program.
    users = (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)
    before = max(resource.getrusage(user).ru_maxrss for user in users)
    (source,) = open_sources([tmp_path / name])
    (entry,) = source.entries()
    assert isinstance(entry, Reject), entry
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert after <= max(before, KILOBYTES)


def test_a_harmless_depth_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(b"<div>" * 100 + b"5 mg")
    (source,) = open_sources([tmp_path / "a.html"])
    (entry,) = source.entries()
    assert isinstance(entry, Document)
    assert entry.page_content == "5 mg"


def test_a_spanning_cell_is_written_once(tmp_path: Path) -> None:
    cells = f"<tr><th>a<th>b<tr><td colspan=1000>{'long ' * 100_000}<td>c"
    (tmp_path / "a.html").write_text(f"<table>{cells}</table>", encoding="utf-8")
    (source,) = open_sources([tmp_path / "a.html"])
    (entry,) = source.entries()
    assert isinstance(entry, Document)
    assert len(entry.page_content) < 1_000_000


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
