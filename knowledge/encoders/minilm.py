"""all-MiniLM-L6-v2 on PyTorch alone: importing sentence-transformers takes longer than answering a question."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LAYERS = 6
_HEADS = 12
_TOKENS = 256


class MiniLM:
    """A BERT of six layers with the mean of its tokens' vectors, which is what sentence-transformers makes of it.

    Raises:
        OSError, ValueError, SafetensorError: the folder has not its weights and its tokeniser.
    """

    max_seq_length = _TOKENS
    prompts: Mapping[str, str] = {}

    def __init__(self, folder: Path, device: str) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        described = (folder / "tokenizer.json").read_text(encoding="utf-8")
        try:
            self.tokenizer = Tokenizer.from_str(described)
        except Exception as error:
            raise ValueError(f"tokenizer.json: {error}") from error
        self.tokenizer.enable_truncation(_TOKENS)
        self.tokenizer.enable_padding()
        self._weights = load_file(folder / "model.safetensors", device=device)
        self._device = device

    def half(self) -> None:
        """Go on in half precision."""
        self._weights = {name: weights.half() for name, weights in self._weights.items()}

    def encode(
        self, texts: Sequence[str], *, batch_size: int, show_progress_bar: bool = False, prompt: str = ""
    ) -> NDArray[np.float32]:
        """Return the texts' vectors, `(n, 384) float32`; those of about the same length are read together."""
        import torch

        places = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        vectors = np.empty((len(texts), 384), np.float32)
        with torch.inference_mode():
            for start in range(0, len(places), batch_size):
                batch = places[start : start + batch_size]
                vectors[batch] = self._means([prompt + texts[place] for place in batch]).float().cpu().numpy()
        return vectors

    encode_query = encode_document = encode

    def _means(self, texts: list[str]) -> Any:
        import torch
        from torch.nn import functional

        tokens = self.tokenizer.encode_batch(texts)
        ids = torch.tensor([each.ids for each in tokens], device=self._device)
        mask = torch.tensor([each.attention_mask for each in tokens], dtype=torch.bool, device=self._device)
        words, kinds, positions = (
            self._weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "token_type", "position")
        )
        hidden = self._normed("embeddings", words[ids] + kinds[0] + positions[: ids.shape[1]])
        for name in (f"encoder.layer.{number}" for number in range(_LAYERS)):
            query, key, value = (
                self._linear(f"{name}.attention.self.{part}", hidden).unflatten(-1, (_HEADS, -1)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
            read = self._linear(f"{name}.attention.output.dense", read.transpose(1, 2).flatten(2))
            hidden = self._normed(f"{name}.attention.output", read + hidden)
            inner = functional.gelu(self._linear(f"{name}.intermediate.dense", hidden))
            hidden = self._normed(f"{name}.output", self._linear(f"{name}.output.dense", inner) + hidden)
        counted = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * counted).sum(1) / counted.sum(1)

    def _linear(self, name: str, given: Any) -> Any:
        from torch.nn import functional

        return functional.linear(given, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normed(self, name: str, given: Any) -> Any:
        from torch.nn import functional

        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(given, weight.shape, weight, bias, eps=1e-12)
