"""Fixtures that several test modules share."""

import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path

import certifi
import hypothesis
import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI

from tests.openai_server import OpenAIServer, serve

# A busy machine is no failure: how long an example takes is for the benchmarks to say.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=50)
hypothesis.settings.load_profile("untimed")


SLOW_MODULE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules of slow tests, whose imports take seconds, if slow tests are deselected."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return bool(SLOW_MODULE.search(collection_path.read_text(encoding="utf-8"))) or None


def pytest_collection_finish() -> None:
    """Exempt the imported modules, which stay to the end, from garbage collection."""
    gc.collect()
    gc.freeze()


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache, keys and proxies out of the tests, and theirs out of the user's.

    Parallel workers share one cache, so that the demo knowledge base is built once. And HTTP
    clients, of which each test has its own and none speaks TLS, read one root certificate and not
    all of them.
    """
    worker = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    end = "-----END CERTIFICATE-----"
    first, _, _ = Path(certifi.where()).read_text(encoding="utf-8").partition(end)
    certificate = base / "root.pem"
    certificate.write_text(f"{first}{end}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        patch.setenv("BRIEFCONTEXT_CACHE", str((base.parent if worker else base) / "cache"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("LANGSMITH_TRACING", "false")
        for name in [name for name in os.environ if name.endswith("_API_KEY")]:
            patch.delenv(name)
        yield


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A chat-completions server."""
    with serve() as running:
        yield running


@pytest.fixture
def chat_model(server: OpenAIServer) -> ChatOpenAI:
    """A real OpenAI client that talks to `server` and does not retry."""
    return ChatOpenAI(
        model="scripted", base_url=server.url, api_key="none", max_retries=0, stream_usage=True
    )


class FixedRetriever(BaseRetriever):
    """Returns the first k of the same documents for every question."""

    documents: list[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self.documents[:k]


QUESTION = "Does aspirin lower the risk of stroke?"


def make_documents(count: int, *, about: int) -> list[Document]:
    """Make `count` documents of which only that at place `about` shares words with QUESTION."""
    return [
        Document(
            id=f"doc-{place}",
            page_content=f"Aspirin does lower the risk of stroke in group {place}. More follows."
            if place == about
            else f"Vitamin number {place} was studied among healthy volunteers. More follows.",
            metadata={
                "source_id": f"src-{place}",
                "title": f"Title {place}",
                "start": 0,
                "chunk_index": 0,
            },
        )
        for place in range(count)
    ]


@pytest.fixture
def agreeing() -> FixedRetriever:
    """Sixteen documents that BM25 ranks as the retriever does."""
    documents = make_documents(16, about=0)
    for place in (1, 2):
        documents[place] = make_documents(16, about=place)[place]
    return FixedRetriever(documents=documents)


@pytest.fixture
def disagreeing() -> FixedRetriever:
    """Sixteen documents of which BM25 puts others at the top: those at places 8, 9 and 10."""
    documents = make_documents(16, about=8)
    for place in (9, 10):
        documents[place] = make_documents(16, about=place)[place]
    return FixedRetriever(documents=documents)
