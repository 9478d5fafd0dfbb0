"""The page's server: what it streams, whom it answers, and what it refuses."""

import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
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
from briefcontext.chains.passage_reader import PassageReader
from briefcontext.commands.serve import access_token
from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.guard import MAX_BODY_BYTES
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.page import app as page_app
from briefcontext.page.app import SECURITY_HEADERS, create_app
from briefcontext.page.choices import CHOICES, describe
from briefcontext.retrievers.knowledge_base import DenseRetriever
from tests.command_line import command_line
from tests.conftest import QUESTION, FixedRetriever
from tests.forked_python import ForkedPython
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source
from tests.loopback import PATIENCE
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful
from tests.page_server import serve_page

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
    told = asked(demo, question=FIRST_CHOICE)
    names = ("retrieved", "documents", "route_decided", "preflight", "answered", "answer")
    assert tuple(line["event"] for line in told if line["event"] in names) == names
    documents = {document["id"]: document for document in told[1]["documents"]}
    answer = told[-1]["answer"]
    assert [document["rank"] for document in documents.values()] == list(range(1, 17))
    assert set(told[3]["preflight"]["dense_top"] + told[3]["preflight"]["bm25_top"]) <= set(
        documents
    )
    assert answer["citations"]
    for citation in answer["citations"]:
        text = documents[citation["document_id"]]["text"]
        assert text[citation["start"] : citation["end"]] == citation["quote"]


def test_partitions_are_told_of_one_by_one(mapped: Starlette) -> None:
    told = asked(mapped)
    names = [line["event"] for line in told]
    assert [
        names.count(name)
        for name in ("partitions", "partition_started", "partition_done", "extraction")
    ] == [*(1, 4, 4, 4)]
    (groups,) = [line["partitions"] for line in told if line["event"] == "partitions"]
    assert [id for group in groups for id in group] == [f"doc-{place}" for place in range(16)]
    assert (
        names.index("partitions")
        < names.index("partition_started")
        < names.index("reducing")
        < names.index("answer")
    )
    assert {line["extraction"]["index"] for line in told if line["event"] == "extraction"} == {
        0,
        1,
        2,
        3,
    }


def test_the_answers_words_come_as_they_are_written(mapped: Starlette) -> None:
    told = asked(mapped)
    words = [line["text"] for line in told if line["event"] == "answer_token"]
    keys = {
        document["key"]
        for line in told
        if line["event"] == "documents"
        for document in line["documents"]
    }
    assert len(words) > 16
    assert set(re.findall(r"\[(\w+)\]", "".join(words))) == {str(number) for number in range(1, 17)}
    assert not any(key in "".join(words) for key in keys)


def test_a_failed_partition_is_told_and_the_answer_says_what_was_not_read(
    mapped: Starlette, server: OpenAIServer
) -> None:
    server.script = without_group_9
    told = asked(mapped)
    assert [line["index"] for line in told if line["event"] == "partition_failed"] == [2]
    assert told[-1]["event"] == "answer"
    assert any("doc-8" in message for message in messages(told[-1]["answer"], "partition_failed"))


def without_group_9(call: Call) -> Reply:
    overloaded = call.stage == "extract" and "group 9" in call.prompt
    return Reply("overloaded", status=503) if overloaded else faithful(call)


def test_a_question_with_half_a_character_is_refused_with_one_clear_error(demo: Starlette) -> None:
    headers = {"content-type": "application/json"}
    response = client(demo).post(
        "/api/ask", content=r'{"question": "Is it so \ud83d?"}', headers=headers
    )
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["kind"] == "InputError"
    assert "The question holds U+D83D at character 10" in error["message"]


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


def test_documents_keep_only_addresses_of_the_web(chat_model: ChatOpenAI) -> None:
    metadata = {"url": "javascript:alert(1)", "year": "about 1999", "retracted": True}
    documents = [
        Document(id="a", page_content="Aspirin \ud800 works.", metadata=metadata),
        Document(
            id="b", page_content="It does.", metadata={"url": "https://pubmed.ncbi.nlm.nih.gov/1/"}
        ),
    ]
    graph = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents))
    told = asked(create_app(PATIENT, graph=graph), settings={"include_retracted": True})
    first, second = next(line["documents"] for line in told if line["event"] == "documents")
    assert (first["url"], first["year"], first["notes"]) == (None, 1999, ["RETRACTED"])
    assert second["url"] == "https://pubmed.ncbi.nlm.nih.gov/1/"


def test_settings_and_options_reach_the_model(mapped: Starlette, server: OpenAIServer) -> None:
    server.script = lambda call: Reply("So it is.\nChoice: B")
    told = asked(mapped, options={"A": "yes", "B": "no"}, settings={"route": "vanilla", "top_k": 5})
    assert told[-1]["answer"]["choice"] == "B"
    (call,) = server.calls
    assert len(call.documents) == 5
    assert "A. yes\nB. no" in call.user


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"question": ""}, "empty"),
        ({"question": None}, "empty"),
        ({"question": ["x"]}, "must be a text, not list"),
        ({"question": "x" * 20_001}, "20,001"),
        ({"options": {"A": "yes"}}, "two options"),
        ({"options": ["yes", "no"]}, "mapping"),
        ({"settings": ["top_k"]}, "mapping"),
        ({"settings": {"top_k": 0}}, "top_k"),
        ({"settings": {"top_k": MAX_DOCUMENTS + 1}}, f"at most {MAX_DOCUMENTS}"),
        ({"settings": {"nothing": 1}}, "'nothing' cannot be set"),
        ({"settings": {"years": [2020, 2010]}}, "years"),
        ({"settings": {"publication_types": [5]}}, "publication_types"),
        *(
            ({"settings": {name: "/etc/passwd"}}, f"'{name}' cannot be set")
            for name in Settings.model_fields
            if name not in access.CHOICES
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(
    question: dict[str, Any], complaint: str, demo: Starlette
) -> None:
    response = client(demo).post("/api/ask", json={"question": QUESTION, **question})
    assert response.status_code == 400
    assert response.json()["error"]["kind"] == "InputError"
    assert complaint in response.json()["error"]["message"]


def test_no_choice_names_a_file_or_a_model() -> None:
    assert not {"knowledge_base", "document", "model", "extract_model", "model_arguments"} & {
        *CHOICES
    }


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"question": "x"}', "text/plain", 415),
        (b"question=x", "application/x-www-form-urlencoded", 415),
        (b'{"question": "x"', "application/json", 400),
        (b'["x"]', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"question": "' + b"x" * MAX_BODY_BYTES + b'"}', "application/json", 413),
    ],
)
def test_bodies_that_are_no_question_are_refused(
    body: bytes, kind: str, status: int, demo: Starlette
) -> None:
    response = client(demo).post("/api/ask", content=body, headers={"Content-Type": kind})
    assert response.status_code == status
    assert response.json()["error"]["message"]


def test_a_body_of_no_stated_length_is_limited_too(demo: Starlette) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1024 + 1):
            yield b"x" * 1024

    response = client(demo).post(
        "/api/ask", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/page.css", "/nothing", "/api/about", "/api/nothing", "/api/ask"]
)
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


def test_what_the_filters_leave_is_counted(
    demo: Starlette, mapped: Starlette, tmp_path: Path
) -> None:
    kinds = ("Review", "Randomized Controlled Trial")
    records = [
        record(f"{kind[:3]}{year}", year=year, publication_types=kind)
        for year in (2010, 2020)
        for kind in kinds
    ]
    records.append(record("withdrawn", year=2020, publication_types="Retracted Publication"))
    build_knowledge_base(
        [source("records", *records)], tmp_path / "base", encoder=load_encoder("minilm")
    )
    app = create_app(Settings(knowledge_base=str(tmp_path / "base")))
    for settings, passages in (
        ({}, 4),
        ({"include_retracted": True}, 5),
        ({"years": [2015, None], "include_retracted": True}, 3),
        ({"years": [2015, None]}, 2),
        ({"years": [2015, None], "publication_types": ["Review"]}, 1),
        ({"years": [1990, 1999]}, 0),
    ):
        counted = client(app).post("/api/count", json={"settings": settings})
        assert counted.json() == {"passages": passages, "all": 5}
    assert "5 passages, of 20" in client(app).get("/api/about").json()["size"]
    assert client(mapped).post("/api/count", json={}).status_code == 404
    assert (
        client(demo).post("/api/count", json={"settings": {"knowledge_base": "/etc"}}).status_code
        == 400
    )


def test_filters_are_offered_as_the_base_has_them(tmp_path: Path) -> None:
    records = [
        record(
            str(place),
            journal="Journal of Toys",
            journal_abbreviation="J Toys",
            languages="eng" if place else "fre",
        )
        for place in range(3)
    ]
    build_knowledge_base(
        [source("records", *records)], tmp_path / "base", encoder=load_encoder("minilm")
    )
    app = create_app(Settings(knowledge_base=str(tmp_path / "base")))
    described = {
        setting["name"]: setting for setting in client(app).get("/api/about").json()["settings"]
    }
    assert described["languages"]["values"] == ["eng", "fre"]
    assert described["journals"]["values"] == ["journal of toys", "j toys"]
    assert "mesh" not in described
    counted = client(app).post(
        "/api/count", json={"settings": {"journals": ["J Toys"], "languages": ["en"]}}
    )
    assert counted.json() == {"passages": 2, "all": 3}


def test_the_policy_lets_nothing_in_but_the_pages_own_files() -> None:
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


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:9", "[::1]:8000", "LOCALHOST", "127.8.8.8"]
)
def test_this_machine_may_ask(host: str, demo: Starlette) -> None:
    assert client(demo, host=host).get("/api/about").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example",
        "192.168.1.5:8000",
        "",
        "[",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/about"])
def test_a_name_rebound_to_this_machine_is_refused(host: str, path: str, demo: Starlette) -> None:
    assert client(demo).get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("peer", ["192.168.1.9", "2001:db8::1", "::ffff:10.0.0.1", "unknown"])
def test_without_a_token_no_other_machine_may_ask(peer: str, demo: Starlette) -> None:
    assert client(demo, peer=(peer, 1)).get("/api/about").status_code == 403


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-Real-IP"])
def test_without_a_token_nobody_may_ask_through_a_proxy(name: str, demo: Starlette) -> None:
    assert client(demo).get("/api/about", headers={name: "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_site_cannot_ask(headers: dict[str, str], demo: Starlette) -> None:
    for response in (
        client(demo).post("/api/ask", json={"question": ""}, headers=headers),
        client(demo).get("/api/about", headers=headers),
    ):
        assert response.status_code == 403
        assert "Another site" in response.json()["error"]["message"]


def test_a_link_of_another_site_may_lead_to_the_page(demo: Starlette) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client(demo).get("/", headers=headers).status_code == 200
    assert client(demo).post("/api/ask", json={"question": ""}, headers=headers).status_code == 403


def test_the_page_itself_can_ask(demo: Starlette) -> None:
    headers = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    assert client(demo).post("/api/ask", json={"question": ""}, headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        ("Bearer t\u00f6ken", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_with_a_token_those_who_have_it_may_ask_from_anywhere(
    authorization: str | None, status: int
) -> None:
    app = create_app(token=TOKEN)
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    elsewhere = client(app, host="pages.example", peer=("192.0.2.7", 1))
    assert elsewhere.get("/api/about", headers=headers).status_code == status
    response = elsewhere.post("/api/ask", json={"question": ""}, headers=headers)
    assert response.status_code == (400 if status == 200 else 401)


def test_the_empty_page_needs_no_token_and_holds_none() -> None:
    elsewhere = client(create_app(token=TOKEN), host="pages.example", peer=("192.0.2.7", 1))
    for file in ASSETS.iterdir():
        if file.suffix in (".html", ".css", ".js"):
            response = elsewhere.get(f"/{file.name}")
            assert response.status_code == 200
            assert TOKEN not in response.text


@pytest.mark.parametrize(
    "path",
    ["/app.py", "/../app.py", "/%2e%2e/cli.py", "/__init__.py", "/page/page.js", "//etc/passwd"],
)
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
def test_the_page_says_what_it_reads_and_not_where_that_lies(
    settings: Settings, source: str
) -> None:
    response = client(create_app(settings)).get("/api/about")
    known = response.json()
    assert known["source"] == source
    assert "private" not in response.text
    assert bool(known["examples"]) == (settings == Settings())
    assert all(set(example) == {"question", "options"} for example in known["examples"])


def test_settings_are_described_with_bounds_and_values() -> None:
    known = client(create_app(Settings(top_k=8, route="vanilla"))).get("/api/about").json()
    described = {setting["name"]: setting for setting in known["settings"]}
    assert [*described] == [
        name for name in CHOICES if name not in ("journals", "mesh", "languages")
    ]
    assert all(setting["description"] and setting["label"] for setting in described.values())
    assert described["route"]["values"] == ["auto", "map_reduce", "vanilla", "order_preserving"]
    assert (described["route"]["default"], described["top_k"]["default"]) == ("vanilla", 8)
    assert (described["top_k"]["minimum"], described["top_k"]["maximum"]) == (1, MAX_DOCUMENTS)
    assert (described["years"]["type"], described["years"]["default"]) == ("years", None)


def test_study_types_are_offered_with_those_that_the_page_was_started_with() -> None:
    settings = Settings(publication_types=("Review", "Letter"), years=(2015, None))
    described = {setting["name"]: setting for setting in describe(settings, {})}
    assert {"randomized trial", "Letter"} < {*described["publication_types"]["values"]}
    assert described["publication_types"]["default"] == ("Review", "Letter")
    assert described["years"]["default"] == (2015, None)
    assert "years" not in {
        setting["name"] for setting in describe(Settings(document="report.md"), {})
    }


def test_years_and_study_types_filter_what_is_read(tmp_path: Path) -> None:
    types = ["Review", "Letter"]
    entries = [
        record(str(year), "Aspirin and stroke.", year=year, publication_types=types[year % 2])
        for year in range(2000, 2020)
    ]
    build(tmp_path, source("a", *entries))
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as base:
        graph = build_graph(
            reader=PassageReader(),
            retriever=DenseRetriever(knowledge_base=base),
        )
        chosen = {"years": [2010, None], "publication_types": ["Review"]}
        told = asked(create_app(graph=graph), settings=chosen)
    documents = next(line["documents"] for line in told if line["event"] == "documents")
    assert {document["year"] for document in documents} == {2010, 2012, 2014, 2016, 2018}


def test_a_client_that_goes_away_stops_the_run(mapped: Starlette, server: OpenAIServer) -> None:
    reading, gone, hang_up = threading.Semaphore(0), threading.Semaphore(0), server.hang_up

    def hold(call: Call) -> Reply:
        reading.release()
        return Reply(hold=True)

    def count(caller: Any) -> None:
        hang_up(caller)
        gone.release()

    server.script, server.hang_up = hold, count
    with serve_page(mapped) as address:
        connection = HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
        body = json.dumps({"question": QUESTION})
        connection.request("POST", "/api/ask", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        for _ in range(4):
            assert reading.acquire(timeout=PATIENCE)
        assert not gone.acquire(blocking=False)
        response.close()
        connection.close()
        for _ in range(4):
            assert gone.acquire(timeout=PATIENCE), "a call of the model went on"


def test_questions_are_answered_at_the_same_time(mapped: Starlette, server: OpenAIServer) -> None:
    server.together = 8
    told: list[list[dict[str, Any]]] = []
    with serve_page(mapped) as address:

        def ask() -> None:
            connection = HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
            body = json.dumps({"question": QUESTION})
            connection.request("POST", "/api/ask", body, {"Content-Type": "application/json"})
            told.append(lines(connection.getresponse().read().decode()))
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [answered[-1]["event"] for answered in told] == ["answer", "answer"]


@pytest.mark.parametrize(
    ("given", "host", "token"),
    [
        (None, "127.0.0.1", None),
        (None, "localhost", None),
        (TOKEN, "::1", TOKEN),
        (TOKEN, "0.0.0.0", TOKEN),
    ],
)
def test_a_token_is_needed_where_it_is_given(
    given: str | None, host: str, token: str | None
) -> None:
    assert access_token(given, host) == token


def test_a_page_for_other_machines_gets_a_token_of_its_own() -> None:
    tokens = {access_token(None, "0.0.0.0") for _ in range(10)}
    assert len(tokens) == 10
    assert all(token is not None and len(token) >= 40 for token in tokens)


@pytest.mark.parametrize(
    "given", ["", " ", "short", "with spaces in between it", "t\u00f6ken" * 8, f"{TOKEN} short"]
)
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
        (["--kb", "x", "--document", "y"], "name one of them"),
        (["--token", "short"], "at least 16"),
        (["--host", "no such host"], "cannot be listened on"),
        (["--model", "nobody:nothing"], "nobody:nothing"),
    ],
)
def test_what_cannot_be_served_is_told_at_once(
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


def _colours(css: str, dark: bool) -> dict[str, str]:
    blocks = re.findall(r":root \{([^}]*)\}", css)
    pairs = [
        pair
        for block in blocks[: 2 if dark else 1]
        for pair in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)
    ]
    return dict(pairs)


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        *((ink, ground, 4.5) for ink in ("ink", "muted", "accent") for ground in ("paper", "card")),
        *((ink, f"{name}-soft", 4.5) for name in ("good", "warn", "bad") for ink in (name, "ink")),
        *((ink, "accent-soft", 4.5) for ink in ("ink", "accent")),
        *(("on-mark", ground, 4.5) for ground in ("mark", "mark-current")),
        ("on-accent", "accent", 4.5),
        # WCAG 2.2, 1.4.11: what is no text, but must be seen.
        *((edge, ground, 3.0) for edge in ("edge", "focus") for ground in ("paper", "card")),
    ],
)
def test_colours_have_the_contrast_of_wcag_aa(
    ink: str, ground: str, least: float, dark: bool
) -> None:
    colours = _colours((ASSETS / "page.css").read_text(), dark)
    light, low = sorted((_luminance(colours[ink]), _luminance(colours[ground])), reverse=True)
    assert (light + 0.05) / (low + 0.05) >= least
