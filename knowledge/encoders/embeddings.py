"""Any LangChain embeddings as an encoder."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import titled_text, unit_vectors

_WORD = re.compile(r"\w+|[^\w\s]")


class EmbeddingsEncoder:
    """LangChain `Embeddings`, local or of a provider, as an `Encoder`: cosine similarity of unit vectors.

    The tokeniser of such a model is out of reach, so a token here is a run of letters, digits and
    underscores, or one other character that is not white space. A knowledge base built with it must be opened
    with it too: the manifest keeps its name, from which it cannot be loaded. Errors of the embeddings come
    through as they are.
    """

    metric: Literal["cosine"] = "cosine"
    text_format = "question: <question>; passage: <title. text>, the text alone without a title"

    def __init__(self, embeddings: Embeddings, *, name: str, revision: str = "") -> None:
        """Wrap LangChain embeddings.

        Args:
            embeddings: what embeds; called from several threads at once if this encoder is.
            name: goes into a knowledge base's manifest and is compared when it is opened.
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
        return [match.span() for match in _WORD.finditer(text)]

    def _checked(self, vectors: list[list[float]], expected: int) -> NDArray[np.float32]:
        lengths = {len(vector) for vector in vectors} or {self.dimension}
        if len(vectors) != expected or lengths != {self.dimension}:
            raise KnowledgeBaseError(
                f"the embeddings {self.name!r} returned {len(vectors)} vectors of {sorted(lengths)} numbers "
                f"for {expected} texts, not {expected} of {self.dimension}; use other embeddings."
            )
        return unit_vectors(np.asarray(vectors, dtype=np.float32).reshape(expected, self.dimension))
