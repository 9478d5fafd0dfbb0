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
    """Embeds questions and passages in one vector space. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """What `load_encoder` takes to load it again; for an `EmbeddingsEncoder`, the name it was given."""

    @property
    def revision(self) -> str:
        """Which weights these are: a commit or a checksum; empty where unknown."""

    @property
    def dimension(self) -> int:
        """Length of one vector."""

    @property
    def metric(self) -> Literal["cosine", "ip"]:
        """`cosine` (unit vectors) or `ip` (inner product of vectors as the model gives them)."""

    @property
    def text_format(self) -> str:
        """For people: what text is embedded, and how much of it."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of questions, `(n, dimension) float32`, in the order given."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Vectors of `(title, text)` passages, `(n, dimension) float32`, in the order given; a title may be empty."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character offsets `(start, end)` of each token of `text`: no special tokens, nothing cut off."""


def title_of(document: Document) -> str:
    """The title in a document's metadata; "" where it has none."""
    return str(document.metadata.get("title") or "")


def title_and_text(document: Document) -> tuple[str, str]:
    """The pair that stands for a passage: the title of a record that has only a title stands once, without a text.

    NCBI's published MedCPT vectors hold such records as [title, ""].
    """
    title = title_of(document)
    return title, "" if document.page_content == title else document.page_content


def titled_text(title: str, text: str) -> str:
    """A title and a text as one running text, `Title. Text`; either may be empty.

    This is how the MedCPT authors join the two for their cross-encoder (README of
    github.com/ncbi/MedCPT).
    """
    title = title.strip()
    if not title or not text:
        return title or text
    return f"{title} {text}" if title[-1] in ".!?" else f"{title}. {text}"


def unit_vectors(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Vectors `(n, d)` scaled to unit length, as float32; a zero vector stays zero."""
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


class EmbeddingsEncoder:
    """LangChain `Embeddings`, local or of a provider, as an `Encoder`: cosine similarity of unit vectors.

    The tokeniser of such a model is out of reach, so a token here is a run of letters, digits and
    underscores, or one other character that is not white space. A knowledge base built with it is
    opened with it, or by its name after `register_encoder`. Errors of the embeddings come through
    as they are.
    """

    metric: Literal["cosine"] = "cosine"
    text_format = "question: <question>; passage: <title. text>, the text alone without a title"

    def __init__(self, embeddings: Embeddings, *, name: str, revision: str = "") -> None:
        """Wrap LangChain embeddings, which are called from several threads at once if this encoder is.

        A knowledge base's manifest keeps the name and the revision, and they are compared when it
        is opened.
        """
        self.name = name
        self.revision = revision
        self._embeddings = embeddings

    @cached_property
    def dimension(self) -> int:
        """Length of one vector; found by embedding one word, once."""
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
                f"the embeddings {self.name!r} returned {len(vectors)} vectors of "
                f"{sorted(lengths)} numbers "
                f"for {expected} texts, not {expected} of {self.dimension}; use other embeddings."
            )
        return unit_vectors(np.asarray(vectors, dtype=np.float32).reshape(expected, self.dimension))
