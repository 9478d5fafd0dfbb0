"""The vectors of new passages."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build.ingest import is_storable
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.store.passages import NewPassage

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

__all__ = ["encode"]


def encode(encoder: "Encoder", passages: list[NewPassage]) -> NDArray[np.float32]:
    """One vector a passage, (n, d) float32: its own where it has one.

    Raises KnowledgeBaseError when the encoder gives anything else.
    """
    vectors = np.empty((len(passages), encoder.dimension), np.float32)
    texts: list[int] = []
    for row, passage in enumerate(passages):
        if passage.vector is None:
            texts.append(row)
        else:
            vectors[row] = passage.vector
    if texts:
        encoded = encoder.encode_passages(
            [title_and_text(passages[row].title, passages[row].document.page_content) for row in texts]
        )
        if encoded.shape != (len(texts), encoder.dimension) or not is_storable(encoded):
            raise KnowledgeBaseError(
                f"The encoder {encoder.name!r} gave vectors of shape {encoded.shape}, or values that are not "
                f"finite, where {(len(texts), encoder.dimension)} is needed: check the model and its device."
            )
        vectors[texts] = encoded
    return vectors
