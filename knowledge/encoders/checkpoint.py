"""Model checkpoints: their folders and revisions."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from briefcontext.errors import KnowledgeBaseError, first_line
from briefcontext.files import file_sha256

WEIGHT_SUFFIXES = (".safetensors", ".bin")
"""File endings of PyTorch weights; a checkpoint holds at least one such file."""

_OTHER_FRAMEWORKS = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf"]


def find_checkpoint(source: str, *, needs: str, local_option: str) -> Path:
    """Return the folder of a checkpoint.

    That is `source` itself where it is a folder, else the copy of the Hugging Face model of that name in the local
    cache, downloaded first if it is not there. A model in the cache is used as it is, without asking the network.

    Args:
        source: a folder, or a model's name on the Hugging Face hub.
        needs: a file that the folder must hold besides its weights, such as `config.json`.
        local_option: how a person points to a folder with these weights, for the error message.

    Raises:
        KnowledgeBaseError: the folder is not a checkpoint, or the weights are not in the cache and cannot be
            downloaded.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return _checked(folder, needs)
    if folder.is_absolute():
        raise KnowledgeBaseError(
            f"there is no folder {source!r} to load a model from; give one that exists: {local_option}."
        )

    from huggingface_hub.errors import HFValidationError

    try:
        cached = _cached_snapshot(source)
        if cached is not None and _is_complete(cached, needs):
            return cached
        return _checked(_download(source, local_option), needs)
    except HFValidationError as error:
        raise KnowledgeBaseError(
            f"{source!r} is neither a folder nor a model's name on the Hugging Face hub; give one of the two."
        ) from error


def _cached_snapshot(repository: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, ignore_patterns=_OTHER_FRAMEWORKS, local_files_only=True))
    except LocalEntryNotFoundError as error:
        # A snapshot without all the repository's files may still have the ones that matter.
        partial: str | None = getattr(error, "snapshot_path", None)
        return None if partial is None else Path(partial)


def _download(repository: str, local_option: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    # A connection that breaks midway raises the HTTP library's own error; which library that is depends on
    # the version of huggingface_hub. The bases are that library's root error, and OSError.
    failures = cast("tuple[type[Exception], ...]", HfHubHTTPError.__bases__)
    try:
        return Path(snapshot_download(repository, ignore_patterns=_OTHER_FRAMEWORKS))
    except failures as error:
        raise KnowledgeBaseError(
            f"the weights of {repository!r} are not on this machine and could not be downloaded "
            f"({first_line(error)}); run `hf download {repository}` where there is a network, "
            f"or give a folder that holds them: {local_option}."
        ) from error


def _checked(folder: Path, needs: str) -> Path:
    if not _is_complete(folder, needs):
        raise KnowledgeBaseError(
            f"{str(folder)!r} is not a model's folder: it needs {needs} and a weights file "
            f"({' or '.join('*' + suffix for suffix in WEIGHT_SUFFIXES)}); check the path."
        )
    return folder


def _is_complete(folder: Path, needs: str) -> bool:
    return (folder / needs).is_file() and bool(weight_files(folder))


def weight_files(folder: Path) -> list[Path]:
    """The weights under a checkpoint's folder, in order; safetensors alone where there are both kinds."""
    for suffix in WEIGHT_SUFFIXES:
        found = sorted(file for file in folder.rglob(f"*{suffix}") if file.is_file())
        if found:
            return found
    return []


def revision_of(folder: Path) -> str:
    """Return which weights a folder holds: the commit of a Hugging Face snapshot, else a SHA-256 of the weights."""
    if folder.parent.name == "snapshots":
        return folder.name
    digest = hashlib.sha256()
    for file in weight_files(folder):
        digest.update(bytes.fromhex(file_sha256(file)))
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def reading(folder: Path, kind: str) -> Iterator[None]:
    """Read a model's weights quietly; what is wrong with them becomes one line.

    Raises:
        KnowledgeBaseError: the folder cannot be read as a model of that kind.
    """
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    try:
        with _quiet_loading():
            yield
    except UnpicklingError as error:
        raise KnowledgeBaseError(
            f"{str(folder)!r} cannot be read as a {kind} model: its pickled weights hold more than numbers, which "
            "could run code and is not read; find out where they come from, or take *.safetensors."
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise KnowledgeBaseError(
            f"{str(folder)!r} cannot be read as a {kind} model ({first_line(error)}); "
            "check the path, or fetch the model again."
        ) from error


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """No progress bars and no advice on standard error while weights are read from the disk."""
    transformers_logging: Any = import_module("transformers.utils.logging")
    bars = transformers_logging.is_progress_bar_enabled()
    verbosity = transformers_logging.get_verbosity()
    sentence_transformers = logging.getLogger("sentence_transformers")
    level = sentence_transformers.level
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    sentence_transformers.setLevel(logging.ERROR)
    try:
        yield
    finally:
        sentence_transformers.setLevel(level)
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
