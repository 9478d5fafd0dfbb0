"""Knowledge bases whose vectors are searched by Chroma."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from select import select
from urllib.request import urlopen

import chromadb
import pytest
from chromadb.config import Settings
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import Deletion
from briefcontext.knowledge.store.chroma import ChromaVectors
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.manifest import Manifest, open_place
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import NEW, build, contents, passages, record, source, vector_search

pytestmark = pytest.mark.slow


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


@pytest.fixture(params=["server", "embedded"])
def chroma(request: pytest.FixtureRequest) -> str:
    """A store that is Chroma's."""
    return "chroma" if request.param == "embedded" else str(request.getfixturevalue("chroma_server"))


def test_chroma_can_search_the_vectors(tmp_path: Path, chroma: str) -> None:
    entries = [record(str(number), f"Drug{number} helps patients.", year=1990 + number) for number in range(40)]
    update = source("b", record("1", NEW), Deletion("2"), record("new", "Gout hurts."))
    own, others = tmp_path / "own", tmp_path / "others"
    for folder, options in ((own, {}), (others, {"store": chroma})):
        build(folder, source("a", *entries), **options)
        build(folder, update)
    for filters in (Filters(), Filters(first_year=2010)):
        found: dict[Path, list[Document]] = {}
        for folder in (own, others):
            with KnowledgeBase.open(folder, encoder=HashingEncoder()) as base:
                found[folder] = base.search("drug7 helps", 10, filters)
        assert len(found[own]) == 10
        assert found[others] == found[own]
    assert contents(others) == contents(own)


def test_chroma_is_imported_only_where_a_base_uses_it(tmp_path: Path) -> None:
    code = (
        "import sys; from briefcontext.knowledge import KnowledgeBase\n"
        "from tests.hashing_encoder import HashingEncoder; from tests.knowledge_bases import build, record, source\n"
        "build(sys.argv[1], source('a', record('1')))\n"
        "with KnowledgeBase.open(sys.argv[1], encoder=HashingEncoder()) as base:\n"
        "    assert base.verify() == []; assert base.search('aspirin', 1)\n"
        "print([name for name in sys.modules if 'chroma' in name])"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_what_chroma_lacks_is_found_and_given_to_it_again_without_encoding(tmp_path: Path, chroma: str) -> None:
    build(tmp_path, source("a", record("1"), record("2")), store=chroma)
    with closing(vector_search(tmp_path)) as vectors:
        vectors.collection.delete(["2"])
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        (problem,) = base.verify()
        assert problem.startswith("1 passages have no vector in ")
    encoder = HashingEncoder()
    build(tmp_path, source("a", record("1"), record("2")), encoder=encoder)
    assert encoder.encoded == 0
    assert set(passages(tmp_path)) == {"1", "2"}


def test_only_the_chroma_folder_in_use_is_kept(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1")), store="chroma")
    build(tmp_path, source("b", record("2")))
    assert len(list((tmp_path / "chroma").iterdir())) == 1


def test_a_collection_that_is_missing_is_an_error_that_leaves_nothing_open(tmp_path: Path) -> None:
    build(tmp_path, source("a", record("1")), store="chroma")
    manifest = Manifest.published(open_place(tmp_path))
    assert manifest is not None
    manifest.id = "another"
    with pytest.raises(KnowledgeBaseError, match=r"briefcontext-another.* run the index command again") as kept:
        ChromaVectors(manifest)
    # Chroma refuses a folder that is open with other settings.
    folder = tmp_path / "chroma" / str(manifest.generation)
    settings = Settings(anonymized_telemetry=False, allow_reset=True)
    chromadb.PersistentClient(str(folder), settings=settings).close()
    assert kept.value


def test_a_base_keeps_its_store(tmp_path: Path, chroma_server: str) -> None:
    build(tmp_path, source("a", record("1")))
    with pytest.raises(KnowledgeBaseError, match="was built without store"):
        build(tmp_path, source("b", record("2")), store=chroma_server)


def test_a_server_that_does_not_answer_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"http://127\.0\.0\.1:9 cannot be used .* that the server runs"):
        build(tmp_path / "kb", source("a", record("1")), store="http://127.0.0.1:9")
    assert not (tmp_path / "kb").exists()
