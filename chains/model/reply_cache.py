"""A cache of model replies on disk, for repeated experiments.

LangChain's SQLite cache in langchain-community is no longer developed, and returns an unreadable
reply as its serialised text.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, Generation

from briefcontext.chains.model.reply import cut_off, reply_words
from briefcontext.errors import InputError, one_line

_BUSY_SECONDS = 60.0
"""Seconds to wait for other writers of the file."""
_OURS = int.from_bytes(b"BrCx")
"""SQLite's application id, which identifies these files."""
_FROM_CACHE = "briefcontext_cache"
"""Key in the metadata of a reply from this cache."""


def from_cache(message: BaseMessage) -> bool:
    """Return whether a reply comes from a `ReplyCache`, so that no call was made."""
    return bool(message.response_metadata.get(_FROM_CACHE))


class ReplyCache(BaseCache):
    """Keeps replies in an SQLite file, except cut and empty ones, which a retry may improve.

    Args:
        path: A new file, or one made by this class. InputError is raised for others.
        model: Key of the model and its address, if the address is a part of the key.
    """

    def __init__(self, path: str | Path, model: str = "") -> None:
        self._path = Path(path).absolute()
        self._model = model
        problem = "it is not a cache of BriefContext."
        try:
            ours = str(path) != ":memory:" and (self._is_ours() or self._made())
        except (OSError, ValueError, sqlite3.Error) as error:
            ours, problem = False, one_line(error)
        if not ours:
            raise InputError(
                f"The cache of model calls cannot be kept in {path}: {problem} Name a new file."
            )

    def _is_ours(self) -> bool:
        if not self._path.is_file():
            return False
        # Without `immutable`, SQLite may change another program's file on opening.
        with closing(sqlite3.connect(f"{self._path.as_uri()}?immutable=1", uri=True)) as database:
            (found,) = database.execute("PRAGMA application_id").fetchone()
        return bool(found == _OURS)

    def _made(self) -> bool:
        """Create the whole file and link it into place, so that one of several writers wins."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._path.parent) as folder:
            unfinished = Path(folder) / "replies"
            with closing(sqlite3.connect(unfinished)) as database, database:
                database.execute(f"PRAGMA application_id = {_OURS}")
                database.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            with suppress(FileExistsError):
                os.link(unfinished, self._path)
        return self._is_ours()

    def lookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Return the cached reply, or None."""
        with self._database() as database:
            row = database.execute(
                "SELECT reply FROM replies WHERE key = ?", [self._key(prompt, llm_string)]
            ).fetchone()
        if row is None:
            return None
        messages = messages_from_dict(json.loads(row[0]))
        for message in messages:
            message.response_metadata[_FROM_CACHE] = True
        return [ChatGeneration(message=message) for message in messages]

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        messages = [reply.message for reply in return_val if isinstance(reply, ChatGeneration)]
        if not all(map(_worth_keeping, messages)):
            return
        # Additions of a provider need not be JSON, and nothing reads them.
        reply = json.dumps([message_to_dict(message) for message in messages], default=str)
        with self._database() as database:
            database.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?)",
                [self._key(prompt, llm_string), reply],
            )

    def clear(self, **kwargs: Any) -> None:
        """Delete all replies."""
        with self._database() as database:
            database.execute("DELETE FROM replies")

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, because threads may not share a connection."""
        with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as database, database:
            yield database

    def _key(self, prompt: str, llm_string: str) -> str:
        parts = [self._model, llm_string, prompt] if self._model else [llm_string, prompt]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _worth_keeping(message: BaseMessage) -> bool:
    return (
        isinstance(message, AIMessage) and bool(reply_words(message)) and cut_off(message) is None
    )
