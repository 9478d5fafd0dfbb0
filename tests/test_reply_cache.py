"""The file that keeps the replies of models: its own, or a new one, and no other."""

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration

from briefcontext.chains.model.reply_cache import ReplyCache
from briefcontext.errors import InputError

Make = Callable[[Path], object]


def other_database(
    path: Path, *, journal: str = "delete", table: str = "history (url TEXT)"
) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA journal_mode={journal}")
        database.execute(f"CREATE TABLE {table}")


OTHERS: dict[str, Make] = {
    "another program's database": other_database,
    "another program's database in WAL mode": lambda path: other_database(path, journal="wal"),
    "another program's table of the same name": lambda path: other_database(
        path, table="replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)"
    ),
    "an empty file": Path.touch,
    "a text": lambda path: path.write_text(
        "This is no database, and long enough to show it. " * 100
    ),
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
}


def _held(folder: Path) -> dict[str, object]:
    return {file.name: file.read_bytes() if file.is_file() else None for file in folder.iterdir()}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_what_is_no_cache_is_refused_and_left_as_it_was(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    make(path)
    before = _held(tmp_path)
    with pytest.raises(
        InputError, match=r"cache of model calls .*replies\.sqlite.* Name "
    ) as caught:
        ReplyCache(path)
    assert _held(tmp_path) == before
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [":memory:", "", "nowhere:\0"])
def test_a_name_that_is_no_files_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cache of model calls"):
        ReplyCache(name)
    assert not list(tmp_path.iterdir())


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
