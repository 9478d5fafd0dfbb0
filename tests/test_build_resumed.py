"""Builds that are stopped or whose files are lost, and what the next build makes of them."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import EntrySource
from briefcontext.knowledge.store.counts import Counts
from briefcontext.retrievers.knowledge_base import SearchMethod, retriever_over
from tests import killed_build
from tests.forked_python import run_forked
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import NEW, build, contents, failing, passages, record, source


def test_a_source_that_fails_leaves_a_half_built_base_that_goes_on(tmp_path: Path) -> None:
    entries = [record(str(number)) for number in range(3000)]
    broken = EntrySource(failing(entries[:2500]), name="a", fingerprint="sha256:a")
    with pytest.raises(KnowledgeBaseError, match="The disk is gone"):
        build(tmp_path, broken)
    with pytest.raises(KnowledgeBaseError, match="finish it by the same index command"):
        KnowledgeBase.open(tmp_path)
    encoder = HashingEncoder()
    report = build(tmp_path, source("a", *entries), encoder=encoder)
    assert report.counts.indexed == encoder.encoded
    assert 0 < report.counts.indexed < 3000
    assert report.counts.indexed + report.counts.unchanged == 3000
    assert len(passages(tmp_path)) == 3000


def test_a_source_that_was_left_off_and_not_given_again_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError):
        build(tmp_path, EntrySource(failing([record("1")]), name="a", fingerprint="sha256:a"))
    build(tmp_path, source("b", record("2")))
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        assert base.verify() == ["The source 'a' was read in part only: index it again."]
    build(tmp_path, source("a", record("1")))
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        assert base.verify() == []
    assert set(passages(tmp_path)) == {"1", "2"}


def answers(folder: Path) -> list[list[tuple[str | None, str]]]:
    """What a base finds, by vectors and by terms."""
    with KnowledgeBase.open(folder, encoder=HashingEncoder()) as base:
        found = [
            retriever_over(base, method).invoke(question, k=20)
            for question in QUESTIONS
            for method in get_args(SearchMethod)
        ]
    return [[(document.id, document.page_content) for document in documents] for documents in found]


QUESTIONS = ("aspirin drug7", "ibuprofen instead")


@pytest.mark.slow
@pytest.mark.parametrize("begun", [(), ("baseline",)], ids=["new", "update"])
def test_a_build_that_is_killed_again_and_again_ends_like_one_that_is_not(
    tmp_path: Path, begun: tuple[str, ...]
) -> None:
    names = ["baseline", "update"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    build(whole, *killed_build.sources(list(begun)))
    shutil.copytree(whole, stopped)
    before = answers(whole)
    build(whole, *killed_build.sources(names))
    after = answers(whole)
    assert before != after
    kills = 0
    for step in range(6, 200, 6):
        if not killed(stopped, str(step), *names):
            break
        kills += 1
        assert answers(stopped) in (before, after)
    assert kills >= 3
    assert contents(stopped, questions=QUESTIONS) == contents(whole, questions=QUESTIONS)


def killed(folder: Path, when: str, *names: str) -> bool:
    """Whether a build in a process of its own was killed, and did not end before."""
    done = run_forked(["-m", "tests.killed_build", str(folder), when, *names])
    assert done.returncode in (0, -9), done.stderr
    return done.returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize("begun", [(), ("baseline",)], ids=["new", "update"])
def test_wherever_a_build_is_killed_the_next_one_ends_as_if_it_had_not_been(
    tmp_path: Path, begun: tuple[str, ...]
) -> None:
    names = ["baseline", "update"]
    whole, start = tmp_path / "whole", tmp_path / "start"
    build(whole, *killed_build.sources(list(begun)))
    shutil.copytree(whole, start)
    before = answers(whole)
    clock = time.monotonic()
    build(whole, *killed_build.sources(names))
    seconds = time.monotonic() - clock
    after, expected = answers(whole), contents(whole, questions=QUESTIONS)
    times = random.Random(20)
    kills = 0
    while kills < 20:
        folder = tmp_path / str(kills)
        shutil.copytree(start, folder)
        if killed(folder, f"{times.uniform(0, seconds)}s", *names):
            kills += 1
            assert answers(folder) in (before, after)
            build(folder, *killed_build.sources(names))
        else:
            seconds *= 0.8
        assert contents(folder, questions=QUESTIONS) == expected
        shutil.rmtree(folder)


def test_what_no_state_needs_any_more_is_removed(tmp_path: Path) -> None:
    build(tmp_path, source("a", *(record(str(number)) for number in range(20))))
    for number in range(6):
        build(
            tmp_path, source(f"b{number}", *(record(str(n), f"{NEW} {number}") for n in range(20)))
        )
    rows = list((tmp_path / "passages.lance" / "data").iterdir())
    assert len(rows) == 1
    assert len(list((tmp_path / "passages.lance" / "_versions").glob("*.manifest"))) == 1


def remove_indexes(folder: Path) -> None:
    shutil.rmtree(folder / "passages.lance" / "_indices")


def damage_indexes(folder: Path) -> None:
    for file in (folder / "passages.lance" / "_indices").rglob("*.lance"):
        file.write_bytes(b"no index")


@pytest.mark.parametrize("damage", [remove_indexes, damage_indexes])
def test_indexing_again_mends_the_indexes_without_encoding(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    build(tmp_path, source("a", record("1"), record("2", NEW)))
    whole = contents(tmp_path, questions=QUESTIONS)
    damage(tmp_path)
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        assert base.verify() != []
    encoder = HashingEncoder()
    assert (
        build(tmp_path, source("a", record("1"), record("2", NEW)), encoder=encoder).counts
        == Counts()
    )
    assert encoder.encoded == 0
    assert contents(tmp_path, questions=QUESTIONS) == whole
