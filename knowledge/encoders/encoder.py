"""The interface of encoders."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


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


def title_and_text(title: str, text: str) -> tuple[str, str]:
    """The pair that stands for a passage: the title of a record that has only a title stands once, without a text.

    NCBI's published MedCPT vectors hold such records as [title, ""].
    """
    return title, "" if text == title else text


def titled_text(title: str, text: str) -> str:
    """A title and a text as one running text, `Title. Text`; either may be empty.

    This is how the MedCPT authors join the two for their cross-encoder (README of github.com/ncbi/MedCPT).
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
