"""`briefcontext kb` and `index --sync`: what a base holds, and taking documents out of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from briefcontext.knowledge.knowledge_base import KnowledgeBase
from tests.command_line import Run, command_line
from tests.hashing_encoder import HashingEncoder

Index = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> Index:
    """Index paths into the base `kb` with an encoder that needs no weights."""
    monkeypatch.setattr(
        "briefcontext.knowledge.load_encoder", lambda name: HashingEncoder(name=name)
    )

    def of(*arguments: str | Path) -> str:
        code, out, err = run(
            "index", *map(str, arguments), "--kb", str(tmp_path / "kb"), "--encoder", "minilm"
        )
        assert code == 0
        assert all("% " in line and "passages/s" in line for line in err.splitlines())
        return out

    return of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two texts and a file of two records."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "gout.md").write_text("# Gout\n\nColchicine helps.")
    (notes / "flu.txt").write_text("Oseltamivir shortens influenza.")
    (notes / "more.jsonl").write_text(
        '{"id": "r1", "text": "Honey soothes."}\n{"id": "r2", "text": "Zinc helps."}\n'
    )
    return notes


def held(tmp_path: Path) -> list[str]:
    with KnowledgeBase.open(tmp_path / "kb") as base:
        return [document["source_id"] for document in base.documents()]


def test_list_shows_each_document_once(
    run: Run, index: Index, folder: Path, tmp_path: Path
) -> None:
    index(folder)
    code, out, _ = run("kb", "list", str(tmp_path / "kb"))
    assert code == 0
    assert out.splitlines() == [
        "notes/flu.txt flu  (text, 1 passage)",
        "notes/gout.md Gout  (markdown, 1 passage)",
        "r1  (passage, 1 passage)",
        "r2  (passage, 1 passage)",
    ]
    _, out, _ = run("kb", "list", str(tmp_path / "kb"), "--json")
    assert json.loads(out)[1] == {
        "source_id": "notes/gout.md",
        "title": "Gout",
        "kind": "markdown",
        "year": None,
        "passages": 1,
    }


def test_removed_documents_return_when_indexed_again(
    run: Run, index: Index, folder: Path, tmp_path: Path
) -> None:
    index(folder)
    kb = str(tmp_path / "kb")
    code, out, _ = run("kb", "remove", kb, "notes/flu.txt", "r1")
    assert (code, out) == (0, f"2 removed; {kb} holds 2 passages.\n")
    assert held(tmp_path) == ["notes/gout.md", "r2"]
    with KnowledgeBase.open(kb, encoder=HashingEncoder(name="minilm")) as base:
        assert base.search_terms("oseltamivir", 3) == []
        assert base.verify() == []
    index(folder)
    assert held(tmp_path) == ["notes/flu.txt", "notes/gout.md", "r1", "r2"]
    assert "indexed before" in index(folder)


def test_sync_removes_only_records_of_deleted_files(
    index: Index, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept.txt").write_text("Insulin lowers glucose.")
    (other / "r1.jsonl").write_text('{"id": "r1", "text": "Honey soothes."}\n')
    index(folder, other)
    (other / "kept.txt").unlink()
    (folder / "flu.txt").unlink()
    (folder / "more.jsonl").write_text(
        '{"id": "r2", "text": "Zinc helps."}\n{"id": "r3", "text": "Rest helps."}\n'
    )
    everything = ["notes/flu.txt", "notes/gout.md", "other/kept.txt", "r1", "r2", "r3"]
    stay = "in no file any more: 1 record. --sync"
    assert stay in index(folder)
    assert held(tmp_path) == everything
    out = index(folder, "--sync")
    assert "stay in the base" not in out
    assert "Removed 1 record of files that are gone." in out
    assert held(tmp_path) == [id for id in everything if id != "notes/flu.txt"]
    assert "Removed" not in index(folder, "--sync")
