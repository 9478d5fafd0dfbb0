"""Builds that are stopped or whose files are lost, and what the next build makes of them."""

import shutil
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


@pytest.mark.slow
def test_a_build_resumes_after_a_failed_source(tmp_path: Path) -> None:
    entries = [record(str(number)) for number in range(3000)]
    broken = EntrySource(failing(entries[:2500]), name="a", fingerprint="sha256:a")
    with pytest.raises(KnowledgeBaseError, match="The disk is gone"):
        build(tmp_path, broken)
    with pytest.raises(KnowledgeBaseError, match="index command"):
        KnowledgeBase.open(tmp_path)
    encoder = HashingEncoder()
    report = build(tmp_path, source("a", *entries), encoder=encoder)
    assert report.counts.indexed == encoder.encoded
    assert 0 < report.counts.indexed < 3000
    assert report.counts.indexed + report.counts.unchanged == 3000
    assert len(passages(tmp_path)) == 3000


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
def test_a_build_killed_repeatedly_ends_as_an_undisturbed_one(
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
    """Return True if a build in a separate process was killed before its end."""
    done = run_forked(["-m", "tests.killed_build", str(folder), when, *names])
    assert done.returncode in (0, -9), done.stderr
    return done.returncode == -9


def remove_indexes(folder: Path) -> None:
    shutil.rmtree(folder / "passages.lance" / "_indices")


def damage_indexes(folder: Path) -> None:
    for file in (folder / "passages.lance" / "_indices").rglob("*.lance"):
        file.write_bytes(b"no index")


@pytest.mark.parametrize("damage", [damage_indexes])
def test_indexing_again_repairs_indexes_without_encoding(
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
