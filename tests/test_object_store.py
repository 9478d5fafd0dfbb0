"""Knowledge bases in an object store: an S3 server on loopback."""

import signal
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase, knowledge_base_info
from briefcontext.knowledge.sources.source import Deletion
from briefcontext.knowledge.store import object_store
from briefcontext.knowledge.store.place import open_place
from briefcontext.retrievers.knowledge_base import retriever_over
from tests.forked_python import run_forked
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, contents, record, source

pytestmark = pytest.mark.slow

SECRET = "only-the-environment-knows"
TRIALS = [
    record(f"d{number}", f"Aspirin for stroke, trial {number}.", year=2000 + number)
    for number in range(30)
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def place(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place of this test's own in a bucket, with the keys in the environment."""
    settings = {
        "AWS_ACCESS_KEY_ID": "reader",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=server)
    client.create_bucket(Bucket="literature")
    return f"s3://literature/{request.node.name}"


def stored_texts(server: str) -> bytes:
    """Everything in the bucket that is no table."""
    client = boto3.client("s3", endpoint_url=server)
    listed = client.list_objects_v2(Bucket="literature").get("Contents", [])
    return b"".join(
        client.get_object(Bucket="literature", Key=entry["Key"])["Body"].read()
        for entry in listed
        if entry["Key"].endswith((".json", ".jsonl", ".lock"))
    )


def test_a_base_in_an_object_store_is_the_one_that_a_folder_would_hold(
    place: str, server: str, tmp_path: Path
) -> None:
    for where in (place, tmp_path / "kb"):
        build(where, source("old", *TRIALS))
        build(
            where,
            source("new", record("d3", "Aspirin, revised."), Deletion("d4"), record("bad", " ")),
        )
    questions = ("aspirin stroke", "revised")
    assert contents(place, questions=questions) == contents(tmp_path / "kb", questions=questions)
    assert SECRET.encode() not in stored_texts(server)
    with KnowledgeBase.open(place, encoder=HashingEncoder()) as base:
        info = knowledge_base_info(place)
        assert info["path"] == place
        assert info["bytes"] > 1000
        for method in ("dense", "bm25", "hybrid"):
            assert len(retriever_over(base, method).invoke("aspirin for stroke", k=5)) == 5


def test_a_build_resumes_after_a_kill(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import os, signal, sys\n"
        "from tests.knowledge_bases import build, source\n"
        "from tests.test_object_store import TRIALS\n"
        "def entries():\n"
        "    yield from TRIALS[:20]\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "given = source('all'); given.entries = entries\n"
        f"build({place!r}, given)\n"
    )
    killed = run_forked(["-c", program])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(KnowledgeBaseError, match="another process"):
        build(place, source("all", *TRIALS))
    monkeypatch.setattr(object_store, "GIVEN_UP_SECONDS", 0.0)
    build(place, source("all", *TRIALS))
    assert sorted(contents(place)["passages"]) == sorted(f"d{number}" for number in range(30))


@pytest.mark.parametrize(
    "url", ["s3://key:secret@literature/kb", "s3://literature/kb?secret=x", "nosuch://a/b"]
)
def test_a_url_that_cannot_be_used_is_refused_without_its_keys(url: str) -> None:
    with pytest.raises(InputError) as error:
        open_place(url)
    assert "secret" not in str(error.value)
