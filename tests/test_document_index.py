"""The index of one document is made once, and kept."""

from pathlib import Path

import numpy as np
import pytest

from briefcontext.retrievers.long_document import LongDocumentRetriever
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
    steps: list[tuple[int, int]] = []
    made = index_file(report, first, progress=lambda done, total: steps.append((done, total)))
    assert first.encoded == len(made.chunks) > 64
    assert steps == [
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
