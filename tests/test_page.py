"""The server of the page: its stream, its replies, and its refusals."""

import json
import re
import signal
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from starlette.applications import Starlette
from starlette.testclient import TestClient

from briefcontext import access
from briefcontext.access import MAX_DOCUMENTS
from briefcontext.commands.serve import access_token
from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.guard import MAX_BODY_BYTES
from briefcontext.page import app as page_app
from briefcontext.page.app import SECURITY_HEADERS, create_app
from tests.command_line import command_line
from tests.conftest import QUESTION, FixedRetriever
from tests.forked_python import ForkedPython
from tests.loopback import PATIENCE
from tests.openai_server import OpenAIServer, Reply

ASSETS = Path(page_app.__file__).parent
TOKEN = "correct-horse-battery-staple"
LOCAL = ("127.0.0.1", 50000)
FIRST_CHOICE = "Which drug is first choice for type 2 diabetes?"
PATIENT = Settings(max_retries=0)


def client(
    app: Starlette, *, host: str = "127.0.0.1:8000", peer: tuple[str, int] = LOCAL
) -> TestClient:
    return TestClient(app, base_url=f"http://{host}", client=peer, raise_server_exceptions=False)


def lines(body: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines() if line]


def asked(app: Starlette, **question: Any) -> list[dict[str, Any]]:
    response = client(app).post("/api/ask", json={"question": QUESTION, **question})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return lines(response.text)


@pytest.fixture(scope="module")
def demo() -> Starlette:
    """The page without any argument."""
    return create_app()


@pytest.fixture
def mapped(chat_model: ChatOpenAI, disagreeing: FixedRetriever) -> Starlette:
    """A page whose documents are read in four partitions by the scripted model."""
    return create_app(PATIENT, graph=build_graph(model=chat_model, retriever=disagreeing))


def test_an_answer_comes_after_its_documents_and_rankings(demo: Starlette) -> None:
    events = asked(demo, question=FIRST_CHOICE)
    names = ("retrieved", "documents", "route_decided", "preflight", "answered", "answer")
    assert tuple(line["event"] for line in events if line["event"] in names) == names
    documents = {document["id"]: document for document in events[1]["documents"]}
    answer = events[-1]["answer"]
    assert [document["rank"] for document in documents.values()] == list(range(1, 17))
    assert set(events[3]["preflight"]["dense_top"] + events[3]["preflight"]["bm25_top"]) <= set(
        documents
    )
    assert answer["citations"]
    for citation in answer["citations"]:
        text = documents[citation["document_id"]]["text"]
        assert text[citation["start"] : citation["end"]] == citation["quote"]


def test_a_model_that_fails_ends_the_stream_with_one_clear_error(
    mapped: Starlette, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply("overloaded", status=503)
    *before, last = asked(mapped)
    assert last["event"] == "error"
    assert last["kind"] == "ModelCallError"
    assert "All 4 partitions failed" in last["message"]
    assert not any(line["event"] in ("error", "answer") for line in before)


class BrokenRetriever(BaseRetriever):
    """Breaks in a way that no one foresaw."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise RuntimeError("/srv/private/index is gone")


def test_an_unforeseen_error_is_logged_and_not_shown(
    chat_model: ChatOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = asked(create_app(graph=build_graph(model=chat_model, retriever=BrokenRetriever())))
    assert (line["event"], line["kind"]) == ("error", "UnexpectedError")
    assert "private" not in line["message"]
    assert "/srv/private/index is gone" in caplog.text


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"question": ""}, "empty"),
        ({"question": ["x"]}, "must be a text, not list"),
        ({"question": "x" * 20_001}, "20,001"),
        ({"options": {"A": "yes"}}, "two options"),
        ({"settings": {"top_k": MAX_DOCUMENTS + 1}}, f"at most {MAX_DOCUMENTS}"),
        ({"settings": {"nothing": 1}}, "'nothing' cannot be set"),
        ({"settings": {"years": [2020, 2010]}}, "years"),
        *(
            ({"settings": {name: "/etc/passwd"}}, f"'{name}' cannot be set")
            for name in Settings.model_fields
            if name not in access.CHOICES
        ),
    ],
)
def test_bad_questions_and_settings_are_refused(
    question: dict[str, Any], complaint: str, demo: Starlette
) -> None:
    response = client(demo).post("/api/ask", json={"question": QUESTION, **question})
    assert response.status_code == 400
    assert response.json()["error"]["kind"] == "InputError"
    assert complaint in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"question": "x"}', "text/plain", 415),
        (b'{"question": "x"', "application/json", 400),
        (b'{"question": "' + b"x" * MAX_BODY_BYTES + b'"}', "application/json", 413),
    ],
)
def test_malformed_bodies_are_refused(body: bytes, kind: str, status: int, demo: Starlette) -> None:
    response = client(demo).post("/api/ask", content=body, headers={"Content-Type": kind})
    assert response.status_code == status
    assert response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/", "/nothing", "/api/ask"])
def test_every_reply_carries_the_security_headers(path: str, demo: Starlette) -> None:
    headers = client(demo).get(path).headers
    assert {name: headers[name] for name in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
    assert headers["cache-control"] == "no-store"


def test_a_source_is_given_whole_and_only_from_what_is_read(
    demo: Starlette, mapped: Starlette
) -> None:
    known = client(demo).post("/api/source", json={"source_id": "demo-type-2-diabetes-01"})
    (passage,) = known.json()["passages"]
    assert passage["id"] == "demo-type-2-diabetes-01"
    assert passage["text"].startswith("Metformin is")
    for app, given, status in (
        (demo, {"source_id": "/etc/passwd"}, 400),
        (demo, {"source_id": ["x"]}, 404),
        (demo, {}, 404),
        (mapped, {"source_id": "src-0"}, 404),
    ):
        assert client(app).post("/api/source", json=given).status_code == status


def test_the_content_policy_allows_only_files_of_the_page() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    for part in (
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "script-src 'self'",
    ):
        assert part in policy


def test_the_assets_need_nothing_from_elsewhere_and_nothing_inline() -> None:
    names = {
        file.name for file in ASSETS.iterdir() if file.suffix in (".html", ".css", ".js", ".svg")
    }
    assert {"index.html", "page.css", "page.js", "icon.svg"} <= names
    html = (ASSETS / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", html)
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', html)) <= names
    for name in names - {"icon.svg"}:
        text = (ASSETS / name).read_text()
        assert "://" not in re.sub(r"\\/", "", text).replace("https?://", ""), name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|@import|url\(", text
        ), name


def test_the_assets_need_no_token_and_contain_none() -> None:
    elsewhere = client(create_app(token=TOKEN), host="pages.example", peer=("192.0.2.7", 1))
    for file in ASSETS.iterdir():
        if file.suffix in (".html", ".css", ".js"):
            response = elsewhere.get(f"/{file.name}")
            assert response.status_code == 200
            assert TOKEN not in response.text


@pytest.mark.parametrize("path", ["/app.py", "/%2e%2e/cli.py", "/__init__.py"])
def test_nothing_but_the_assets_is_served(path: str, demo: Starlette) -> None:
    assert client(demo).get(path).status_code == 404


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        (
            Settings(),
            "the bundled demo knowledge base: texts written as a demonstration, not literature",
        ),
        (Settings(knowledge_base="/srv/private/trials"), "the knowledge base trials"),
        (Settings(knowledge_base="pubmed:"), "live PubMed"),
        (Settings(document="/srv/private/report.pdf"), "the document report.pdf"),
    ],
)
def test_the_page_names_its_source_without_a_path(settings: Settings, source: str) -> None:
    response = client(create_app(settings)).get("/api/about")
    known = response.json()
    assert known["source"] == source
    assert "private" not in response.text
    assert bool(known["examples"]) == (settings == Settings())
    assert all(set(example) == {"question", "options"} for example in known["examples"])


@pytest.mark.parametrize(
    ("given", "host", "token"), [(None, "127.0.0.1", None), (TOKEN, "::1", TOKEN)]
)
def test_a_token_is_needed_where_it_is_given(
    given: str | None, host: str, token: str | None
) -> None:
    assert access_token(given, host) == token


@pytest.mark.parametrize("given", ["", "short", f"{TOKEN} short"])
def test_a_weak_token_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="at least 16"):
        access_token(given, "localhost")
    with pytest.raises(InputError, match="at least 16"):
        create_app(token=given)


def test_without_the_extra_the_command_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = command_line(monkeypatch, capsys)("serve")
    assert code == 2
    assert "pip install 'briefcontext[page]'" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--kb", "no/such/folder"], "no/such/folder"),
        (["--token", "short"], "at least 16"),
        (["--host", "no such host"], "cannot be listened on"),
    ],
)
def test_serve_refuses_bad_options_at_the_start(
    arguments: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = command_line(monkeypatch, capsys)("serve", "--port", "0", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.slow
def test_serve_says_where_it_is_answers_there_and_stops() -> None:
    with ForkedPython(["-m", "briefcontext", "serve", "--port", "0"]) as process:
        try:
            assert process.stdout is not None
            address = urlsplit(process.stdout.readline().removeprefix("Open ").strip())
            assert (address.hostname, address.fragment) == ("127.0.0.1", "")
            connection = HTTPConnection(address.netloc, timeout=PATIENCE)
            connection.request("GET", "/api/about")
            assert json.loads(connection.getresponse().read())["source"].startswith(
                "the bundled demo knowledge base"
            )
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors
    assert "Not medical advice" in errors
