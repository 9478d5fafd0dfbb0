"""The interface of encoders, and any LangChain embeddings as one."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError


@runtime_checkable
class Encoder(Protocol):
    """Embeds questions and passages in one vector space. Thread-safe."""

    @property
    def name(self) -> str:
        """The name for `load_encoder`."""

    @property
    def revision(self) -> str:
        """A commit or a checksum of the weights; empty if unknown."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def metric(self) -> Literal["cosine", "ip"]:
        """`cosine` (unit vectors) or `ip` (inner product of vectors as the model gives them)."""

    @property
    def text_format(self) -> str:
        """A description of the text that is embedded."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, `(n, dimension) float32`."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the vectors of `(title, text)` pairs, `(n, dimension) float32`."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the offsets `(start, end)` of all tokens, without special ones."""


def title_of(document: Document) -> str:
    """Return the title in a document's metadata, or ""."""
    return str(document.metadata.get("title") or "")


def title_and_text(document: Document) -> tuple[str, str]:
    """Return title and text; the text is empty if it repeats the title.

    NCBI's MedCPT vectors have such records as [title, ""].
    """
    title = title_of(document)
    return title, "" if document.page_content == title else document.page_content


def titled_text(title: str, text: str) -> str:
    """Return `Title. Text`, as MedCPT's authors join the two (github.com/ncbi/MedCPT)."""
    title = title.strip()
    if not title or not text:
        return title or text
    return f"{title} {text}" if title[-1] in ".!?" else f"{title}. {text}"


def unit_vectors(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return vectors `(n, d)` of unit length as float32; a zero vector stays zero."""
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


class EmbeddingsEncoder:
    """LangChain `Embeddings` as an `Encoder`: cosine similarity of unit vectors.

    A token is a run of letters, digits and underscores, or another character. After
    `register_encoder` a base opens with it by its name.
    """

    metric: Literal["cosine"] = "cosine"
    text_format = "question: <question>; passage: <title. text>, the text alone without a title"

    def __init__(self, embeddings: Embeddings, *, name: str, revision: str = "") -> None:
        self.name = name
        self.revision = revision
        self._embeddings = embeddings

    @cached_property
    def dimension(self) -> int:
        """The length of a vector."""
        return len(self._embeddings.embed_query("dimension"))

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._checked([self._embeddings.embed_query(text) for text in texts], len(texts))

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        texts = [titled_text(title, text) for title, text in passages]
        return self._checked(self._embeddings.embed_documents(texts) if texts else [], len(texts))

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def _checked(self, vectors: list[list[float]], expected: int) -> NDArray[np.float32]:
        lengths = {len(vector) for vector in vectors} or {self.dimension}
        if len(vectors) != expected or lengths != {self.dimension}:
            raise KnowledgeBaseError(
                f"The embeddings {self.name!r} returned {len(vectors)} vectors of "
                f"{sorted(lengths)} numbers, not {expected} of {self.dimension}: use others."
            )
        return unit_vectors(np.asarray(vectors, dtype=np.float32).reshape(expected, self.dimension))
