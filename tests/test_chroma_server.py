"""A knowledge base whose vectors are on a Chroma server."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from select import select
from urllib.request import urlopen

import pytest
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.records import Deletion
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import NEW, build, contents, passages, record, source


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
