"""Model checkpoints: finding, identifying and running them."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, first_line, needing
from briefcontext.files import file_sha256, sha256

_OTHER_FRAMEWORKS = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf"]


def check_installed(user: str) -> None:
    """Raise MissingExtraError if sentence-transformers is not installed."""
    with needing("encoders", f"{user} needs the package sentence-transformers"):
        import_module("sentence_transformers")


def open_cross_encoder(folder: Path, tokens: int) -> "Model":
    """Open the cross-encoder in a folder; its outputs are logits."""

    def read() -> Any:
        from sentence_transformers import CrossEncoder
        from torch.nn import Identity

        return CrossEncoder(
            str(folder),
            max_length=tokens,
            activation_fn=Identity(),
            local_files_only=True,
            trust_remote_code=False,
        )

    return Model(folder, read)


def find_checkpoint(source: str, *, needs: str, option: str) -> Path:
    """Return the folder of a checkpoint, or of a Hugging Face model, which may be downloaded.

    It must have the file `needs`. `option` names a folder with these weights in error messages.
    Raises KnowledgeBaseError if there is none.
    """
    folder = Path(source).expanduser()
    if not folder.is_dir():
        folder = _snapshot(source, needs, option)
    if not _is_complete(folder, needs):
        raise KnowledgeBaseError(
            f"{str(folder)!r} is not a model's folder: it needs {needs} and weights (*.safetensors "
            "or *.bin)."
        )
    return folder


def _snapshot(repository: str, needs: str, option: str) -> Path:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    cached = ""
    try:
        try:
            cached = snapshot_download(
                repository, ignore_patterns=_OTHER_FRAMEWORKS, local_files_only=True
            )
        except LocalEntryNotFoundError as error:
            # A snapshot without all files may have the necessary ones.
            cached = getattr(error, "snapshot_path", None) or ""
        if cached and _is_complete(Path(cached), needs):
            return Path(cached)
        return Path(snapshot_download(repository, ignore_patterns=_OTHER_FRAMEWORKS))
    except HFValidationError as error:
        raise KnowledgeBaseError(
            f"{repository!r} is neither a folder nor a model's name: give {option}."
        ) from error
    except (OSError, httpx.HTTPError) as error:
        raise KnowledgeBaseError(
            f"The weights of {repository!r} could not be downloaded ({first_line(error)}): run "
            f"`hf download {repository}` where there is a network, or give {option}."
        ) from error


def _is_complete(folder: Path, needs: str) -> bool:
    return (folder / needs).is_file() and bool(_weight_files(folder))


def _weight_files(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    safe = [file for file in files if file.suffix == ".safetensors"]
    return safe or [file for file in files if file.suffix == ".bin"]


def revision_of(folder: Path) -> str:
    """Return the commit of a Hugging Face snapshot, else a SHA-256 of the weights."""
    if folder.parent.name == "snapshots":
        return folder.name
    digests = (bytes.fromhex(file_sha256(file)) for file in _weight_files(folder))
    return f"sha256:{sha256(b''.join(digests))}"


class Model:
    """A model that runs one call at a time. Thread-safe."""

    def __init__(self, folder: Path, read: Callable[[], Any]) -> None:
        """Load a model on a GPU if there is one, in half precision on CUDA.

        Raises KnowledgeBaseError if it cannot be read, or has no fast tokeniser.
        """
        with _reading(folder):
            self.model = read()
        device = self.model.device.type
        if device == "cuda":
            self.model.half()
        self._batch_size = 32 if device == "cpu" else 128
        self._lock = threading.Lock()
        backend = getattr(self.model.tokenizer, "backend_tokenizer", self.model.tokenizer)
        if not hasattr(backend, "to_str"):
            raise KnowledgeBaseError(f"{str(folder)!r} has no fast tokeniser: use another model.")
        # A copy, which neither cuts nor pads.
        self._tokenizer = type(backend).from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def run(
        self, method: Callable[..., Any], texts: Sequence[Any], **options: Any
    ) -> NDArray[np.float32]:
        """Return the result of a method for texts or pairs of texts, `(n, …) float32`."""
        options |= {"batch_size": self._batch_size, "show_progress_bar": False}
        with self._lock:
            rows = method(list(texts), **options)
        return np.asarray(rows, np.float32)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return list(encoding.offsets)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Read weights without output on standard error. Errors become a KnowledgeBaseError."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    transformers: Any = import_module("transformers.utils.logging")
    bars, verbosity = transformers.is_progress_bar_enabled(), transformers.get_verbosity()
    library = logging.getLogger("sentence_transformers")
    level = library.level
    transformers.disable_progress_bar()
    transformers.set_verbosity_error()
    library.setLevel(logging.ERROR)
    try:
        yield
    except UnpicklingError as error:
        raise KnowledgeBaseError(
            f"{str(folder)!r} cannot be read: its pickled weights could run code. "
            "Use *.safetensors."
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise KnowledgeBaseError(
            f"{str(folder)!r} cannot be read as a sentence-transformers model "
            f"({first_line(error)}): check the path, or fetch the model again."
        ) from error
    finally:
        library.setLevel(level)
        transformers.set_verbosity(verbosity)
        if bars:
            transformers.enable_progress_bar()
