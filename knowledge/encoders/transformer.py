"""A transformer checkpoint run over many texts, as the MedCPT models need it."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.knowledge.encoders.checkpoint import reading
from briefcontext.knowledge.encoders.device import batch_size, choose_device


class Transformer:
    """A tokeniser, a model, and the number of tokens at which texts are cut. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        *,
        architecture: str,
        max_tokens: int,
        output: Callable[[Any], Any],
        device: str | None = None,
    ) -> None:
        """Read the weights; nothing is fetched from the network.

        Args:
            folder: the checkpoint.
            architecture: which of transformers' auto classes reads it, such as `AutoModel`.
            max_tokens: where a text, or a pair of texts together, is cut, special tokens included.
            output: takes `(n, d)` numbers from what the model returns.
            device: a PyTorch device; None chooses one.

        Raises:
            InputError: this machine has no such device.
            KnowledgeBaseError: the folder cannot be read as a checkpoint.
        """
        import transformers

        self._device = choose_device(device)
        self._max_tokens = max_tokens
        self._output = output
        self._lock = threading.Lock()
        # Safetensors are taken where there are both kinds of weights.
        safely: Any = {"local_files_only": True, "trust_remote_code": False}
        with reading(folder, "transformers"):
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safely)
            model = getattr(transformers, architecture).from_pretrained(folder, **safely)
        model = model.eval().to(self._device)
        self._model = model.half() if self._device.startswith("cuda") else model
        self.width: int = model.config.hidden_size

    def run(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """The model's output for each text or pair of texts, `(n, d) float32`, in the order given."""
        import torch

        lengths = [len(text) if isinstance(text, str) else len(text[0]) + len(text[1]) for text in texts]
        # Texts of like length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lengths.__getitem__, reverse=True)
        size = batch_size(self._device)
        rows: list[NDArray[np.float32]] = []
        # One call at a time: the tokeniser keeps its padding and truncation as state.
        with self._lock, torch.inference_mode():
            for begin in range(0, len(order), size):
                encoded = self.tokenizer(
                    [texts[position] for position in order[begin : begin + size]],
                    truncation=True,
                    padding=True,
                    max_length=self._max_tokens,
                    return_tensors="pt",
                )
                output = self._output(self._model(**encoded.to(self._device)))
                rows.append(output.float().cpu().numpy())
        sorted_rows = np.concatenate(rows)
        restored = np.empty_like(sorted_rows)
        restored[order] = sorted_rows
        return restored
