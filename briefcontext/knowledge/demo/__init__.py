"""The bundled demo knowledge base and questions that it answers."""

import io
import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.files import CACHE_VARIABLE, cache_folder, sha256
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import VectorDocument
from briefcontext.knowledge.store.manifest import FORMAT_VERSION, MANIFEST_FILE

ENCODER = "e5"
VECTORS = "e5.npy"
"""Vectors (n, 384) of the passages, as float16."""
LABEL = "Demonstration text, not literature"
"""Shown as the publication type."""


def demo_knowledge_base() -> KnowledgeBase:
    """Open the demo knowledge base."""
    return KnowledgeBase.open(demo_folder())


def demo_folder() -> Path:
    """Return the folder of the demo knowledge base, which is built on first use.

    It is in the cache folder. Several processes may call this at once. Raises MissingExtraError if
    the encoder's package is missing, KnowledgeBaseError if the cache folder cannot be written.
    """
    made_of = json.dumps([version("briefcontext"), FORMAT_VERSION, ENCODER, LABEL]).encode()
    made_of += _read("passages.jsonl") + _read(VECTORS)
    folder = cache_folder() / f"demo-{sha256(made_of)[:16]}"
    try:
        if (folder / MANIFEST_FILE).exists():
            return folder

        from filelock import FileLock

        from briefcontext.knowledge.build import build_knowledge_base
        from briefcontext.knowledge.encoders import load_encoder

        encoder = load_encoder(ENCODER)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not (folder / MANIFEST_FILE).exists():
                build_knowledge_base(_documents(), folder, encoder=encoder)
    except OSError as error:
        raise KnowledgeBaseError(
            f"The demo knowledge base cannot be built in {folder.parent} ({error}): set "
            f"{CACHE_VARIABLE} to a folder "
            "that can be written."
        ) from error
    return folder


def demo_questions() -> list[dict[str, Any]]:
    """Return questions with `id`, `question`, `gold_ids`, and some with `options`, `answer`."""
    return _rows("questions.jsonl")


def _documents() -> list[VectorDocument]:
    same = {"kind": "demo", "publication_types": LABEL}
    vectors = np.load(io.BytesIO(_read(VECTORS)), allow_pickle=False).astype(np.float32)
    return [
        VectorDocument(
            Document(
                row["text"],
                id=row["id"],
                metadata={"source_id": row["id"], "title": row["title"], **same},
            ),
            vector,
        )
        for row, vector in zip(_rows("passages.jsonl"), vectors, strict=True)
    ]


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _read(name).splitlines()]


def _read(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
