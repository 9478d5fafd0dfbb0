"""MedCPT, the dense retriever trained on PubMed search logs, run as its authors run it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.knowledge.encoders.checkpoint import find_checkpoint, revision_of
from briefcontext.knowledge.encoders.model import Model

QUERY_MODEL = "ncbi/MedCPT-Query-Encoder"
ARTICLE_MODEL = "ncbi/MedCPT-Article-Encoder"

QUERY_TOKENS = 64
ARTICLE_TOKENS = 512
"""Both limits: README of github.com/ncbi/MedCPT, and the model cards."""


class MedCPTEncoder:
    """Questions by one model, articles by another, in one space of 768 numbers compared by inner product.

    An article is the pair of its title and its text, and the vector is that of [CLS] in the last layer, not
    normalised, so that it can be compared with NCBI's published vectors of PubMed. An article without a title
    keeps its place for one: the pair of an empty text and its text, as in the authors' evaluation on
    collections without titles (`evals/models.py` of github.com/ncbi/MedCPT).
    """

    metric: Literal["ip"] = "ip"
    text_format = (
        f"question: <question>, its first {QUERY_TOKENS} tokens; passage: the pair [<title>, <text>], "
        f"the title empty where there is none, cut to {ARTICLE_TOKENS} tokens together; the vector of [CLS]"
    )

    def __init__(self, folder: Path | None = None, *, device: str | None = None) -> None:
        """Read both models from the Hugging Face hub or its local cache, or from a folder.

        Args:
            folder: holds the folders `MedCPT-Query-Encoder` and `MedCPT-Article-Encoder`, as they are named
                on the hub.
            device: a PyTorch device; None chooses one.

        Raises:
            InputError: this machine has no such device.
            KnowledgeBaseError: the weights are missing and cannot be downloaded, or cannot be read.
        """
        self.name = "medcpt" if folder is None else f"medcpt:{folder}"
        query, article = (
            find_checkpoint(
                model if folder is None else str(folder / model.partition("/")[2]),
                needs="config.json",
                local_option="medcpt:/path, with MedCPT-Query-Encoder and MedCPT-Article-Encoder in it",
            )
            for model in (QUERY_MODEL, ARTICLE_MODEL)
        )
        self.revision = f"query {revision_of(query)}, article {revision_of(article)}"
        self._query = Model(query, lambda device: _cls_model(query, QUERY_TOKENS, device), device)
        self._article = Model(article, lambda device: _cls_model(article, ARTICLE_TOKENS, device), device)
        self.dimension: int = self._article.model.get_embedding_dimension()
        self.token_offsets = self._article.token_offsets

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._query.run(self._query.model.encode, texts).reshape(len(texts), self.dimension)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._article.run(self._article.model.encode, passages).reshape(len(passages), self.dimension)


def _cls_model(folder: Path, tokens: int, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    safely = {"local_files_only": True, "trust_remote_code": False}
    options: Any = dict.fromkeys(("model_kwargs", "processor_kwargs", "config_kwargs"), safely)
    transformer = Transformer(str(folder), max_seq_length=tokens, **options)
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    return SentenceTransformer(modules=[transformer, pooling], device=device)
