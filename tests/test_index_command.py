"""`briefcontext index`: which encoder it takes, and how it tells how far it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from briefcontext.commands.index import index
from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source
from tests.test_sources_medcpt import write_chunk


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the encoders that are loaded, in place of their weights."""
    names: list[str] = []

    def load(name: str) -> HashingEncoder:
        names.append(name)
        return HashingEncoder(name=name)

    monkeypatch.setattr("briefcontext.knowledge.load_encoder", load)
    return names


def run(path: Path, kb: Path, **options: Any) -> None:
    with pytest.raises(typer.Exit):
        index([str(path)], str(kb), **options)


def rows(path: Path, *texts: str) -> Path:
    path.write_text(
        "".join(json.dumps({"id": f"r{n}", "text": text}) + "\n" for n, text in enumerate(texts))
    )
    return path


def test_without_an_encoder_a_new_base_has_e5_and_another_keeps_its_own(
    tmp_path: Path, loaded: list[str]
) -> None:
    passages = rows(tmp_path / "a.jsonl", "Aspirin helps.")
    run(passages, tmp_path / "new")
    build(tmp_path / "held", source("a", record("1")), encoder=HashingEncoder(name="minilm"))
    run(passages, tmp_path / "held")
    assert loaded == ["e5", "minilm"]
    with KnowledgeBase.open(tmp_path / "held") as base:
        assert len(base) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [({"encoder": "bge"}, "built with"), ({"chunk_tokens": 64}, "chunk_tokens")],
)
def test_what_the_base_was_not_built_with_is_refused_before_weights_are_loaded(
    tmp_path: Path, loaded: list[str], options: dict[str, Any], message: str
) -> None:
    build(tmp_path / "kb", source("a", record("1")))
    with pytest.raises(KnowledgeBaseError, match=message):
        run(rows(tmp_path / "a.jsonl", "Gout hurts."), tmp_path / "kb", **options)
    assert loaded == []


def a_file(place: Path) -> None:
    place.touch()


def a_folder_of_something_else(place: Path) -> None:
    place.mkdir()
    (place / "thesis.txt").write_text("Years of work.")


@pytest.mark.parametrize(
    ("make", "message"), [(a_file, "is a file"), (a_folder_of_something_else, "thesis")]
)
def test_a_place_that_cannot_hold_a_base_is_refused_before_weights_are_loaded(
    tmp_path: Path, loaded: list[str], make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / "kb")
    with pytest.raises(KnowledgeBaseError, match=message):
        run(rows(tmp_path / "a.jsonl", "Gout hurts."), tmp_path / "kb")
    assert loaded == []


def test_vectors_of_another_encoder_are_refused_before_weights_are_loaded(
    tmp_path: Path, loaded: list[str]
) -> None:
    with pytest.raises(KnowledgeBaseError, match="with --encoder medcpt"):
        run(write_chunk(tmp_path), tmp_path / "kb", encoder="minilm")
    assert loaded == []
    assert not (tmp_path / "kb").exists()
