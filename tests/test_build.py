"""Builds of a knowledge base: input, report, refusals, and repeated sources."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext.errors import BriefContextError, KnowledgeBaseError
from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import Deletion, Entry, EntrySource
from briefcontext.knowledge.store.place import open_place
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, counts, passages, record, source


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time of writing and content of the files that make up a base, by name."""
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_records_become_passages_with_all_that_they_carry(tmp_path: Path) -> None:
    report = build(
        tmp_path, source("a", record("1", year=2001, retracted=True), record("2", "Gout hurts."))
    )
    assert report.counts == counts(indexed=2)
    assert (report.passages, report.rejects_file) == (2, None)
    with KnowledgeBase.open(tmp_path) as base:
        assert base.get(["2", "1"]) == [
            Document(
                id="2", page_content="Gout hurts.", metadata={"source_id": "2", "title": "On 2"}
            ),
            record("1", year=2001, retracted=True),
        ]
        assert base.manifest.retracted == 1


@pytest.mark.parametrize(
    ("given", "held"),
    [
        *(
            ({"title": title}, {"retracted": True})
            for title in (
                "RETRACTED: Bees",
                "[RETRACTED] Bees",
                "Bees (Retracted)",
                "RETRACTED - Bees",
                "Withdrawn: A",
            )
        ),
        ({"title": "Retracted tendons in bees"}, {}),
        ({"title": "RETRACTED: Bees", "retraction_notice": True}, {"retraction_notice": True}),
        (
            {"retracted": "False", "corrected": "no", "expression_of_concern": "True"},
            {"retracted": False, "corrected": False, "expression_of_concern": True},
        ),
        (
            {
                "publication_types": ["Letter", "Retracted Publication"],
                "authors": ["Doe, B", "Roe, C"],
            },
            {
                "publication_types": "Letter; Retracted Publication",
                "authors": "Doe, B; Roe, C",
                "retracted": True,
            },
        ),
    ],
)
def test_retractions_are_read_from_titles_flags_and_types(
    given: dict[str, Any], held: dict[str, Any], tmp_path: Path
) -> None:
    document = Document("Bees hum.", id="1", metadata=given)
    build_knowledge_base([document], tmp_path, encoder=HashingEncoder())
    with KnowledgeBase.open(tmp_path) as base:
        (kept,) = base.get(["1"])
        assert {
            name: value
            for name, value in kept.metadata.items()
            if name not in ("title", "source_id")
        } == held
        assert base.manifest.retracted == held.get("retracted", False)


def test_identical_records_are_unchanged_and_not_encoded_again(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1"), record("2")))
    encoder = HashingEncoder()
    report = build(tmp_path, source("b", record("2"), record("3"), record("1")), encoder=encoder)
    assert report.counts == counts(unchanged=2, indexed=1)
    assert encoder.encoded == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": HashingEncoder(name="other")}, "'hashing'"),
        ({"chunk_tokens": 64}, "chunk tokens"),
    ],
)
def test_a_base_is_not_updated_with_other_options(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    build(tmp_path, source("a", record("1")))
    before = files(tmp_path)
    with pytest.raises(KnowledgeBaseError, match="was built with") as raised:
        build(tmp_path, source("b", record("2")), **options)
    assert message in str(raised.value)
    assert files(tmp_path) == before


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("Years of work.")
    with pytest.raises(KnowledgeBaseError, match="thesis"):
        build(tmp_path, source("a", record("1")))
    with pytest.raises(KnowledgeBaseError, match="is a file"):
        build(tmp_path / "thesis.txt", source("a", record("1")))
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_one_build_at_a_time(tmp_path: Path) -> None:
    with open_place(tmp_path).lock(), pytest.raises(KnowledgeBaseError, match="by another process"):
        build(tmp_path, source("a", record("1")))
    build(tmp_path, source("a", record("1")))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"encoder": DeterministicFakeEmbedding(size=8)}, "EmbeddingsEncoder"),
        ({"sources": [5]}, "open_sources"),
        ({"path": "demo"}, "bundled"),
    ],
)
def test_a_base_is_built_of_what_can_be_used(
    given: dict[str, Any], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"sources": [record("1")], "path": "kb", "encoder": HashingEncoder(name="minilm")}
    with pytest.raises(BriefContextError, match=complaint):
        build_knowledge_base(**{**usual, **given})
    assert list(tmp_path.iterdir()) == []


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


def test_another_file_of_the_same_name_replaces_no_document(tmp_path: Path) -> None:
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
