"""A visitor's file: read in a separate process, encoded in memory, and never stored."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import PurePath
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from pydantic import Field, SkipValidation

from briefcontext.errors import InputError
from briefcontext.graphs.events import emit_encoding
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.resources import OF_SEARCH, RESOURCES
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.sources.files import ENDINGS, NEEDED
from briefcontext.knowledge.store.filters import Filters
from briefcontext.page.lines import Line, listed, run
from briefcontext.page.reading import SECONDS
from briefcontext.retrievers.long_document import DOCUMENT_ENCODER, LongDocumentRetriever
from briefcontext.retrievers.ranking_retriever import RankingRetriever

MOST_BYTES = 8 * 1024 * 1024
MOST_BODY_BYTES = MOST_BYTES // 3 * 4 + 256 * 1024
"""Limit of a body with a file in base64 and its question."""
_KINDS = (
    *(".pdf", ".docx", ".html", ".htm", ".txt", ".md", ".nxml", ".xml"),
    *(".epub", ".odt", ".pptx", ".rtf", ".tex"),
)
_AT_ONCE = asyncio.Semaphore(2)
"""Limit of files that are read at a time, over all visitors."""
_ENVIRONMENT = ("LANG", "LC_ALL", "PATH", "PYTHONPATH", "TMPDIR")
"""Environment of the reading process, without keys of models."""


def kinds() -> list[str]:
    """Return the suffixes of readable files."""
    missing = [ENDINGS[format] for format, package in NEEDED.items() if not find_spec(package)]
    return [kind for kind in _KINDS if not any(kind in endings for endings in missing)]


async def read_file(given: object, seconds: float = SECONDS) -> Document:
    """Read the file of a question, `{"name": …, "content": …}`, the content in base64.

    Raises:
        InputError: The file is unreadable, too large, or takes too long.
    """
    name, content = (
        (given.get("name"), given.get("content")) if isinstance(given, Mapping) else (None, None)
    )
    if not (
        isinstance(name, str)
        and isinstance(content, str)
        and name.isprintable()
        and len(name) <= 200
    ):
        raise InputError(
            'The file is missing. Send {"file": {"name": "…", "content": "…"}}, in base64.'
        )
    name = PurePath(name).name
    if PurePath(name).suffix.lower() not in kinds():
        raise InputError(
            f"The format of {name} is not supported. Save it as one of {', '.join(kinds())}."
        )
    if len(content) > MOST_BYTES // 3 * 4 + 4:
        raise InputError(f"{name} is larger than {MOST_BYTES // 1024**2} MiB. Give a part of it.")
    async with _AT_ONCE:
        output = await _output_of(json.dumps({"name": name, "content": content}).encode(), seconds)
    if output is None:
        raise InputError(
            f"{name} could not be read in {seconds} seconds and the memory for it. It may be "
            f"damaged."
        )
    if "error" in output:
        raise InputError(output["error"])
    return Document(id=output["id"], page_content=output["text"], metadata=output["metadata"])


async def _output_of(file: bytes, seconds: float) -> dict[str, Any] | None:
    """Return the output of the reading process; None if it was killed or crashed."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["OPENBLAS_NUM_THREADS"] = (
        "1"  # Each thread takes of the memory that the process may have.
    )
    command = [sys.executable, "-m", "briefcontext.page.reading"]
    reading = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)
    try:
        written = await asyncio.to_thread(_written, reading, file, seconds)
    finally:
        reading.kill()  # The client may have left.
    output: dict[str, Any] | None = json.loads(written) if reading.returncode == 0 else None
    return output


def _written(reading: "Popen[bytes]", file: bytes, seconds: float) -> bytes:
    try:
        return reading.communicate(file, seconds)[0]
    except TimeoutExpired:
        reading.kill()
        return reading.communicate()[0]


class _Upload(RankingRetriever):
    """Retrieves from one document, which is encoded at its first search."""

    document: Document
    settings: Settings
    stopped: SkipValidation[threading.Event] = Field(default_factory=threading.Event)
    """Set when the visitor has left."""

    @cached_property
    def encoded(self) -> LongDocumentRetriever:
        encoder = load_encoder(DOCUMENT_ENCODER)
        return LongDocumentRetriever.from_document(self.document, encoder, progress=self._go_on)

    def _go_on(self, passages: int, total: int) -> None:
        if self.stopped.is_set():
            raise InputError("The visitor has left.")
        emit_encoding(passages, total)

    @property
    def ranks_by_bm25(self) -> bool:
        return self.settings.retrieval == "bm25"

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        retriever = RESOURCES.retriever(self.settings, over=self.encoded)
        return retriever.invoke(query, config, k=k, filters=filters)


async def run_over(
    document: Document, question: Mapping[str, Any], settings: Settings
) -> AsyncGenerator[Line]:
    """Answer a question from a document as `run` does, and yield all its passages."""
    upload = _Upload(name=str(document.id), document=document, settings=settings)
    try:
        graph = build_graph(retriever=upload, resources=RESOURCES)
        ranking = settings.retrieval.replace("hybrid", "dense")
        names = OF_SEARCH  # The retriever follows them, and the graph refuses them.
        rest = type(settings)(**settings.model_dump(exclude=names, exclude_unset=True))
        async for line in run(graph, question, rest, ranking=ranking):
            if line["event"] == "answer":
                yield {
                    "event": "source",
                    "source_id": document.metadata["source_id"],
                    **listed(upload.encoded.chunks),
                }
            yield line
    finally:
        upload.stopped.set()
