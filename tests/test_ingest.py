"""What becomes of each record of a source: new, replaced, unchanged, deleted or left out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, VectorDocument
from briefcontext.knowledge.store.counts import Counts
from tests.knowledge_bases import NEW, build, contents, counts, passages, record, source


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
    ],
)
def test_a_record_replaces_an_older_one(
    tmp_path: Path, held: dict[str, Any], given: dict[str, Any], kept: str
) -> None:
    build(tmp_path, source("a", record("1", **held), record("2")))
    report = build(tmp_path, source("b", record("1", NEW, **given)))
    assert report.counts == (counts(updated=1) if kept == NEW else counts(unchanged=1))
    assert passages(tmp_path) == {"1": kept, "2": "Aspirin helps."}


LONG = " ".join(f"Word{number} follows." for number in range(60))


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
        ({"revised": "2020-01-02"}, "", {"revised": "2019-12-31"}, False),
        ({"revised": "2020-01-02"}, "", {"revised": "2020-01-03"}, True),
        ({"revised": "2020-01-02"}, "2020-06-01", {"revised": "2020-01-03"}, False),
        ({"revised": "2020-01-02"}, "2020-06-01", {"revised": "2020-06-02"}, True),
        (None, "2020-06-01", {"revised": "2020-06-01"}, False),
    ],
)
def test_a_deleted_record_returns_only_in_a_newer_version(
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
    (Deletion("lone \ud800"), "cannot be printed"),
    (record("x", "Lone \ud800 surrogate."), "cannot be stored"),
    (record("x", weight=float("nan")), "cannot be stored"),
    (Document(id="held", page_content="Text.", metadata={"source_id": "x"}), "another record"),
    (record("held", NEW), "was in this source before"),
    (VectorDocument(record("x"), np.ones(3, np.float32)), "shape (3,)"),
]


@pytest.mark.parametrize(("entry", "reason"), UNUSABLE)
def test_an_unusable_record_is_rejected_with_a_reason(
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
def test_any_sequence_of_records_equals_a_dictionary(
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
