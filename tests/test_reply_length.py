"""What the page and MCP send in answer to one question has a greatest length."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from langchain_core.documents import Document
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

from briefcontext.mcp_server import MOST_CHARACTERS, _listed
from briefcontext.page.lines import MOST_BYTES, JSONLines


def test_a_pages_reply_that_is_too_long_ends_with_an_error() -> None:
    made = 0

    async def lines() -> AsyncGenerator[dict[str, Any]]:
        nonlocal made
        while True:
            made += 1
            yield {"event": "documents", "text": "x" * (MOST_BYTES // 4)}

    async def endless(request: Request) -> JSONLines:
        return JSONLines(lines())

    body = TestClient(Starlette(routes=[Route("/", endless)])).get("/").content
    told = [json.loads(line) for line in body.splitlines()]
    assert len(body) < MOST_BYTES
    assert [line["event"] for line in told] == ["documents"] * 3 + ["error"]
    assert "16 MiB" in told[-1]["message"]
    assert made == 4


def test_a_tool_returns_the_passages_that_fit_and_counts_the_others() -> None:
    documents = [Document(id=f"{n}", page_content="x" * (MOST_CHARACTERS // 3)) for n in range(5)]
    result: Any = _listed(documents)
    assert [passage["id"] for passage in result.structured_content["passages"]] == ["0", "1", "2"]
    assert result.structured_content["left_out"] == 2
    assert (
        "Passages left out after these: 2. One call returns at most 100 passages and 200,000"
        in result.content[0].text
    )


def test_passages_that_fit_are_all_returned() -> None:
    result: Any = _listed([Document(id="0", page_content="x" * MOST_CHARACTERS)])
    assert (len(result.structured_content["passages"]), result.structured_content["left_out"]) == (
        1,
        0,
    )
    assert "left out" not in result.content[0].text
