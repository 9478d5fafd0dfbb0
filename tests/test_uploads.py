"""Files uploaded to the page: they are read or refused, and never kept."""

import io
import json
import sys
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from httpx import Response
from starlette.testclient import TestClient

from briefcontext.errors import InputError
from briefcontext.files import CACHE_VARIABLE
from briefcontext.page.app import create_app
from briefcontext.page.reading import MOST_PAGES
from briefcontext.page.uploads import MOST_BYTES, read_file
from tests.conftest import QUESTION
from tests.test_document_laws import relations
from tests.test_sources_pdf import pdf

FINDING = "Aspirin lowered the risk of stroke in men."
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{}]><x>&z;</x>'.format(
    "".join(
        f'<!ENTITY {new} "{f"&{old};" * 100}">'
        for old, new in zip("abcdefghijklm", "bcdefghijklmz", strict=True)
    )
)


def docx(text: str, **more: bytes) -> bytes:
    """A Word document of one paragraph."""
    body = (
        f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>'
        f"</w:document>"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as parts:
        parts.writestr("word/document.xml", body)
        parts.writestr("_rels/.rels", relations(officeDocument="word/document.xml"))
        for name, content in more.items():
            parts.writestr(f"word/{name}.xml", content)
    return stream.getvalue()


def jats(*ids: str) -> bytes:
    """Articles as PubMed Central writes them."""
    articles = (
        f"<article><front><article-meta><article-id "
        f'pub-id-type="pmc">{id}</article-id><title-group><article-title>'
        f"On {id}</article-title></title-group></article-meta></front><body><p>{FINDING}</p>"
        f"</body></article>"
        for id in ids
    )
    return f"<articles>{''.join(articles)}</articles>".encode()


FILES = {
    "trial.pdf": pdf(FINDING),
    "trial.docx": docx(FINDING),
    "trial.txt": FINDING.encode(),
    "trial.nxml": jats("7"),
}
REFUSED = {
    "an unknown format": ("trial.exe", b"MZ", "not supported"),
    "a PDF with a password": ("trial.pdf", pdf(FINDING, password="x"), "needs a password"),
    "a scan": ("trial.pdf", pdf(""), "text recognition"),
    "too many pages": (
        "trial.pdf",
        pdf("Another page.", *[FINDING] * MOST_PAGES),
        f"has {MOST_PAGES + 1} pages",
    ),
    "too many bytes": ("trial.txt", b"x" * (MOST_BYTES + 3), "is larger than 8 MiB"),
    "a zip bomb": ("trial.docx", docx("x", header1=bytes(80 * 1024**2)), "would be 83,88"),
    "XML that grows": ("trial.xml", BOMB.encode(), "trial.xml cannot be read"),
    "several articles": ("trial.nxml", jats("7", "8"), "more than one document"),
}


@pytest.fixture
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folders that may be written to, which have to stay empty."""
    for variable in ("TMPDIR", CACHE_VARIABLE, "HOME"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    yield tmp_path
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def sent(name: str, content: bytes, *, uploads: bool = True, **more: Any) -> Response:
    page = TestClient(
        create_app(uploads=uploads), base_url="http://127.0.0.1:8000", client=("127.0.0.1", 1)
    )
    file = {"name": name, "content": b64encode(content).decode()}
    return page.post("/api/ask/file", json={"question": QUESTION, "file": file, **more})


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_question_is_answered_from_an_upload_that_is_not_kept(name: str, untouched: Path) -> None:
    events = [json.loads(line) for line in sent(name, FILES[name]).text.splitlines()]
    answer = events[-1]["answer"]
    (citation,) = answer["citations"]
    assert FINDING in citation["quote"]
    assert citation["url"] is None or "file:" not in citation["url"]
    assert answer["provenance"]["searched"]["name"] == (name if name != "trial.nxml" else "PMC7")
    assert answer["route"] == "order_preserving"
    (source,) = (line for line in events if line["event"] == "source")
    assert FINDING in source["passages"][0]["text"]
    assert source["source_id"] == citation["source_id"]


@pytest.mark.slow
@pytest.mark.parametrize("why", REFUSED)
def test_an_unreadable_upload_is_refused_and_not_kept(why: str, untouched: Path) -> None:
    name, content, reason = REFUSED[why]
    reply = sent(name, content)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (400, "InputError")
    assert reason in reply.json()["error"]["message"]


@pytest.mark.parametrize("file", [None, {"name": "a.txt"}, {"name": "a.txt", "content": "!"}])
def test_a_malformed_upload_is_refused(file: object) -> None:
    page = TestClient(
        create_app(uploads=True), base_url="http://127.0.0.1:8000", client=("127.0.0.1", 1)
    )
    reply = page.post("/api/ask/file", json={"question": QUESTION, "file": file})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (400, "InputError")


async def test_reading_a_slow_file_ends_with_its_process() -> None:
    before = psutil.Process().children()
    with pytest.raises(InputError, match=r"could not be read in 0\.01 seconds"):
        await read_file({"name": "a.txt", "content": ""}, seconds=0.01)
    assert {*psutil.Process().children()} <= {*before}


def test_without_the_option_no_file_is_taken() -> None:
    assert sent("trial.txt", FINDING.encode(), uploads=False).status_code == 404


def test_uploads_need_process_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    with pytest.raises(
        InputError,
        match="--uploads",
    ):
        create_app(uploads=True)
    assert create_app().routes


@pytest.mark.slow
def test_settings_hold_for_a_file_and_filters_do_not() -> None:
    events = sent("trial.txt", FINDING.encode(), settings={"route": "map_reduce"}).text
    assert json.loads(events.splitlines()[-1])["answer"]["route"] == "map_reduce"
    assert (
        "One document" in sent("trial.txt", FINDING.encode(), settings={"years": [2015, None]}).text
    )
    assert (
        sent("trial.txt", FINDING.encode(), settings={"document": "/etc/passwd"}).status_code == 400
    )
