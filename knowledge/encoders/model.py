"""A model that sentence-transformers runs, on a device that this machine has."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders.checkpoint import reading


class Model:
    """A model, one call at a time: its tokeniser keeps its padding and truncation as state. Thread-safe."""

    def __init__(self, folder: Path, read: Callable[[str], Any], device: str | None) -> None:
        """Read the weights; nothing is fetched from the network.

        Args:
            folder: the checkpoint.
            read: gives the model on a PyTorch device.
            device: that device; None chooses one.

        Raises:
            InputError: this machine has no such device.
            KnowledgeBaseError: the folder cannot be read as such a model, or it has no fast tokeniser.
        """
        device = choose_device(device)
        with reading(folder, "sentence-transformers"):
            self.model = read(device)
        if device.startswith("cuda"):
            self.model.half()
        # Texts in one forward pass, which bounds the memory that a pass takes.
        self._batch_size = 32 if device == "cpu" else 128
        self._lock = threading.Lock()
        backend = getattr(self.model.tokenizer, "backend_tokenizer", self.model.tokenizer)
        if not hasattr(backend, "to_str"):
            raise KnowledgeBaseError(
                f"the model {str(folder)!r} has no fast tokeniser, which BriefContext needs; use another model."
            )
        # A copy, which cuts nothing off and pads nothing, whatever the model does with its own.
        self._tokenizer = type(backend).from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def run(self, method: Callable[..., Any], texts: Sequence[Any], **options: Any) -> NDArray[np.float32]:
        """What a method of the model gives for texts or pairs of texts, `(n, …) float32`."""
        with self._lock:
            rows = method(list(texts), batch_size=self._batch_size, show_progress_bar=False, **options)
        return np.asarray(rows, np.float32)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character offsets `(start, end)` of each token."""
        offsets: list[tuple[int, int]] = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return offsets


def choose_device(device: str | None) -> str:
    """The PyTorch device to run on: `device` if given, else a CUDA GPU, else Apple's, else the CPU.

    Raises:
        InputError: this machine has no such device.
    """
    import torch

    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"device {device!r} cannot be used on this machine; leave it out, or give 'cpu', 'cuda' or 'mps'."
        ) from error
    return device
