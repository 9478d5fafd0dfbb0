"""What becomes of each record of a source: new, replaced, unchanged, deleted or left out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, VectorDocument
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.passages import documents
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import NEW, build, contents, counts, passages, record, source, stored


@pytest.mark.parametrize(
    ("held", "given", "kept"),
    [
        ({}, {}, NEW),
        ({"version": 1}, {"version": 2}, NEW),
        ({"version": 2}, {"version": 1}, "Aspirin helps."),
        ({"version": 1, "revised": "2020-01-02"}, {"version": 1, "revised": "2021-01-01"}, NEW),
        (
            {"version": 1, "revised": "2020-01-02"},
            {"version": 1, "revised": "2020-01-01"},
            "Aspirin helps.",
        ),
        ({"version": 1, "revised": "2020-01-02"}, {"version": 2, "revised": "2020-01-01"}, NEW),
        ({"revised": "2020-01-02"}, {"revised": "2020-01-02"}, NEW),
        ({"version": 3}, {}, NEW),
        ({"revised": "2020-01-02"}, {"revised": ""}, NEW),
    ],
)
def test_a_record_replaces_the_one_held_unless_it_is_older(
    tmp_path: Path, held: dict[str, Any], given: dict[str, Any], kept: str
) -> None:
    build(tmp_path, source("a", record("1", **held), record("2")))
    report = build(tmp_path, source("b", record("1", NEW, **given)))
    assert report.counts == (counts(updated=1) if kept == NEW else counts(unchanged=1))
    assert passages(tmp_path) == {"1": kept, "2": "Aspirin helps."}


LONG = " ".join(f"Word{number} follows." for number in range(60))


def test_an_update_replaces_a_record_in_passages_vectors_and_terms(tmp_path: Path) -> None:
    encoder = HashingEncoder()
    build(tmp_path, source("a", record("1", LONG), record("2")), chunk_tokens=20, encoder=encoder)
    before = passages(tmp_path)
    assert len(before) > 5
    report = build(tmp_path, source("b", record("1", NEW)), encoder=encoder)
    assert report.counts == counts(updated=1)
    assert passages(tmp_path) == {"1#0": NEW, "2#0": "Aspirin helps."}
    with KnowledgeBase.open(tmp_path, encoder=encoder) as base:
        assert base.search_terms("Word7", 5) == []
        assert base.search_terms("ibuprofen", 5)[0].id == "1#0"
        assert base.search(f"On 1 {NEW}", 1)[0].id == "1#0"


def test_a_deletion_removes_a_record_everywhere(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1", LONG), record("2")), chunk_tokens=20)
    report = build(tmp_path, source("b", Deletion("1"), Deletion("unknown")))
    assert report.counts == counts(deleted=1, unchanged=1)
    assert passages(tmp_path) == {"2#0": "Aspirin helps."}
    build(tmp_path, source("c", Deletion("2")))
    assert passages(tmp_path) == {}
    build(tmp_path, source("d", record("2", NEW)))
    assert passages(tmp_path) == {"2#0": NEW}


@pytest.mark.parametrize(
    ("deleted", "deletion", "given", "back"),
    [
        ({"revised": "2020-01-02"}, "", {"revised": "2020-01-02"}, False),
        ({"revised": "2020-01-02"}, "", {"revised": "2019-12-31"}, False),
        ({"revised": "2020-01-02"}, "", {"revised": "2020-01-03"}, True),
        ({"revised": "2020-01-02"}, "2020-06-01", {"revised": "2020-01-03"}, False),
        ({"revised": "2020-01-02"}, "2020-06-01", {"revised": "2020-06-02"}, True),
        ({"version": 1}, "", {"version": 1}, False),
        ({"version": 1}, "", {"version": 2}, True),
        ({}, "2020-06-01", {}, True),
        (None, "2020-06-01", {"revised": "2020-06-01"}, False),
        (None, "2020-06-01", {"revised": "2020-06-02"}, True),
        (None, "", {"revised": "2020-06-02"}, True),
    ],
)
def test_a_deleted_record_comes_back_only_when_nothing_says_that_it_is_the_old_one(
    tmp_path: Path, deleted: dict[str, Any] | None, deletion: str, given: dict[str, Any], back: bool
) -> None:
    if deleted is not None:
        build(tmp_path, source("baseline", record("1", **deleted)))
    build(tmp_path, source("update", Deletion("1", deletion)))
    report = build(tmp_path, source("copy", record("1", NEW, **given), record("2")))
    assert report.counts == (counts(indexed=2) if back else counts(indexed=1, rejected=1))
    assert passages(tmp_path) == ({"1": NEW} if back else {}) | {"2": "Aspirin helps."}
    if not back:
        assert report.rejects_file is not None
        assert "'1' was deleted" in report.rejects_file.read_text(encoding="utf-8")


UNUSABLE: list[tuple[Entry, str]] = [
    (Reject("line 7", "It is broken."), "It is broken."),
    (record("x", "  \n"), "no text"),
    (record("x" * 600), "600 characters"),
    (record(" x"), "blanks around it"),
    (record("x\n"), "blanks around it"),
    (record("lone \ud800"), "cannot be printed"),
    (Deletion("lone \ud800"), "cannot be printed"),
    (Document(id="", page_content="Text.", metadata={"source_id": "x"}), "no id"),
    (record("x", "Lone \ud800 surrogate."), "cannot be stored"),
    (record("x", weight=float("nan")), "cannot be stored"),
    (record("x", authors={"a", "b"}), "cannot be stored"),
    (Document(id="held", page_content="Text.", metadata={"source_id": "x"}), "another record"),
    (record("held", NEW), "was in this source before"),
    (VectorDocument(record("x"), np.ones(3, np.float32)), "shape (3,)"),
    (VectorDocument(record("x"), np.full(16, np.inf, np.float32)), "finite"),
]


@pytest.mark.parametrize(("entry", "reason"), UNUSABLE)
def test_a_record_that_cannot_be_used_is_left_out_and_accounted_for(
    tmp_path: Path, entry: Entry, reason: str
) -> None:
    report = build(tmp_path, source("a", record("held"), entry, record("last")))
    assert report.counts == counts(indexed=2, rejected=1)
    assert set(passages(tmp_path)) == {"held", "last"}
    assert report.rejects_file is not None
    (line,) = report.rejects_file.read_text(encoding="utf-8").splitlines()
    reject = json.loads(line)
    assert reject["source"] == "a"
    assert (
        reject["position"] == "line 7"
        if isinstance(entry, Reject)
        else reject["position"].startswith("entry 2")
    )
    assert reason in reject["reason"]


def test_of_a_record_that_is_only_a_title_the_title_is_encoded_once(tmp_path: Path) -> None:
    class Listening(HashingEncoder):
        heard: ClassVar[list[tuple[str, str]]] = []

        def encode_passages(self, passages: Sequence[tuple[str, str]]) -> Any:
            self.heard.extend(passages)
            return super().encode_passages(passages)

    encoder = Listening()
    build(
        tmp_path,
        source("a", record("1", "On 1", kind="title"), record("2", "Gout hurts.")),
        encoder=encoder,
    )
    assert sorted(encoder.heard) == [("On 1", ""), ("On 2", "Gout hurts.")]
    with KnowledgeBase.open(tmp_path, encoder=encoder) as base:
        assert base.verify() == []
        assert base.search("On 1", 1)[0].page_content == "On 1"


def test_documents_of_one_source_id_that_follow_each_other_are_one_record(tmp_path: Path) -> None:
    def section(id: str, text: str) -> Document:
        return Document(id=id, page_content=text, metadata={"source_id": "article"})

    report = build(
        tmp_path, source("a", section("s1", "Methods."), section("s2", "Results."), record("2"))
    )
    assert report.counts == counts(indexed=2)
    report = build(tmp_path, source("b", section("s1", "Methods, revised.")))
    assert report.counts == counts(updated=1)
    assert passages(tmp_path) == {"s1": "Methods, revised.", "2": "Aspirin helps."}
    build(tmp_path, source("c", Deletion("article")))
    assert passages(tmp_path) == {"2": "Aspirin helps."}


def test_chunks_joined_are_the_document(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1", LONG, kind="text")), chunk_tokens=16)
    chunks = documents(stored(tmp_path))
    assert [chunk.id for chunk in chunks] == [f"1#{index}" for index in range(len(chunks))]
    assert "".join(chunk.page_content for chunk in chunks) == LONG
    for chunk in chunks:
        assert chunk.page_content == LONG[chunk.metadata["start"] : chunk.metadata["end"]]
        assert chunk.metadata["kind"] == "text"


def test_a_vector_that_comes_with_a_document_is_taken_as_it_is(tmp_path: Path) -> None:
    encoder = HashingEncoder()
    vectors = encoder.encode_queries(["On 1 Aspirin helps.", "On 2 Gout hurts."])
    entries = [
        VectorDocument(record("1"), vectors[0]),
        VectorDocument(record("2", "Gout hurts."), vectors[1]),
    ]
    report = build(tmp_path, source("a", *entries), encoder=encoder, chunk_tokens=2)
    assert report.counts == counts(indexed=2)
    assert encoder.encoded == 0
    held = contents(tmp_path)["passages"]
    assert [held[id][2] for id in ("1", "2")] == [
        vector.astype(np.float16).tobytes() for vector in vectors
    ]


IDS = st.sampled_from("abcdef")


ENTRIES = st.one_of(
    st.builds(
        lambda id, text, version: record(id, text, version=version),
        IDS,
        st.sampled_from(["x", "y z", " "]),
        st.integers(1, 3),
    ),
    st.builds(Deletion, IDS),
    st.just(Reject("line 1", "It is broken.")),
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(ENTRIES, max_size=8), min_size=1, max_size=3))
def test_any_sequence_of_records_ends_as_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[Document | Deletion | Reject]]
) -> None:
    folder = tmp_path_factory.mktemp("kb")
    model: dict[str, Document] = {}
    deleted: dict[str, int] = {}
    total = Counts()
    for number, entries in enumerate(runs):
        report = build(folder, source(str(number), *entries))
        total = Counts.total([total, report.counts])
        in_source: set[str] = set()
        for entry in entries:
            if isinstance(entry, Deletion):
                gone = model.pop(entry.source_id, None)
                if gone is not None:
                    deleted[entry.source_id] = gone.metadata["version"]
            elif isinstance(entry, Document) and entry.page_content.strip():
                id = str(entry.id)
                held = model.get(id)
                least = held.metadata["version"] if held is not None else deleted.get(id, 0)
                newer = entry.metadata["version"] > least
                same_version = (
                    held is not None and entry.metadata["version"] == held.metadata["version"]
                )
                if newer or (same_version and id not in in_source):
                    model[id] = entry
                    deleted.pop(id, None)
                in_source.add(id)
    assert total.read == sum(map(len, runs))
    assert (
        total.read
        == total.indexed + total.updated + total.unchanged + total.deleted + total.rejected
    )
    assert total.indexed - total.deleted == len(model)
    held = contents(folder)
    assert held["records"] == len(model)
    assert {
        id: (text, metadata["version"]) for id, (text, metadata, _) in held["passages"].items()
    } == {
        id: (document.page_content, document.metadata["version"]) for id, document in model.items()
    }
