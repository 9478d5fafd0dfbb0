"""LangChain's document loaders, and files of unknown kinds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from briefcontext.errors import InputError, MissingExtraError
from briefcontext.knowledge import KnowledgeBase, LoaderSource, open_sources
from tests.command_line import Run, command_line


class Given(BaseLoader):
    """Loads what it is given."""

    def __init__(self, *documents: Document) -> None:
        self._documents = documents

    def lazy_load(self) -> Iterator[Document]:
        yield from self._documents


class Lines(BaseLoader):
    """Loads a file with a page on each line."""

    def __init__(self, path: str) -> None:
        self._path = path

    def lazy_load(self) -> Iterator[Document]:
        for page, line in enumerate(Path(self._path).read_text().splitlines()):
            if line == "broken":
                raise ValueError("The page is broken.")
            yield Document(line, metadata={"source": self._path, "page": page, "title": "Lines"})


def loaded(*documents: Document) -> list[Any]:
    return list(LoaderSource(Given(*documents)).entries())


def test_pages_of_a_file_are_one_document_and_keep_their_numbers() -> None:
    pages = [
        Document(text, metadata={"source": "a", "page": n})
        for n, text in enumerate(["One.", " ", "Three."])
    ]
    [document] = loaded(*pages)
    assert (document.id, document.page_content) == ("a", "One.\n\nThree.")
    assert json.loads(document.metadata["page_starts"]) == [[0, 1], [6, 3]]
    assert document.metadata["kind"] == "pdf"


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        ("nowhere.loaders:X", MissingExtraError, "briefcontext\\[loaders\\]"),
        ("json:JSONDecoder", InputError, "module:Class"),
        ("PyMuPDFLoader", InputError, "module:Class"),
        (f"{__name__}:Nobody", InputError, "module:Class"),
    ],
)
def test_a_bad_loader_is_refused(
    named: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.docx").write_bytes(b"x")
    with pytest.raises(error, match=message):
        open_sources(tmp_path, loader=named)
    with pytest.raises(InputError, match="no loader"):
        open_sources(tmp_path, loader_arguments={"mode": "single"})
    with pytest.raises(InputError, match="leave out"):
        open_sources(tmp_path, loader=named, format="text")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys)


@pytest.mark.slow
def test_skipped_files_are_reported_and_a_loader_reads_them(run: Run, tmp_path: Path) -> None:
    folder, kb = tmp_path / "papers", tmp_path / "kb"
    folder.mkdir()
    (folder / "a.txt").write_text("Honey soothes a cough.")
    (folder / "b.xlsx").write_bytes(b"PK")
    (folder / "c.odd").write_text("Zinc shortens colds.\nBy a day.")
    index = ["index", "--kb", str(kb), "--encoder", "minilm"]
    code, out, _ = run(*index, str(folder))
    assert code == 0
    assert "3 records read = 1 indexed + 0 updated + 0 unchanged + 0 deleted + 2 rejected" in out
    assert "--loader langchain_community.document_loaders:UnstructuredExcelLoader" in out
    rejects = [json.loads(line) for line in (kb / "rejects.jsonl").read_text().splitlines()]
    assert [Path(reject["source"]).name for reject in rejects] == ["b.xlsx", "c.odd"]
    assert rejects[1]["reason"] == "It was skipped: its kind is not known."
    code, out, _ = run(*index, str(folder))
    assert "0 records read" in out
    assert len((kb / "rejects.jsonl").read_text().splitlines()) == 2
    code, out, _ = run(*index, str(folder / "*.odd"), "--loader", f"{__name__}:Lines")
    assert code == 0
    with KnowledgeBase.open(kb) as base:
        assert base.source("papers/c.odd")[0].page_content == "Zinc shortens colds.\n\nBy a day."
