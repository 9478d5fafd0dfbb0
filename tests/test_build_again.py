"""Sources that are given again: which of them are read again, and what the base says then."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import Deletion, Entry, EntrySource
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, counts, passages, record, source

SOURCES: dict[str, tuple[Entry, ...]] = {
    "10 mg": (record("dose", "Give 10 mg."), record("other", "Gout hurts.")),
    "20 mg": (record("dose", "Give 20 mg."),),
    "same": (record("dose", "Give 10 mg."), record("third", "Fever falls.")),
    "deletion": (Deletion("dose"), Deletion("third")),
    "third": (record("third", "Fever rises."), record("other", "Gout hurts.")),
}


def give(folder: Path, *names: str) -> dict[str, bool]:
    """Index some of the sources; which of them were skipped."""
    report = build(folder, *(source(name, *SOURCES[name]) for name in names))
    return {part.name: part.skipped for part in report.sources}


def test_a_source_that_returns_to_its_earlier_content_is_read_again(tmp_path: Path) -> None:
    one, two = record("dose", "Give 10 mg."), record("dose", "Give 20 mg.")
    for entry in (one, two, one):
        content = str(entry.page_content)
        build(tmp_path, EntrySource([entry], name="doses", fingerprint=content))
        assert passages(tmp_path) == {"dose": content}


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(sorted(SOURCES)), min_size=1, max_size=3), min_size=1, max_size=5
    )
)
def test_each_source_counts_when_it_is_first_given(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("kb")
    model: dict[str, str] = {}
    read: set[str] = set()
    for names in runs:
        for name in names:
            for entry in SOURCES[name] if name not in read else ():
                if isinstance(entry, Deletion):
                    model.pop(entry.source_id, None)
                elif isinstance(entry, Document):
                    model[str(entry.id)] = entry.page_content
            read.add(name)
        give(folder, *names)
    assert passages(folder) == model


def index(kb: Path, *paths: Path) -> BuildReport:
    return build_knowledge_base(open_sources(paths), kb, encoder=HashingEncoder())


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def texts(kb: Path) -> dict[str, str]:
    return {id.partition("#")[0]: text for id, text in passages(kb).items()}


def test_another_file_of_the_same_name_does_not_replace_a_document(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    one = write(tmp_path / "t1" / "docs" / "protocol.txt", "Trial one.")
    two = write(tmp_path / "t2" / "docs" / "protocol.txt", "Trial two.")
    index(kb, one)
    for path in (two, two.parent):
        with pytest.raises(KnowledgeBaseError, match="would replace") as raised:
            index(kb, path)
        assert str(tmp_path / "t2") in str(raised.value)
    assert texts(kb) == {"docs/protocol.txt": "Trial one."}
    index(kb, tmp_path / "t2")
    assert texts(kb) == {"docs/protocol.txt": "Trial one.", "t2/docs/protocol.txt": "Trial two."}
    sources: list[Any] = [*open_sources(one), *open_sources(two)]
    with pytest.raises(KnowledgeBaseError, match="would replace"):
        build_knowledge_base(sources, tmp_path / "new", encoder=HashingEncoder())


def test_a_file_that_changed_updates_its_document_also_when_it_was_moved(tmp_path: Path) -> None:
    kb, path = tmp_path / "kb", write(tmp_path / "a" / "docs" / "protocol.txt", "Version one.")
    index(kb, path)
    path.write_text("Version two.")
    assert index(kb, path).counts == counts(updated=1)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    path.write_text("Version three.")
    assert index(kb, link / "docs" / "protocol.txt").counts == counts(updated=1)
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = tmp_path / "b" / "docs" / "protocol.txt"
    moved.write_text("Version four.")
    assert index(kb, moved).counts == counts(updated=1)
    assert texts(kb) == {"docs/protocol.txt": "Version four."}
