"""What the clients of a served graph may name."""

import json
from pathlib import Path
from typing import Any, Self

import pytest
from mcp import Client
from starlette.testclient import TestClient

from briefcontext.access import MAX_DOCUMENTS, Access
from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.long_document import LongDocumentSettings
from briefcontext.graphs.resources import RESOURCES
from briefcontext.graphs.settings import Settings
from briefcontext.mcp_server import build_server
from briefcontext.page.app import create_app
from tests.paths import DOCUMENT, PATHS, SECRET, lay_traps
from tests.test_sources_pdf import ARTICLE, pdf

ALL = {
    "BRIEFCONTEXT_BASES": "trials = /srv/a/b, /srv/guidelines,pubmed:",
    "BRIEFCONTEXT_MODELS": "openai:a, ollama:b",
}
DEFAULT = Access.from_environment({})
FREE = {"years", "publication_types", "journals", "mesh", "languages"}


def test_by_default_there_is_the_demo_and_no_model() -> None:
    context = DEFAULT.check(None)
    assert context == {"knowledge_base": "demo", "model": None}
    assert DEFAULT.resolved(Settings(**context)).knowledge_base == "demo"


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name not in FREE])
def test_no_setting_takes_a_path(name: str) -> None:
    with pytest.raises(InputError, match=name):
        DEFAULT.check({name: "/etc/passwd"})


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"model": "openai:a"}, "BRIEFCONTEXT_MODELS"),
        ({"document": "a.pdf"}, "BRIEFCONTEXT_DOCUMENTS"),
        ({"knowledge_base": "mine"}, "BRIEFCONTEXT_BASES"),
        ({"model_arguments": {"base_url": "http://127.0.0.1:9/v1"}}, "model_arguments"),
        ({"top_k": MAX_DOCUMENTS + 1}, "at most 128"),
        ({"no_such": 1}, "no_such"),
        (["top_k"], "mapping"),
    ],
)
def test_settings_outside_the_lists_are_refused(chosen: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DEFAULT.check(chosen)


def test_listed_names_resolve_to_places_and_the_first_is_the_default() -> None:
    access = Access.from_environment(ALL)
    defaults = {"knowledge_base": "trials", "model": "openai:a"}
    assert access.check({}) == defaults
    names = ("trials", "guidelines", "pubmed:")
    places = [access.resolved(Settings(knowledge_base=name)).knowledge_base for name in names]
    assert places == ["/srv/a/b", "/srv/guidelines", "pubmed:"]
    assert access.check({"model": "ollama:b", "extract_model": "openai:a"})["model"] == "ollama:b"
    assert access.check({"model": None})["model"] is None
    for name in ("demo", "/srv/a/b"):
        with pytest.raises(InputError, match="is not served"):
            access.check({"knowledge_base": name})


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Access:
    """The lists of a server with a folder of documents, full of traps."""
    folder = tmp_path_factory.mktemp("documents")
    lay_traps(folder)
    return Access.from_environment({"BRIEFCONTEXT_DOCUMENTS": str(folder)})


def test_a_document_of_the_folder_is_answered_from(access: Access) -> None:
    settings = access.resolved(LongDocumentSettings(**access.check({"document": DOCUMENT})))
    found = RESOURCES.retriever(settings).invoke("toy drug", k=1)
    assert "four points" in found[0].page_content


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_not_opened(path: str, access: Access) -> None:
    for refuse in (lambda: access.check({"document": path}), lambda: access.document(path)):
        with pytest.raises(InputError) as raised:
            refuse()
        assert SECRET not in str(raised.value)


ADVERSE = "How many patients under treatment had an adverse event at week 14?"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PDF in a folder with a private name."""
    file = tmp_path_factory.mktemp("patients") / "report.pdf"
    file.write_bytes(pdf(*ARTICLE))
    return file


def _of_the_page(file: Path) -> str:
    page = TestClient(
        create_app(Settings(document=str(file))),
        base_url="http://127.0.0.1",
        client=("127.0.0.1", 1),
    )
    reply = page.post("/api/ask", json={"question": ADVERSE}).text
    source = json.loads(reply.splitlines()[-1])["answer"]["citations"][0]["source_id"]
    return reply + page.post("/api/source", json={"source_id": source}).text


async def _of_mcp(file: Path) -> str:
    async with Client(build_server(Settings(document=str(file)))) as client:
        answered = await client.call_tool("ask", {"question": ADVERSE})
        source = (answered.structured_content or {})["citations"][0]["source_id"]
        found = await client.call_tool("search", {"query": ADVERSE})
        fetched = await client.call_tool("fetch_source", {"source_id": source})
    return "".join(result.model_dump_json() for result in (answered, found, fetched))


def _of_langgraph(file: Path) -> str:
    access = Access.from_environment({"BRIEFCONTEXT_DOCUMENTS": str(file.parent)})

    class Served(LongDocumentSettings):
        file_links = False

        def resolved(self) -> Self:
            return access.resolved(self)

    graph: Any = build_graph(settings=Served)
    return str(graph.invoke({"question": ADVERSE}, context=access.check({"document": file.name})))


async def test_clients_see_the_page_of_a_file_and_not_its_path(report: Path) -> None:
    for reply in (_of_the_page(report), await _of_mcp(report), _of_langgraph(report)):
        assert "58.1 percent" in reply
        assert str(report.parent) not in reply
        assert "file:" not in reply
    given: Any = {"question": ADVERSE}
    answer = build_graph().invoke(given, context=Settings(document=str(report)))["answer"]
    assert answer["citations"][0]["url"] == f"{report.as_uri()}#page=1"
