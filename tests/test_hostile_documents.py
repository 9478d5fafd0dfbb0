"""Files that are damaged or made to do harm are rejects, soon and within bounded memory."""

import io
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import Reject

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
    "bomb.odt": lambda: archive(content__xml=BOMB),
    "bomb.epub": lambda: archive(a__xhtml=BOMB),
    "bomb.pptx": lambda: archive(ppt_in_presentation__xml=BOMB),
    "truncated.docx": lambda: archive(word_in_document__xml=b"<a/>")[:-30],
    "truncated.odt": lambda: archive(content__xml=b"<a/>")[:-30],
    "page.docx": lambda: b"<html><body><p>5 mg</p></body></html>",
    "page.epub": lambda: b"<html><body><p>5 mg</p></body></html>",
    "word.odt": lambda: archive(word_in_document__xml=b"<a/>"),
    "odt.pptx": lambda: archive(content__xml=b"<a/>"),
    "nested.html": lambda: nested("div"),
    "spans.html": lambda: b"<p>" + nested("b") + b"</p>",
    "tables.html": lambda: b"<table><tr><td>" * DEEP + b"5 mg",
    "lists.md": lambda: b"> " * DEEP + b"5 mg",
    "nested.nxml": lambda: JATS + nested("sec") + b"</body></article>",
    "nested.docx": lambda: archive(word_in_document__xml=nested("w")),
    "latex.tex": lambda: b"{" * 20 * DEEP + b"5 mg",
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


def test_a_long_cell_is_written_once(tmp_path: Path) -> None:
    cells = f"<tr><th>a<th>b<tr><td colspan=1000>{'long ' * 100_000}<td>c"
    (tmp_path / "a.html").write_text(f"<table>{cells}</table>", encoding="utf-8")
    (source,) = open_sources([tmp_path / "a.html"])
    (entry,) = source.entries()
    assert isinstance(entry, Document)
    assert len(entry.page_content) < 1_000_000
