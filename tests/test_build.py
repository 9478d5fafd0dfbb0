"""Building a knowledge base: what becomes of each record, and of a build that is stopped."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from select import select
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.build_lock import build_lock
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.manifest import Counts
from briefcontext.knowledge.pipeline import Progress
from briefcontext.knowledge.sources.records import Deletion, Reject
from briefcontext.knowledge.sources.source import EntrySource, SourceEntry, VectorDocument
from tests import killed_build
from tests.base_contents import contents
from tests.hashing_encoder import HashingEncoder

ROOT = Path(__file__).parents[1]
LONG = " ".join(f"Word{number} follows." for number in range(60))


def record(id: str, text: str = "Aspirin helps.", **metadata: Any) -> Document:
    return Document(id=id, page_content=text, metadata={"source_id": id, "title": f"On {id}", **metadata})


def source(name: str, *entries: SourceEntry) -> EntrySource:
    """A source whose fingerprint is its name."""
    return EntrySource(entries, name=name, fingerprint=f"sha256:{name}", size=len(entries))


def build(folder: Path, *sources: EntrySource, **options: Any) -> BuildReport:
    return build_knowledge_base(sources, folder, **{"encoder": HashingEncoder(), **options})


def counts(**given: int) -> Counts:
    return Counts(read=sum(given.values()), **given)


def passages(folder: Path) -> dict[str, str]:
    return {id: text for id, (text, _, _) in contents(folder)["passages"].items()}


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time of writing and content of the files that make up a base, by name.

    Without SQLite's own files, and without Chroma's database, which counts how often it was opened.
    """
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(("passages.sqlite-", "chroma.sqlite3"))
    }


def test_records_become_passages_with_all_that_they_carry(tmp_path: Path) -> None:
    report = build(tmp_path, source("a", record("1", year=2001, retracted=True), record("2", "Gout hurts.")))
    assert report.counts == counts(indexed=2)
    assert (report.passages, report.vectors_written, report.rejects_file) == (2, 2, None)
    with KnowledgeBase.open(tmp_path) as base:
        assert base.get(["2", "1"]) == [
            Document(id="2", page_content="Gout hurts.", metadata={"source_id": "2", "title": "On 2"}),
            record("1", year=2001, retracted=True),
        ]
        assert base.manifest.retracted == 1


def test_documents_can_be_given_as_they_are(tmp_path: Path) -> None:
    report = build_knowledge_base((record(str(n)) for n in range(5)), tmp_path, encoder=HashingEncoder())
    assert report.counts == counts(indexed=5)
    again = build_knowledge_base([record(str(n)) for n in range(5)], tmp_path, encoder=HashingEncoder())
    assert again.counts == counts(unchanged=5)
    assert again.vectors_written == 0


def test_nothing_to_index_gives_an_empty_base(tmp_path: Path) -> None:
    assert build_knowledge_base([], tmp_path, encoder=HashingEncoder()).counts == Counts()
    assert passages(tmp_path) == {}


def test_the_same_source_again_changes_nothing(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1"), record("2"), Reject("line 3", "It is broken.")))
    before = files(tmp_path)
    report = build(tmp_path, source("a", record("1"), record("2"), Reject("line 3", "It is broken.")))
    assert [(part.name, part.skipped) for part in report.sources] == [("a", True)]
    assert report.counts == Counts()
    assert report.passages == 2
    assert files(tmp_path) == before
    assert set(passages(tmp_path)) == {"1", "2"}


def test_a_source_under_another_name_is_the_same_source(tmp_path: Path) -> None:
    same = EntrySource([record("1")], name="copy", fingerprint="sha256:a")
    report = build(tmp_path, source("a", record("1")), same)
    assert [(part.name, part.skipped) for part in report.sources] == [("a", False), ("copy", True)]
    assert report.counts == counts(indexed=1)


def test_identical_records_are_unchanged_and_not_encoded_again(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1"), record("2")))
    encoder = HashingEncoder()
    report = build(tmp_path, source("b", record("2"), record("3"), record("1")), encoder=encoder)
    assert report.counts == counts(unchanged=2, indexed=1)
    assert encoder.encoded == 1


NEW = "Ibuprofen is used now."


@pytest.mark.parametrize(
    ("held", "given", "kept"),
    [
        ({}, {}, NEW),
        ({"version": 1}, {"version": 2}, NEW),
        ({"version": 2}, {"version": 1}, "Aspirin helps."),
        ({"version": 1, "revised": "2020-01-02"}, {"version": 1, "revised": "2021-01-01"}, NEW),
        ({"version": 1, "revised": "2020-01-02"}, {"version": 1, "revised": "2020-01-01"}, "Aspirin helps."),
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


def test_an_update_replaces_a_record_in_passages_vectors_and_terms(tmp_path: Path) -> None:
    encoder = HashingEncoder()
    build(tmp_path, source("a", record("1", LONG), record("2")), chunk_tokens=20, encoder=encoder)
    before = passages(tmp_path)
    assert len(before) > 5
    report = build(tmp_path, source("b", record("1", NEW)), encoder=encoder)
    assert report.counts == counts(updated=1)
    assert passages(tmp_path) == {"1#0": NEW, "2#0": "Aspirin helps."}
    with KnowledgeBase.open(tmp_path, encoder=encoder) as base:
        assert base.bm25 is not None
        assert base.bm25.search("Word7", 5) == []
        assert base.bm25.search("ibuprofen", 5)[0][0] == "1#0"
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


def test_within_a_source_the_last_word_on_a_record_counts(tmp_path: Path) -> None:
    entries = (
        record("1", version=1),
        record("1", NEW, version=2),
        record("2"),
        Deletion("2"),
        record("3"),
        Deletion("3"),
        record("3", NEW),
    )
    report = build(tmp_path, source("a", *entries))
    assert report.counts == counts(indexed=4, updated=1, deleted=2)
    assert passages(tmp_path) == {"1": NEW, "3": NEW}


UNUSABLE: list[tuple[SourceEntry, str]] = [
    (Reject("line 7", "It is broken."), "It is broken."),
    (record("x", "  \n"), "no text"),
    (Document(page_content="No id."), "no source id"),
    (record("x" * 600), "600 characters"),
    (record(" x"), "blanks around it"),
    (record("x\n"), "blanks around it"),
    (Document(id="", page_content="Text.", metadata={"source_id": "x"}), "no id"),
    (record("x", "Lone \ud800 surrogate."), "cannot be stored"),
    (record("x", weight=float("nan")), "cannot be stored"),
    (record("x", authors={"a", "b"}), "cannot be stored"),
    (Document(id="held", page_content="Text.", metadata={"source_id": "x"}), "another record"),
    (record("held", NEW), "stands in this source before"),
    (VectorDocument(record("x"), np.ones(3, np.float32)), "shape (3,)"),
    (VectorDocument(record("x"), np.full(16, np.inf, np.float32)), "not finite"),
]


@pytest.mark.parametrize(("entry", "reason"), UNUSABLE)
def test_a_record_that_cannot_be_used_is_left_out_and_accounted_for(
    tmp_path: Path, entry: SourceEntry, reason: str
) -> None:
    report = build(tmp_path, source("a", record("held"), entry, record("last")))
    assert report.counts == counts(indexed=2, rejected=1)
    assert set(passages(tmp_path)) == {"held", "last"}
    assert report.rejects_file is not None
    (line,) = report.rejects_file.read_text(encoding="utf-8").splitlines()
    reject = json.loads(line)
    assert reject["source"] == "a"
    assert reject["position"] == "line 7" if isinstance(entry, Reject) else reject["position"].startswith("entry 2")
    assert reason in reject["reason"]


def test_documents_of_one_source_id_that_follow_each_other_are_one_record(tmp_path: Path) -> None:
    def section(id: str, text: str) -> Document:
        return Document(id=id, page_content=text, metadata={"source_id": "article"})

    report = build(tmp_path, source("a", section("s1", "Methods."), section("s2", "Results."), record("2")))
    assert report.counts == counts(indexed=2)
    report = build(tmp_path, source("b", section("s1", "Methods, revised.")))
    assert report.counts == counts(updated=1)
    assert passages(tmp_path) == {"s1": "Methods, revised.", "2": "Aspirin helps."}
    build(tmp_path, source("c", Deletion("article")))
    assert passages(tmp_path) == {"2": "Aspirin helps."}


def test_chunks_joined_are_the_document(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1", LONG, kind="text")), chunk_tokens=16)
    with KnowledgeBase.open(tmp_path) as base:
        chunks = list(base.passages.all())
    assert [chunk.id for chunk in chunks] == [f"1#{index}" for index in range(len(chunks))]
    assert "".join(chunk.page_content for chunk in chunks) == LONG
    for chunk in chunks:
        assert chunk.page_content == LONG[chunk.metadata["start"] : chunk.metadata["end"]]
        assert chunk.metadata["kind"] == "text"


def test_chunks_of_several_documents_are_counted_through_the_record(tmp_path: Path) -> None:
    sections = [Document(id=id, page_content=LONG, metadata={"source_id": "article"}) for id in ("s1", "s2")]
    build(tmp_path, source("a", *sections), chunk_tokens=100)
    with KnowledgeBase.open(tmp_path) as base:
        chunks = list(base.passages.all())
    assert [chunk.metadata["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    assert "".join(chunk.page_content for chunk in chunks) == LONG + LONG


def test_a_vector_that_comes_with_a_document_is_taken_as_it_is(tmp_path: Path) -> None:
    encoder = HashingEncoder()
    vectors = encoder.encode_queries(["On 1 Aspirin helps.", "On 2 Gout hurts."])
    entries = [VectorDocument(record("1"), vectors[0]), VectorDocument(record("2", "Gout hurts."), vectors[1])]
    report = build(tmp_path, source("a", *entries), encoder=encoder, chunk_tokens=2)
    assert report.counts == counts(indexed=2)
    assert encoder.encoded == 0
    held = contents(tmp_path)["passages"]
    assert [held[id][2] for id in ("1", "2")] == [vector.tobytes() for vector in vectors]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": HashingEncoder(name="other")}, "encoder 'hashing'"),
        ({"encoder": HashingEncoder(revision="2")}, "revision '1'"),
        ({"encoder": HashingEncoder(text_format="text")}, "text_format 'title and text'"),
        ({"chunk_tokens": 64}, "chunk_tokens=None"),
        ({"store": "http://localhost:1"}, "store=None"),
    ],
)
def test_a_base_is_not_updated_with_other_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    build(tmp_path, source("a", record("1")))
    before = files(tmp_path)
    with pytest.raises(KnowledgeBaseError, match="was built with") as raised:
        build(tmp_path, source("b", record("2")), **options)
    assert message in str(raised.value)
    assert files(tmp_path) == before


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("Years of work.")
    with pytest.raises(KnowledgeBaseError, match=r"holds 'thesis\.txt'"):
        build(tmp_path, source("a", record("1")))
    with pytest.raises(KnowledgeBaseError, match="is a file"):
        build(tmp_path / "thesis.txt", source("a", record("1")))
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_one_build_at_a_time(tmp_path: Path) -> None:
    with build_lock(tmp_path), pytest.raises(KnowledgeBaseError, match="by another process"):
        build(tmp_path, source("a", record("1")))
    build(tmp_path, source("a", record("1")))


def failing(entries: Iterable[SourceEntry]) -> Iterator[SourceEntry]:
    yield from entries
    raise KnowledgeBaseError("The disk is gone: put it back.")


def test_a_source_that_fails_leaves_a_half_built_base_that_goes_on(tmp_path: Path) -> None:
    entries = [record(str(number)) for number in range(3000)]
    broken = EntrySource(failing(entries[:2500]), name="a", fingerprint="sha256:a")
    with pytest.raises(KnowledgeBaseError, match="The disk is gone"):
        build(tmp_path, broken)
    with pytest.raises(KnowledgeBaseError, match="run the same index command again"):
        KnowledgeBase.open(tmp_path)
    encoder = HashingEncoder()
    report = build(tmp_path, source("a", *entries), encoder=encoder)
    assert report.counts == counts(indexed=3000)
    assert 0 < encoder.encoded < 3000
    assert len(passages(tmp_path)) == 3000


def test_a_source_that_was_left_off_and_not_given_again_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError):
        build(tmp_path, EntrySource(failing([record("1")]), name="a", fingerprint="sha256:a"))
    report = build(tmp_path, source("b", record("2")))
    assert report.unfinished == ["a"]
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        assert base.verify() == ["The source 'a' was read in part only: index it again."]
    report = build(tmp_path, source("a", record("1")))
    assert report.unfinished == []
    assert set(passages(tmp_path)) == {"1", "2"}


class BrokenEncoder(HashingEncoder):
    """Gives vectors that are not numbers."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> Any:
        return super().encode_passages(passages) * np.float32(np.nan)


def test_an_encoder_that_fails_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="not finite"):
        build(tmp_path, source("a", record("1")), encoder=BrokenEncoder())
    assert build(tmp_path, source("a", record("1"))).counts == counts(indexed=1)
    assert set(passages(tmp_path)) == {"1"}


def test_progress_reaches_the_end_of_each_source(tmp_path: Path) -> None:
    seen: list[Progress] = []
    sources = [source(name, *(record(f"{name}{n}") for n in range(1500))) for name in "ab"]
    build(tmp_path, *sources, progress=seen.append)
    assert [part.vectors for part in seen] == sorted(part.vectors for part in seen)
    assert [part.counts.read for part in seen] == sorted(part.counts.read for part in seen)
    last = {part.source: part for part in seen}
    for number, name in enumerate("ab", start=1):
        assert (last[name].consumed, last[name].size) == (1500, 1500)
        assert (last[name].source_number, last[name].source_count) == (number, 2)
    assert (seen[-1].counts, seen[-1].vectors) == (counts(indexed=3000), 3000)


def test_a_source_is_read_little_ahead_of_the_encoder(tmp_path: Path) -> None:
    taken = 0
    ahead: list[int] = []

    def entries() -> Iterator[SourceEntry]:
        nonlocal taken
        for taken in range(1, 6001):
            yield record(str(taken))

    build_knowledge_base(
        entries(),
        tmp_path,
        encoder=HashingEncoder(dimension=4),
        progress=lambda part: ahead.append(taken - part.vectors),
    )
    assert max(ahead) <= 3 * 1024
    assert taken == 6000


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


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(ENTRIES, max_size=8), min_size=1, max_size=3))
def test_any_sequence_of_records_ends_as_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[Document | Deletion | Reject]]
) -> None:
    folder = tmp_path_factory.mktemp("kb")
    model: dict[str, Document] = {}
    total = Counts()
    for number, entries in enumerate(runs):
        report = build(folder, source(str(number), *entries))
        total += report.counts
        in_source: set[str] = set()
        for entry in entries:
            if isinstance(entry, Deletion):
                model.pop(entry.source_id, None)
            elif isinstance(entry, Document) and entry.page_content.strip():
                id = str(entry.id)
                held = model.get(id)
                newer = held is None or entry.metadata["version"] > held.metadata["version"]
                same_version = held is not None and entry.metadata["version"] == held.metadata["version"]
                if newer or (same_version and id not in in_source):
                    model[id] = entry
                in_source.add(id)
    assert total.read == sum(map(len, runs))
    assert total.read == total.indexed + total.updated + total.unchanged + total.deleted + total.rejected
    assert total.indexed - total.deleted == len(model)
    held = contents(folder)
    assert held["records"] == len(model)
    assert {id: (text, metadata["version"]) for id, (text, metadata, _) in held["passages"].items()} == {
        id: (document.page_content, document.metadata["version"]) for id, document in model.items()
    }


QUESTIONS = ("aspirin drug7", "ibuprofen instead")


@pytest.mark.parametrize("begun", [(), ("baseline",)], ids=["new", "update"])
def test_a_build_that_is_killed_again_and_again_ends_like_one_that_is_not(
    tmp_path: Path, begun: tuple[str, ...]
) -> None:
    names = ["baseline", "update"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    build(whole, *killed_build.sources(list(begun)))
    shutil.copytree(whole, killed)
    build(whole, *killed_build.sources(names))
    kills = 0
    for step in range(16, 200, 16):
        command = [sys.executable, "-m", "tests.killed_build", str(killed), str(step), *names]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status == 0:
            break
        assert status == -9
        kills += 1
    assert kills >= 3
    assert contents(killed, questions=QUESTIONS) == contents(whole, questions=QUESTIONS)


def test_the_index_in_use_stays_until_the_next_one_is_complete(tmp_path: Path) -> None:
    build(tmp_path, source("a", *(record(str(number)) for number in range(20))))
    update = source("b", record("new", NEW), Deletion("0"))
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        first = base.vectors
        with pytest.raises(KnowledgeBaseError, match="not finite"):
            build(tmp_path, update, encoder=BrokenEncoder())
        assert base.vectors is first
        assert len(base) == 20
        build(tmp_path, update)
        assert base.search(f"On new {NEW}", 1)[0].id == "new"
        assert len(base) == len(base.search("aspirin", 50)) == 20
        assert base.bm25 is not None
        assert [id for id, _ in base.bm25.search("ibuprofen", 5)] == ["new"]
    assert [folder.name for folder in (tmp_path / "chroma").iterdir()] == ["2"]


def test_an_index_with_many_removed_vectors_is_made_anew(tmp_path: Path) -> None:
    build(tmp_path, source("a", *(record(str(number)) for number in range(20))))
    for number in range(12):
        build(tmp_path, source(f"b{number}", record(str(number), NEW)))
    with KnowledgeBase.open(tmp_path) as base:
        assert 0 < base.passages.mark("vectors_removed") <= 6
    assert sorted(passages(tmp_path).values()).count(NEW) == 12


def remove_vectors(folder: Path) -> None:
    shutil.rmtree(folder / "chroma")


def remove_some_vectors(folder: Path) -> None:
    with KnowledgeBase.open(folder) as base:
        assert base.vectors is not None
        base.vectors.remove([1, 2])


def damage_vectors(folder: Path) -> None:
    (folder / "chroma" / "1" / "chroma.sqlite3").write_bytes(b"no database")


def remove_terms(folder: Path) -> None:
    shutil.rmtree(folder / "bm25")


def damage_terms(folder: Path) -> None:
    (folder / "bm25" / "index.json").write_text("{}")


@pytest.mark.parametrize("damage", [remove_vectors, remove_some_vectors, damage_vectors, remove_terms, damage_terms])
def test_indexing_again_mends_the_indexes_without_encoding(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    build(tmp_path, source("a", record("1"), record("2", NEW)))
    whole = contents(tmp_path, questions=QUESTIONS)
    damage(tmp_path)
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        assert base.verify() != []
    encoder = HashingEncoder()
    assert build(tmp_path, source("a", record("1"), record("2", NEW)), encoder=encoder).counts == Counts()
    assert encoder.encoded == 0
    assert contents(tmp_path, questions=QUESTIONS) == whole


@pytest.fixture(scope="module")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Chroma server of our own, on loopback."""
    folder = tmp_path_factory.mktemp("server")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(folder), "--port", str(port)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            for attempt in range(1, 601):
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    urlopen(f"{url}/api/v2/heartbeat", timeout=10).close()
                    break
                except OSError:
                    if attempt == 600:
                        raise
                    # The server says nowhere when it is ready: asking is all there is.
                    select([], [], [], 0.1)
            yield url
        finally:
            process.terminate()


def test_a_chroma_server_can_hold_the_vectors(tmp_path: Path, chroma_server: str) -> None:
    entries = [record(str(number), f"Drug{number} helps patients.") for number in range(40)]
    update = source("b", record("1", NEW), Deletion("2"), record("new", "Gout hurts."))
    local, remote = tmp_path / "local", tmp_path / "remote"
    for folder, options in ((local, {}), (remote, {"store": chroma_server})):
        build(folder, source("a", *entries), **options)
        build(folder, update)
    assert not (remote / "chroma").exists()
    found: dict[Path, list[Document]] = {}
    for folder in (local, remote):
        with KnowledgeBase.open(folder, encoder=HashingEncoder()) as base:
            found[folder] = base.search("drug7 helps", 10)
    assert [document.id for document in found[remote]] == [document.id for document in found[local]]
    assert [document.metadata["score"] for document in found[remote]] == pytest.approx(
        [document.metadata["score"] for document in found[local]], abs=1e-6
    )
    assert contents(remote) == contents(local)


def test_a_base_keeps_its_store(tmp_path: Path, chroma_server: str) -> None:
    build(tmp_path, source("a", record("1")))
    with pytest.raises(KnowledgeBaseError, match="was built with store=None"):
        build(tmp_path, source("b", record("2")), store=chroma_server)


def test_a_collection_that_a_server_has_lost_is_made_again(tmp_path: Path, chroma_server: str) -> None:
    build(tmp_path, source("a", record("1"), record("2")), store=chroma_server)
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        assert base.vectors is not None
        base.vectors.clear()
        assert base.verify() != []
    build(tmp_path, source("a", record("1"), record("2")))
    assert set(passages(tmp_path)) == {"1", "2"}


def test_a_server_that_does_not_answer_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"http://127\.0\.0\.1:9 cannot be used .* that the server runs"):
        build(tmp_path / "kb", source("a", record("1")), store="http://127.0.0.1:9")
    assert not (tmp_path / "kb").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"store": "localhost:8000"},
        {"store": "ftp://host"},
        {"store": "http://"},
        {"store": "http://host:port"},
        {"chunk_tokens": 0},
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        build(tmp_path / "kb", source("a", record("1")), **options)
    assert not (tmp_path / "kb").exists()
