"""What the clients of a served graph may name."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from starlette.testclient import TestClient

from briefcontext.access import MOST_DOCUMENTS, served
from briefcontext.errors import InputError
from briefcontext.graphs import resources
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.long_document import LongDocumentSettings
from briefcontext.graphs.settings import Settings
from briefcontext.mcp_server import build_server
from briefcontext.page.app import create_app
from tests.conftest import QUESTION, make_documents
from tests.paths import DOCUMENT, PATHS, SECRET, lay_traps
from tests.test_sources_pdf import ARTICLE, pdf

DEFAULT = served(Settings, {})
FILTERS = {"years", "publication_types", "journals", "mesh", "languages"}


def test_by_default_there_is_the_demo_and_no_model() -> None:
    settings = DEFAULT()
    assert (settings.knowledge_base, settings.model, settings.document) == ("demo", None, None)
    assert settings.resolved().knowledge_base == "demo"


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name not in FILTERS])
def test_no_setting_takes_a_path(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} = "):
        DEFAULT(**{name: "/etc/passwd"})


def test_no_model_is_sent_elsewhere() -> None:
    with pytest.raises(InputError, match="model_arguments"):
        DEFAULT(model_arguments={"base_url": "http://127.0.0.1:9/v1"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "openai:a"}, "model = 'openai:a': none is allowed; the server's owner lists in BRIEFCONTEXT_MODELS"),
        (
            {"document": "a.pdf"},
            "none is allowed; the server's owner lists in BRIEFCONTEXT_DOCUMENTS the names that are",
        ),
        (
            {"knowledge_base": "mine"},
            "the server's owner lists in BRIEFCONTEXT_BASES the names that",
        ),
    ],
)
def test_what_is_not_listed_is_refused_by_the_name_of_the_list(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        served(LongDocumentSettings, {})(**given)
    assert message in str(raised.value)


def test_without_a_document_it_is_told_which_may_be_named() -> None:
    long_document: Any = build_graph(settings=served(LongDocumentSettings, {}))
    with pytest.raises(InputError, match=r"no document to answer from.*BRIEFCONTEXT_DOCUMENTS"):
        long_document.invoke({"question": QUESTION})


def test_a_setting_that_takes_any_text_is_refused_until_it_is_listed() -> None:
    free = {
        name
        for name, field in DEFAULT.model_json_schema()["properties"].items()
        for kind in field.get("anyOf", [field])
        if kind.get("type") == "string" and not {"enum", "const"} & {*kind}
    }
    assert not free


def test_names_stand_for_places_and_the_first_is_the_default() -> None:
    listed = {
        "BRIEFCONTEXT_BASES": "trials = /srv/a/b, /srv/guidelines,pubmed:",
        "BRIEFCONTEXT_MODELS": "openai:a, ollama:b",
    }
    kinds = served(Settings, listed)
    assert (kinds().knowledge_base, kinds().model, kinds().extract_model) == ("trials", "openai:a", None)
    places = {
        name: kinds(knowledge_base=name).resolved().knowledge_base for name in ("trials", "guidelines", "pubmed:")
    }
    assert places == {"trials": "/srv/a/b", "guidelines": "/srv/guidelines", "pubmed:": "pubmed:"}
    assert kinds(model="ollama:b", extract_model="openai:a").extract_model == "openai:a"
    for refused in ({"knowledge_base": "demo"}, {"knowledge_base": "/srv/a/b"}, {"model": "openai:dear"}):
        with pytest.raises(InputError, match="cannot be used"):
            kinds(**refused)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ({"BRIEFCONTEXT_BASES": "a=/x,a=/y"}, "has no name of its own"),
        ({"BRIEFCONTEXT_BASES": "a="}, "or no place"),
        ({"BRIEFCONTEXT_BASES": "=/x"}, "Write NAME=PLACE"),
        ({"BRIEFCONTEXT_DOCUMENTS": "/no/such/folder"}, "'/no/such/folder' is no folder"),
    ],
)
def test_a_list_that_cannot_be_used_says_why(listed: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        served(Settings, listed)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> type[Settings]:
    """Settings of a server with a folder of documents, full of traps."""
    folder = tmp_path_factory.mktemp("documents")
    lay_traps(folder)
    return served(LongDocumentSettings, {"BRIEFCONTEXT_DOCUMENTS": str(folder)})


def test_a_document_of_the_folder_is_answered_from(kinds: type[Settings]) -> None:
    found = resources.retriever(kinds(document=DOCUMENT)).invoke("toy drug", k=1)
    assert "four points" in found[0].page_content


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_not_opened(path: str, kinds: type[Settings]) -> None:
    with pytest.raises(InputError, match="there is no such file here") as raised:
        resources.retriever(kinds(document=path))
    assert SECRET not in str(raised.value)


def test_there_are_fifty_paths() -> None:
    assert len(set(PATHS)) >= 50


def test_fewer_documents_are_taken_of_a_client() -> None:
    with pytest.raises(InputError, match="less than or equal to 128"):
        DEFAULT(top_k=MOST_DOCUMENTS + 1)
    built = build_graph(settings=DEFAULT)
    given: Any = {"question": QUESTION, "documents": make_documents(MOST_DOCUMENTS + 1, about=0)}
    with pytest.raises(InputError, match="at most 128 are taken"):
        built.invoke(given, context={})  # type: ignore[arg-type]


def test_in_a_process_of_ones_own_everything_stays_free(tmp_path: Path) -> None:
    lay_traps(tmp_path)
    settings = Settings(document=str(tmp_path / "link_to_link.txt"), top_k=1024)
    assert SECRET in resources.retriever(settings).invoke("a line", k=1)[0].page_content


ADVERSE = "How many patients under treatment had an adverse event at week 14?"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PDF in a folder whose name nobody else need know."""
    file = tmp_path_factory.mktemp("patients") / "report.pdf"
    file.write_bytes(pdf(*ARTICLE))
    return file


def _of_the_page(file: Path) -> str:
    page = TestClient(create_app(Settings(document=str(file))), base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    told = page.post("/api/ask", json={"question": ADVERSE}).text
    source = json.loads(told.splitlines()[-1])["answer"]["citations"][0]["source_id"]
    return told + page.post("/api/source", json={"source_id": source}).text


async def _of_mcp(file: Path) -> str:
    async with Client(build_server(Settings(document=str(file)))) as client:
        answered = await client.call_tool("ask", {"question": ADVERSE})
        source = (answered.structured_content or {})["citations"][0]["source_id"]
        found = await client.call_tool("search", {"query": ADVERSE})
        fetched = await client.call_tool("fetch_source", {"source_id": source})
    return "".join(result.model_dump_json() for result in (answered, found, fetched))


def _of_langgraph(file: Path) -> str:
    settings = served(LongDocumentSettings, {"BRIEFCONTEXT_DOCUMENTS": str(file.parent)})
    graph: Any = build_graph(settings=settings)
    return str(graph.invoke({"question": ADVERSE}, context={"document": file.name}))


async def test_clients_are_told_the_page_of_a_file_and_not_where_it_lies(report: Path) -> None:
    for told in (_of_the_page(report), await _of_mcp(report), _of_langgraph(report)):
        assert "58.1 percent" in told
        assert str(report.parent) not in told
        assert "file:" not in told
    given: Any = {"question": ADVERSE}
    answer = build_graph().invoke(given, context=Settings(document=str(report)))["answer"]
    assert answer["citations"][0]["url"] == f"{report.as_uri()}#page=1"
