"""Usage of an answer, and the cache of replies."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration
from langchain_openai import ChatOpenAI

from briefcontext.chains.model.reply_cache import ReplyCache
from briefcontext.chains.model.usage import ModelCall, summarise
from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import OpenAIServer

ASKED: Any = {"question": QUESTION}


def a_call(**fields: Any) -> ModelCall:
    """Make a call that went well."""
    usual = {
        "stage": "extract",
        "model": "m",
        "status": "ok",
        "attempt": 1,
        "input_characters": 400,
    }
    tokens = {
        "input_tokens": 100,
        "cached_input_tokens": 0,
        "output_tokens": 10,
        "started": 1.0,
        "ended": 2.0,
    }
    return ModelCall(**{**usual, **tokens, **fields})


@pytest.mark.parametrize(
    ("calls", "retries"),
    [
        ([a_call()], 0),
        ([a_call(status="failed"), a_call(attempt=2, status="failed"), a_call(attempt=3)], 2),
    ],
)
def test_a_retry_is_a_further_attempt_that_went_out(calls: list[ModelCall], retries: int) -> None:
    usage = summarise(calls, seconds=0)
    assert usage["retries"] == retries
    assert sum(part["retries"] for part in usage["stages"].values()) == retries


def test_usage_compares_the_map_with_vanilla(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing)
    mapped, vanilla = (
        built.invoke(ASKED, context=Settings(route=route, verify=False))["answer"]["usage"]
        for route in ("map_reduce", "vanilla")
    )
    assert mapped["vanilla_input_tokens"] == pytest.approx(vanilla["input_tokens"], rel=0.02)
    assert mapped["vanilla_output_tokens"] == pytest.approx(vanilla["output_tokens"], rel=0.1)
    assert mapped["output_ratio"] == mapped["output_tokens"] / mapped["vanilla_output_tokens"]
    assert vanilla["vanilla_output_tokens"] == vanilla["output_tokens"]
    assert vanilla["input_ratio"] == pytest.approx(1, rel=0.02)


Make = Callable[[Path], object]


def other_database(
    path: Path, *, journal: str = "delete", table: str = "history (url TEXT)"
) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA journal_mode={journal}")
        database.execute(f"CREATE TABLE {table}")


OTHERS: dict[str, Make] = {
    "another program's database": other_database,
    "a text": lambda path: path.write_text(
        "This is no database, and long enough to show it. " * 100
    ),
    "a folder": Path.mkdir,
}


def _held(folder: Path) -> dict[str, object]:
    return {file.name: file.read_bytes() if file.is_file() else None for file in folder.iterdir()}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_another_file_is_not_used_as_a_cache(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    make(path)
    before = _held(tmp_path)
    with pytest.raises(InputError, match="cache of model calls") as caught:
        ReplyCache(path)
    assert _held(tmp_path) == before
    assert "\n" not in str(caught.value)


def test_a_cache_is_made_once_and_known_again_also_by_many_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "made" / "replies.sqlite"
    with ThreadPoolExecutor(8) as threads:
        caches = list(threads.map(lambda _: ReplyCache(path), range(32)))
    said = [ChatGeneration(message=AIMessage("It is so."))]
    caches[0].update("prompt", "model", said)
    for cache in (*caches, ReplyCache(str(path))):
        (reply,) = cache.lookup("prompt", "model") or []
        assert reply.text == "It is so."
    assert list(path.parent.iterdir()) == [path]
