"""A LangGraph server with tokens: what each of them may see."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tests.loopback import PATIENCE
from tests.studio_server import clean_environment, langgraph_dev

pytestmark = pytest.mark.slow

MINE, ANOTHERS = "correct-horse-battery-staple", "incorrect-donkey-battery-staple"
RUN = {
    "assistant_id": "briefcontext",
    "input": {"question": "Which drug is first choice for type 2 diabetes?"},
}
STEERED = {
    "assistant_id": "briefcontext",
    "command": {"goto": [{"node": "extract", "input": {}}] * 300},
}
"""Three hundred model calls, and no question."""
NOBODYS = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its log and its threads."""
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A server with two tokens."""
    with langgraph_dev(
        folder, clean_environment(BRIEFCONTEXT_TOKEN=f"{MINE} {ANOTHERS}")
    ) as running:
        yield running


def client(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE)


@pytest.fixture(scope="module")
def thread(url: str) -> dict[str, Any]:
    """A thread of mine with a run: their ids."""
    with get_sync_client(url=url, headers={"Authorization": f"Bearer {MINE}"}) as mine:
        thread = mine.threads.create(metadata={"owner": "somebody else"})["thread_id"]
        answered: Any = mine.runs.wait(thread, **RUN)
        assert answered["answer"]["citations"]
        [run] = mine.runs.list(thread)
    return {"thread": thread, "run": run["run_id"]}


OF_A_THREAD = [
    ("GET", "/threads/{thread}", None),
    ("GET", "/threads/{thread}/state", None),
    ("GET", "/threads/{thread}/history", None),
    ("POST", "/threads/{thread}/copy", None),
    ("GET", "/threads/{thread}/runs", None),
    ("GET", "/threads/{thread}/runs/{run}/join", None),
    ("GET", "/threads/{thread}/runs/{run}/stream", None),
    ("POST", "/threads/{thread}/runs/wait", RUN),
    ("DELETE", "/threads/{thread}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), OF_A_THREAD)
def test_a_thread_is_closed_to_other_tokens(
    method: str, path: str, body: Any, url: str, thread: dict[str, Any]
) -> None:
    with client(url, ANOTHERS) as another, client(url, MINE) as mine:
        theirs = another.request(method, path.format(**thread), json=body)
        assert "type 2 diabetes" not in theirs.text
        assert (
            theirs.status_code >= 400
            or theirs.text == "[]"
            or "404: Thread not found" in theirs.text
        )
        kept = mine.get(f"/threads/{thread['thread']}").json()
    assert kept["metadata"]["owner"] != "somebody else"
    assert kept["values"]["answer"]


def test_each_token_finds_only_its_threads(url: str, thread: dict[str, Any]) -> None:
    with client(url, ANOTHERS) as another, client(url, MINE) as mine:
        assert another.post("/threads/search", json={}).json() == []
        assert another.post("/threads/count", json={}).json() == 0
        own = another.post("/threads", json={}).json()["thread_id"]
        assert [
            found["thread_id"] for found in another.post("/threads/search", json={}).json()
        ] == [own]
        assert own not in mine.post("/threads/search", json={}).text
        taken = another.post(
            "/threads", json={"thread_id": thread["thread"], "if_exists": "do_nothing"}
        )
        assert taken.status_code >= 400 or "diabetes" not in taken.text
        assert another.delete(f"/threads/{own}").is_success


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/assistants", {"graph_id": "briefcontext"}),
        ("POST", "/runs/crons", {**RUN, "schedule": "* * * * *"}),
        ("POST", "/store/namespaces", {}),
        ("POST", "/internal/truncate", {"threads": True}),
        ("POST", "/%69nternal/truncate", {"threads": True}),
        ("GET", "/metrics", None),
        ("POST", f"/threads/{NOBODYS}/commands", {}),
        ("POST", f"/threads/{NOBODYS}/state", {"values": {"partitions": [[]] * 300}}),
        ("POST", "/threads", {"supersteps": [{"updates": [{"values": {}, "as_node": "extract"}]}]}),
        *(("POST", f"/runs{way}", STEERED) for way in ("", "/wait", "/stream")),
        ("POST", "/runs/batch", [RUN, STEERED]),
        ("POST", "/runs/wait", {**RUN, "input": {**RUN["input"], "documents": [{}] * 129}}),
    ],
)
def test_unlisted_routes_are_not_served(
    method: str, path: str, body: Any, url: str, thread: dict[str, Any]
) -> None:
    with client(url, MINE) as mine:
        assert mine.request(method, path, json=body).status_code == 403
        assert mine.get(f"/threads/{thread['thread']}").is_success


def test_studio_may_ask_and_no_other_site(url: str) -> None:
    with client(url, MINE) as mine:
        studio = {"Origin": "https://smith.langchain.com", "Sec-Fetch-Site": "cross-site"}
        assert mine.post("/assistants/search", json={}, headers=studio).is_success
        asked = {**studio, "Access-Control-Request-Method": "POST"}
        assert mine.options("/assistants/search", headers=asked).is_success
        foreign = {**studio, "Origin": "https://smith.langchain.com.attacker.example"}
        assert mine.post("/assistants/search", json={}, headers=foreign).status_code == 403


def test_no_token_is_logged_or_kept(url: str, folder: Path, thread: dict[str, Any]) -> None:
    with client(url, MINE) as mine:
        reply = "".join(
            mine.get(path.format(**thread)).text
            for method, path, _ in OF_A_THREAD
            if method == "GET"
        )
    kept = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert (folder / "server.log").read_bytes() in kept
    assert not any(
        token.encode() in text for token in (MINE, ANOTHERS) for text in [*kept, reply.encode()]
    )
