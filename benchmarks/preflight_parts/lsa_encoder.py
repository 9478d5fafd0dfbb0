"""Latent semantic analysis as an encoder: another kind of dense vector, made of the corpus itself."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from briefcontext.knowledge.store.terms import lexical_text, tokenize

DIMENSION = 256


class LSAEncoder:
    """TF-IDF over the terms of BM25, reduced to 256 dimensions by a truncated singular value decomposition."""

    name = "lsa"
    revision = "1"
    dimension = DIMENSION
    metric: Literal["cosine", "ip"] = "cosine"
    text_format = "title and text"

    def __init__(self, passages: Sequence[Document], seed: int = 0) -> None:
        self._terms = TfidfVectorizer(
            tokenizer=tokenize, token_pattern=None, lowercase=False, sublinear_tf=True, min_df=2
        )
        counted = self._terms.fit_transform(
            [lexical_text(passage.metadata["title"], passage.page_content) for passage in passages]
        )
        self._reduced = TruncatedSVD(DIMENSION, random_state=seed, n_iter=3).fit(counted)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._reduced.transform(self._terms.transform(texts))
        vectors[:, 0] += 1e-6  # A text without a known term would have no direction.
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self.encode_queries([lexical_text(title, text) for title, text in passages])

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError("Whole passages are encoded, and none is cut.")
