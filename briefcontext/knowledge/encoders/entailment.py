"""Entailment models: cross-encoders that compare a sentence with a passage."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders.checkpoint import (
    check_installed,
    find_checkpoint,
    open_cross_encoder,
)

TOKENS = 512
"""The most tokens of a passage and a sentence together."""

Entailment = Literal["supported", "contradicted", "not_stated"]
_LABELS: dict[str, Entailment] = {
    "entail": "supported",
    "support": "supported",
    "contradict": "contradicted",
    "refute": "contradicted",
}
"""Verdicts by the beginnings of label names; other labels mean "not stated"."""


class EntailmentModel:
    """A cross-encoder for natural language inference or fact checking. Thread-safe.

    Of two labels without names, the second means "supported", as in MiniCheck. A single output is
    the log-odds of that.
    """

    def __init__(self, name: str) -> None:
        """Read a model from a folder, or by its name from the Hugging Face hub.

        Raises KnowledgeBaseError if it cannot be read, MissingExtraError without
        sentence-transformers.
        """
        self.name = name
        check_installed("a cross-encoder")
        folder = find_checkpoint(name, needs="config.json", option="cross-encoder:/path/to/model")
        self._model = open_cross_encoder(folder, TOKENS)
        self._labels = _meanings(name, self._model.model)

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[dict[Entailment, float]]:
        """Return the probability of each verdict for pairs of a passage and a sentence."""
        scores = self._model.run(self._model.model.predict, pairs).reshape(len(pairs), -1)
        return [self._probabilities(row) for row in scores.astype(np.float64)]

    def _probabilities(self, row: NDArray[np.float64]) -> dict[Entailment, float]:
        if len(row) == 1:
            supported = float(1 / (1 + np.exp(-row[0])))
            return {"supported": supported, "contradicted": 0.0, "not_stated": 1 - supported}
        powers = np.exp(row - row.max())
        result: dict[Entailment, float] = {"supported": 0.0, "contradicted": 0.0, "not_stated": 0.0}
        for label, share in zip(self._labels, powers / powers.sum(), strict=True):
            result[label] += float(share)
        return result


def _meanings(name: str, model: Any) -> list[Entailment]:
    count, names = int(model.num_labels), model.config.id2label
    if count == 1:
        return ["supported"]
    labels = [str(names[place]).lower() for place in range(count)]
    meanings = [_meaning(label) for label in labels]
    if "supported" in meanings:
        return meanings
    if count == 2 and all(label.startswith("label_") for label in labels):
        return ["not_stated", "supported"]
    raise KnowledgeBaseError(
        f"The labels of {name!r} are {', '.join(labels)}. Use a model with the labels entailment, "
        "neutral and contradiction."
    )


def _meaning(label: str) -> Entailment:
    return next(
        (verdict for word, verdict in _LABELS.items() if label.startswith(word)), "not_stated"
    )
