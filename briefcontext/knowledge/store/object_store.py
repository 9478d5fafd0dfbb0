"""A knowledge base in an object store, such as `s3://bucket/name`.

Lance and obstore read keys and addresses from the environment: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from briefcontext.errors import InputError, KnowledgeBaseError, first_line, needing
from briefcontext.knowledge.store.place import LOCK_FILE, Place

with needing("cloud", "A knowledge base in an object store needs obstore"):
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    from obstore.store import from_url

SIGN_OF_LIFE_SECONDS = 15.0
GIVEN_UP_SECONDS = 90.0
"""A build whose lock was not renewed for this time was killed."""
_FAILURES = (BaseError, OSError, ValueError)


class ObjectStore(Place):
    """A prefix in a bucket that holds a knowledge base."""

    def __init__(self, url: str) -> None:
        self.path: str = url.rstrip("/")
        parts = urlsplit(url)
        if "@" in parts.netloc or parts.query:
            shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
            raise InputError(f"{shown} has keys in its URL: set them in the environment instead.")
        self._lost = threading.Event()
        try:
            self._store: Any = from_url(self.path)
        except _FAILURES as error:
            raise InputError(
                f"{self.path} cannot be used as an object store: {first_line(error)}"
            ) from error

    def names(self) -> set[str]:
        with self._errors():
            listed = self._store.list_with_delimiter()
        paths = [entry["path"] for entry in listed["objects"]] + list(listed["common_prefixes"])
        return {path.rpartition("/")[2] for path in paths}

    def read(self, name: str) -> bytes | None:
        with self._errors(), suppress(FileNotFoundError):
            return bytes(self._store.get(name).bytes())
        return None

    def write(self, name: str, content: bytes) -> None:
        if self._lost.is_set():
            raise KnowledgeBaseError(
                f"Another process builds {self}, as this one did not renew its lock for "
                f"{GIVEN_UP_SECONDS:g} s: run the command again later."
            )
        with self._errors():
            self._store.put(name, content)

    def remove(self, name: str) -> None:
        with self._errors(), suppress(FileNotFoundError):
            self._store.delete(name)

    def stamp(self, name: str) -> object:
        result = self._head(name)
        return result and (result["e_tag"], result["last_modified"], result["size"])

    def _head(self, name: str) -> Any:
        with self._errors(), suppress(FileNotFoundError):
            return self._store.head(name)

    def size(self) -> int:
        with self._errors():
            return sum(entry["size"] for page in self._store.list() for entry in page)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Refuse other builds by an object that is renewed as long as the build runs."""
        mark = self._take_lock()
        self._lost.clear()
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew_lock, args=(mark, ended), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            if not self._lost.is_set():
                self.remove(LOCK_FILE)

    def _take_lock(self) -> str:
        with self._errors(), suppress(AlreadyExistsError, PreconditionError):
            return self._put_lock("create")
        held = self._head(LOCK_FILE)
        if held is not None and _is_given_up(held):
            # Unless it was renewed, or taken over, since it was looked at.
            with self._errors(), suppress(PreconditionError):
                return self._put_lock({"e_tag": held["e_tag"]})
        raise KnowledgeBaseError(
            f"{self} is being built by another process: wait until it has ended. The lock of a "
            f"killed build expires after {GIVEN_UP_SECONDS:g} s."
        )

    def _put_lock(self, mode: Any) -> str:
        # Each content is another one, and so is its tag.
        return str(self._store.put(LOCK_FILE, uuid4().bytes, mode=mode)["e_tag"])

    def _renew_lock(self, mark: str, ended: threading.Event) -> None:
        while not ended.wait(SIGN_OF_LIFE_SECONDS):
            try:
                mark = self._put_lock({"e_tag": mark})
            except PreconditionError:
                self._lost.set()
                return
            except _FAILURES:
                # The network may be back the next time.
                continue

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise KnowledgeBaseError(
                f"{self} cannot be used ({first_line(error)}): check the bucket, the network, "
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL."
            ) from error


def _is_given_up(lock: Any) -> bool:
    return bool(datetime.now(UTC) - lock["last_modified"] >= timedelta(seconds=GIVEN_UP_SECONDS))
