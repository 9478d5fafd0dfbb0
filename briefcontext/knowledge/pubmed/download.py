"""Files from an HTTPS server: listed, checked, and continued after a broken connection."""

import gzip
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tenacity import Retrying, wait_exponential

from briefcontext.errors import KnowledgeBaseError, first_line, retry_after
from briefcontext.knowledge.sources.source import DAMAGED_GZIP
from briefcontext.retries import PassingError, may_pass, retry_policy

if TYPE_CHECKING:
    import httpx2

AT_ONCE = 2
"""Downloads at a time, which NCBI asks for."""
TRIES = 6
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before another try; each wait is twice the one before."""
_BLOCK = 1 << 20
_CHECKSUM = re.compile(r"\b[0-9a-f]{32}\b")

_T = TypeVar("_T")


class Downloads:
    """Downloads files of one folder of a server, and deletes them when they are done."""

    def __init__(self, url: str, folder: Path, *, keep: bool = False) -> None:
        import httpx2

        self.url, self.folder, self._keep = url.rstrip("/") + "/", folder, keep
        self._threads = ThreadPoolExecutor(AT_ONCE, "download")
        self._started: dict[str, Future[Path]] = {}
        self._lock = threading.Lock()
        headers = {"Accept-Encoding": "identity"}
        self._client = httpx2.Client(follow_redirects=True, timeout=60, headers=headers)

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the server's files that match a pattern, sorted."""
        listing = self._text("")
        links = re.findall(r'href="([^"/?]+)"', listing)
        return sorted({name for name in links if pattern.fullmatch(name)})

    def size(self, name: str) -> int:
        reply = self._tried(name, lambda: self._ask("HEAD", name))
        return int(reply.headers.get("Content-Length", 0))

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
        self._client.close()

    def _file(self, name: str, checked: bool) -> Path:
        path = self.folder / name
        if not path.is_file():
            expected = self._checksum(name) if checked else ""
            self._tried(name, lambda: self._download(name, expected))
        return path

    def _checksum(self, name: str) -> str:
        text = self._text(f"{name}.md5")
        if match := _CHECKSUM.search(text.lower()):
            return match[0]
        raise KnowledgeBaseError(
            f"{self.url}{name}.md5 holds no MD5 checksum: {text[:80]!r}. Try again later."
        )

    def _download(self, name: str, expected: str) -> None:
        """Download a file, from where an earlier try ended."""
        path = self.folder / name
        partial, tag = path.with_name(f"{name}.part"), path.with_name(f"{name}.etag")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            version = tag.read_text() if tag.is_file() else ""
            size = partial.stat().st_size if version and partial.is_file() else 0
            headers = {"Range": f"bytes={size}-", "If-Range": version} if size else {}
            with _failures(), self._client.stream("GET", self.url + name, headers=headers) as reply:
                if reply.status_code == 416:  # The parts are complete, and do not fit together.
                    partial.unlink()
                _check(reply)
                version = reply.headers.get("ETag") or reply.headers.get("Last-Modified") or ""
                tag.write_text(version)
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
                "command again."
            ) from error

    def _text(self, name: str) -> str:
        return str(self._tried(name, lambda: self._ask("GET", name)).text)

    def _ask(self, method: str, name: str) -> "httpx2.Response":
        with _failures():
            reply = self._client.request(method, self.url + name)
        _check(reply)
        return reply

    def _tried(self, name: str, ask: Callable[[], _T]) -> _T:
        """Return the result of a request, which is repeated if it breaks."""
        policy = retry_policy(TRIES, wait_exponential(FIRST_WAIT, LONGEST_WAIT))
        try:
            return Retrying(**policy)(ask)
        except PassingError as error:
            raise KnowledgeBaseError(
                f"{self.url}{name} could not be read in {TRIES} tries ({error}). Run the command "
                "again later: it continues from here."
            ) from error


@contextmanager
def _failures() -> Iterator[None]:
    import httpx2

    try:
        yield
    except httpx2.HTTPError as error:
        raise PassingError(first_line(error)) from error


def _check(reply: "httpx2.Response") -> None:
    status = reply.status_code
    if may_pass(status) or status == 416:
        wait = retry_after(reply.headers.get("Retry-After"))
        raise PassingError(f"HTTP {status}", None if wait is None else min(wait, LONGEST_WAIT))
    if status >= 400:
        raise KnowledgeBaseError(
            f"{reply.url} answered HTTP {status}. Check the address, or try again later."
        )


def _damage(path: Path, name: str, expected: str) -> str:
    """Return the damage of a complete download, or ""."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
    if expected and digest != expected:
        return f"its MD5 checksum is {digest} and not {expected}"
    if name.endswith(".gz"):
        try:
            with gzip.open(path) as content:
                while content.read(_BLOCK):
                    pass
        except DAMAGED_GZIP as error:
            return f"its compressed data is damaged: {first_line(error)}"
    return ""
