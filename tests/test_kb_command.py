"""`briefcontext kb` and `index --sync`: what a base holds, and taking documents out of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import EntrySource
from tests.command_line import Run, command_line
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, failing, record, source

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
        "source_id": "notes/gout.md", "title": "Gout", "kind": "markdown", "year": None, "passages": 1
    }  # fmt: skip


def test_what_is_removed_is_found_no_more_and_comes_back_when_its_file_is_indexed_again(
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


def test_the_bundled_base_stays_as_it_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("kb", "remove", "demo", "demo-1")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "bundled" in err


def test_of_several_ids_none_is_removed_when_one_is_not_held(
    run: Run, index: Index, folder: Path, tmp_path: Path
) -> None:
    index(folder)
    code, _, err = run("kb", "remove", str(tmp_path / "kb"), "r1", "r9")
    assert code == 2
    assert "no document 'r9'" in err
    assert "briefcontext kb list" in err
    assert "r1" in held(tmp_path)


def test_a_file_keeps_its_id_whichever_folder_above_it_is_named(
    index: Index, folder: Path, tmp_path: Path
) -> None:
    inner = folder / "old"
    inner.mkdir()
    for path in (folder / "flu.txt", inner / "flu.txt"):
        path.write_text("Oseltamivir shortens influenza.")
    index(inner)
    index(folder)
    ids = ["notes/flu.txt", "notes/gout.md", "old/flu.txt", "r1", "r2"]
    assert held(tmp_path) == ids
    for given in (folder, inner, inner / "flu.txt", tmp_path / "**" / "*.txt"):
        assert "0 records read" in index(given)
        assert held(tmp_path) == ids
    (inner / "flu.txt").write_text("Oseltamivir shortens influenza by a day.")
    assert "1 record read = 0 indexed + 1 updated" in index(folder)
    assert "Removed" not in index(inner, "--sync")
    assert held(tmp_path) == ids


def test_sync_takes_out_what_files_of_the_folder_gave_that_are_gone_and_nothing_else(
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
    stay = "1 record of files that are gone, or no longer hold them, remain in the base: --sync removes them."
    assert stay in index(folder)
    assert held(tmp_path) == everything
    out = index(folder, "--sync")
    assert "stay in the base" not in out
    assert "Removed 1 record of files that are gone." in out
    assert held(tmp_path) == [id for id in everything if id != "notes/flu.txt"]
    assert "Removed" not in index(folder, "--sync")


def test_sync_keeps_what_another_file_of_the_folder_still_has(
    index: Index, folder: Path, tmp_path: Path
) -> None:
    (folder / "zz.jsonl").write_text('{"id": "r1", "text": "Honey soothes."}\n')
    index(folder)
    (folder / "zz.jsonl").unlink()
    index(folder, "--sync")
    assert "r1" in held(tmp_path)
    (folder / "more.jsonl").unlink()
    index(folder, "--sync")
    assert held(tmp_path) == ["notes/flu.txt", "notes/gout.md"]


def test_a_file_that_cannot_be_read_is_told_as_skipped_and_never_as_indexed(
    run: Run, index: Index, folder: Path, tmp_path: Path
) -> None:
    (folder / "scan.bin").write_bytes(b"\0")
    skipped = f"skipped {folder}/scan.bin: its kind is not known"
    assert {skipped, f"Why records were rejected: {tmp_path}/kb/rejects.jsonl"} <= set(
        index(folder).splitlines()
    )
    again = index(folder)
    assert skipped in again
    assert "scan.bin: indexed before" not in again
    assert "Why records were rejected" not in again
    run("kb", "remove", str(tmp_path / "kb"), "r1")
    told = run("kb", "info", str(tmp_path / "kb"))[1].splitlines()
    assert told[-3:] == [
        f"  {folder}/more.jsonl: 2 indexed",
        f"  {folder}/scan.bin: 1 rejected",
        "  kb remove: 1 deleted",
    ]


def test_info_works_on_a_base_whose_first_build_was_stopped(run: Run, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="disk"):
        build(tmp_path / "kb", source("a", record("1")), source("b", *[record("2")]), source("c"),
              EntrySource(failing([record("3")]), name="d", fingerprint="sha256:d"))  # fmt: skip
    code, out, _ = run("kb", "info", str(tmp_path / "kb"))
    assert code == 0
    assert "state: half-built" in out
    assert "run the same index command again" in out


def test_search_prints_text_section_and_source(
    run: Run, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    guide = tmp_path / "guide.md"
    guide.write_text(
        "# Cough in adults\n\n## Honey\n\nHoney soothes a cough.\nIt is safe in adults.\n"
    )
    index(guide)
    code, out, _ = run("kb", "search", str(tmp_path / "kb"), "honey cough", "--method", "bm25")
    assert code == 0
    heading, text = out.splitlines()
    assert heading.split(" · ")[:2] == ["- 1. Cough in adults", "Cough in adults"]
    assert "Honey soothes a cough. It is safe in adults." in text
    assert run("kb", "search", str(tmp_path / "kb"), " ")[0] == 2
    assert (
        "LivePubMed('medcpt') has no index of words"
        in run("kb", "search", "pubmed:", "honey", "--method", "bm25")[2]
    )
