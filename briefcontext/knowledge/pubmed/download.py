"""Files from an HTTPS server: listed, checked, and continued after a broken connection."""

import gzip
import hashlib
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, wait_exponential

from briefcontext.errors import KnowledgeBaseError, first_line, retry_after
from briefcontext.knowledge.sources.source import DAMAGED_GZIP
from briefcontext.retries import PassingError, may_pass, retry_policy

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

AT_ONCE = 2
"""Downloads at a time, which NCBI asks for."""
TRIES = 6
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before another try; each wait is twice the one before."""
_BLOCK = 1 << 20
_CHECKSUM = re.compile(r"\b[0-9a-f]{32}\b")


class Downloads:
    """Downloads files of one folder of a server.

    A complete file is kept until `done` is called with its name.
    """

    def __init__(self, url: str, folder: Path, *, keep: bool = False) -> None:
        """Describe the downloads.

        Args:
            url: address of the folder on the server.
            folder: the folder for the files, which is created.
            keep: whether `done` keeps files.
        """
        self.url, self.folder, self._keep = url.rstrip("/") + "/", folder, keep
        self._threads = ThreadPoolExecutor(AT_ONCE, "download")
        self._started: dict[str, Future[Path]] = {}
        self._lock = threading.Lock()

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the server's files that match a pattern, sorted."""
        listing = self._text("")
        links = re.findall(r'href="([^"/?]+)"', listing)
        return sorted({name for name in links if pattern.fullmatch(name)})

    def size(self, name: str) -> int:
        def ask() -> int:
            with _client() as client, _failures():
                reply = client.head(self.url + name)
                _check(reply)
                return int(reply.headers.get("Content-Length", 0))

        return int(self._tried(name, ask))

    def start(self, name: str, *, checked: bool = True) -> "Future[Path]":
        """Begin a download in the background; `checked` compares it with the file's `.md5`."""
        with self._lock:
            if name not in self._started:
                self._started[name] = self._threads.submit(self._file, name, checked)
            return self._started[name]

    def get(self, name: str, *, checked: bool = True) -> Path:
        """Return the path of a file, downloaded if necessary.

        Raises KnowledgeBaseError if it cannot be downloaded, or is damaged on the server.
        """
        return self.start(name, checked=checked).result()

    def done(self, name: str) -> None:
        self._started.pop(name, None)
        if not self._keep:
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Wait for running downloads, and begin no other."""
        self._threads.shutdown(cancel_futures=True)

    def _file(self, name: str, checked: bool) -> Path:
        path = self.folder / name
        if not path.is_file():
            expected = self._checksum(name) if checked else ""
            self._tried(name, lambda: self._download(name, expected))
        return path

    def _checksum(self, name: str) -> str:
        text = self._text(f"{name}.md5")
        if found := _CHECKSUM.search(text.lower()):
            return found[0]
        raise KnowledgeBaseError(
            f"{self.url}{name}.md5 holds no MD5 checksum: {text[:80]!r}. Try again later."
        )

    def _download(self, name: str, expected: str) -> None:
        """Download a file, from where an earlier try ended."""
        path, partial, tag = (
            self.folder / name,
            self.folder / f"{name}.part",
            self.folder / f"{name}.etag",
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            version = tag.read_text() if tag.is_file() else ""
            held = partial.stat().st_size if version and partial.is_file() else 0
            asked = {"Range": f"bytes={held}-", "If-Range": version} if held else {}
            with (
                _client() as client,
                _failures(),
                client.stream("GET", self.url + name, headers=asked) as reply,
            ):
                if reply.status_code == 416:  # Everything was there, and is not what it should be.
                    partial.unlink()
                    raise PassingError("its parts do not fit together")
                _check(reply)
                tag.write_text(
                    str(reply.headers.get("ETag") or reply.headers.get("Last-Modified") or "")
                )
                with partial.open("ab" if reply.status_code == 206 else "wb") as file:
                    for block in reply.iter_raw():
                        file.write(block)
            if problem := _damage(partial, name, expected):
                partial.unlink()
                raise PassingError(problem)
            partial.rename(path)
            tag.unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or first_line(error)
            raise KnowledgeBaseError(
                f"{name} cannot be stored in {self.folder} ({reason}). Make space, and run the "
                f"command again."
            ) from error

    def _text(self, name: str) -> str:
        def ask() -> str:
            with _client() as client, _failures():
                reply = client.get(self.url + name)
                _check(reply)
                return str(reply.text)

        return str(self._tried(name, ask))

    def _tried(self, name: str, ask: Any) -> Any:
        """Return the result of a request, which is repeated if it breaks."""
        retrying = Retrying(
            before_sleep=lambda state: logger.info(
                "%s%s: %s; again", self.url, name, state.outcome
            ),
            **retry_policy(TRIES, wait_exponential(FIRST_WAIT, LONGEST_WAIT)),
        )
        try:
            return retrying(ask)
        except PassingError as error:
            raise KnowledgeBaseError(
                f"{self.url}{name} could not be read in {TRIES} tries ({error}). Run the command "
                f"again later: it "
                "continues from here."
            ) from error


@contextmanager
def _client() -> "Iterator[httpx2.Client]":
    import httpx2

    with httpx2.Client(
        follow_redirects=True, timeout=60, headers={"Accept-Encoding": "identity"}
    ) as client:
        yield client


@contextmanager
def _failures() -> Iterator[None]:
    import httpx2

    try:
        yield
    except httpx2.HTTPError as error:
        raise PassingError(first_line(error)) from error


def _check(reply: "httpx2.Response") -> None:
    status = reply.status_code
    if may_pass(status):
        wait = retry_after(reply.headers.get("Retry-After"))
        raise PassingError(f"HTTP {status}", None if wait is None else min(wait, LONGEST_WAIT))
    if status >= 400:
        raise KnowledgeBaseError(
            f"{reply.url} answered HTTP {status}. Check the address, or try again later."
        )


def _damage(path: Path, name: str, expected: str) -> str:
    """Return the damage of a complete download, or ""."""
    if expected:
        digest = hashlib.md5(usedforsecurity=False)
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        if digest.hexdigest() != expected:
            return f"its MD5 checksum is {digest.hexdigest()} and not {expected}"
    if name.endswith(".gz"):
        try:
            with gzip.open(path) as content:
                while content.read(_BLOCK):
                    pass
        except DAMAGED_GZIP as error:
            return f"its compressed data is damaged: {first_line(error)}"
    return ""
