"""Building a knowledge base: what it takes, what it reports, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext.errors import BriefContextError, InputError, KnowledgeBaseError
from briefcontext.knowledge.build import build_knowledge_base, pipeline
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import Entry, Reject
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.place import open_place
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, contents, counts, passages, record, skipped_of, source


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
            for title in ("RETRACTED: Bees", "[RETRACTED] Bees", "Bees (Retracted)", "RETRACTED - Bees", "Withdrawn: A")
        ),
        ({"title": "Retracted tendons in bees"}, {}),
        ({"title": "RETRACTED: Bees", "retraction_notice": True}, {"retraction_notice": True}),
        ({"retracted": "False", "corrected": "no", "expression_of_concern": "True"},
         {"retracted": False, "corrected": False, "expression_of_concern": True}),
        ({"publication_types": ["Letter", "Retracted Publication"], "authors": ["Doe, B", "Roe, C"]},
         {"publication_types": "Letter; Retracted Publication", "authors": "Doe, B; Roe, C", "retracted": True}),
    ],
)  # fmt: skip
def test_what_became_of_an_article_is_told_alike_whatever_tells_of_it(
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


@pytest.mark.parametrize("value", [12.5, "00:12", -1, True, None])
def test_what_a_loader_means_otherwise_is_no_offset(value: object, tmp_path: Path) -> None:
    document = Document(
        "Bees hum.",
        id="1",
        metadata={"start": value, "end": value, "chunk_index": value, "page": 3},
    )
    build_knowledge_base([document], tmp_path, encoder=HashingEncoder())
    with KnowledgeBase.open(tmp_path) as base:
        assert base.get(["1"])[0].metadata == {"source_id": "1", "title": "", "page": 3}


def test_the_same_source_again_changes_nothing(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1"), record("2"), Reject("line 3", "It is broken.")))
    before = files(tmp_path)
    report = build(
        tmp_path, source("a", record("1"), record("2"), Reject("line 3", "It is broken."))
    )
    assert [(part.name, part.skipped) for part in report.sources] == [("a", True)]
    assert report.counts == Counts()
    assert report.passages == 2
    assert files(tmp_path) == before
    assert set(passages(tmp_path)) == {"1", "2"}


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
        ({"encoder": HashingEncoder(revision="2")}, "revision"),
        ({"encoder": HashingEncoder(text_format="text")}, "text_format"),
        ({"chunk_tokens": 64}, "chunk_tokens"),
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


def test_a_source_is_read_little_ahead_of_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "LARGEST_BATCH", pipeline.SMALLEST_BATCH)
    taken = 0
    ahead: list[int] = []

    def entries() -> Iterator[Entry]:
        nonlocal taken
        for taken in range(1, 6001):
            yield record(str(taken))

    build_knowledge_base(
        entries(),
        tmp_path,
        encoder=HashingEncoder(dimension=4),
        progress=lambda part: ahead.append(taken - part.vectors),
    )
    assert max(ahead) <= 2 * pipeline.LARGEST_BATCH / 1000
    assert taken == 6000


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"encoder": "sideways"}, "sideways"),
        ({"encoder": DeterministicFakeEmbedding(size=8)}, "EmbeddingsEncoder"),
        ({"sources": ["papers.txt"]}, "papers.txt"),
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


PUBMED = Path(__file__).resolve().parents[2] / "shared" / "data" / "pubmed_xml"


@pytest.mark.skipif(not PUBMED.is_dir(), reason="the shared PubMed files are not there")
def test_pubmed_files_add_up(tmp_path: Path) -> None:
    sources = open_sources(PUBMED)
    report = build_knowledge_base(sources, tmp_path, encoder=HashingEncoder())
    with (PUBMED / "manifest.jsonl").open(encoding="utf-8") as file:
        listed = [json.loads(line) for line in file]
    total = report.counts
    assert total.read == sum(row["citations"] + len(row["deleted"]) for row in listed) + len(
        skipped_of(sources)
    )
    assert (
        total.read
        == total.indexed + total.updated + total.unchanged + total.deleted + total.rejected
    )
    assert report.rejects_file is not None
    rejects = [
        json.loads(line) for line in report.rejects_file.read_text(encoding="utf-8").splitlines()
    ]
    assert len(rejects) == total.rejected
    assert all(reject["position"] and reject["reason"] for reject in rejects)
    assert contents(tmp_path)["records"] == total.indexed - total.deleted
    again = build_knowledge_base(open_sources(PUBMED), tmp_path, encoder=HashingEncoder())
    assert (again.counts.read, again.passages) == (0, report.passages)


def test_a_place_whose_name_is_no_utf8_is_refused() -> None:
    with pytest.raises(InputError, match="is not UTF-8"):
        open_place("kb\udcff")
