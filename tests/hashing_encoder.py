"""An encoder without a model: it hashes words to directions."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass
class HashingEncoder:
    """Deterministic, fast, and counts the passages that it encodes."""

    name: str = "hashing"
    revision: str = "1"
    dimension: int = 16
    metric: Literal["cosine", "ip"] = "cosine"
    text_format: str = "title and text"
    encoded: int = field(default=0, compare=False)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vector(text) for text in texts])

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        self.encoded += len(passages)
        return np.stack([self._vector(f"{title} {text}") for title, text in passages])

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def _vector(self, text: str) -> NDArray[np.float32]:
        total = np.full(self.dimension, 0.01)
        for word in re.findall(r"\w+", text.lower()):
            total += _direction(word, self.dimension)
        if self.metric == "cosine":
            total /= np.linalg.norm(total)
        return total.astype(np.float32)


@lru_cache(100_000)
def _direction(word: str, dimension: int) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
    return np.random.default_rng(seed).normal(size=dimension)
