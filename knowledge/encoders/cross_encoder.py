"""MedCPT's cross-encoder: a score for a question and a passage read together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders.checkpoint import find_checkpoint, revision_of
from briefcontext.knowledge.encoders.encoder import titled_text
from briefcontext.knowledge.encoders.transformer import Transformer

CROSS_ENCODER_MODEL = "ncbi/MedCPT-Cross-Encoder"

CROSS_ENCODER_TOKENS = 512
"""Of question and passage together: README of github.com/ncbi/MedCPT, and the model card."""


class CrossEncoderScorer:
    """Scores passages for a question, slower and finer than comparing vectors. Thread-safe."""

    def __init__(self, folder: Path | None = None, *, device: str | None = None) -> None:
        """Read the model from the Hugging Face hub or its local cache, or from a folder.

        Args:
            folder: a checkpoint with one output, such as a copy of MedCPT-Cross-Encoder.
            device: a PyTorch device; None chooses one.

        Raises:
            InputError: this machine has no such device.
            KnowledgeBaseError: the weights are missing and cannot be downloaded, or cannot be read, or the
                model has not exactly one output.
        """
        checkpoint = find_checkpoint(
            CROSS_ENCODER_MODEL if folder is None else str(folder),
            needs="config.json",
            local_option="CrossEncoderScorer(Path('/path/to/MedCPT-Cross-Encoder'))",
        )
        self.name = CROSS_ENCODER_MODEL if folder is None else str(folder)
        self.revision = revision_of(checkpoint)
        self._model = Transformer(
            checkpoint,
            architecture="AutoModelForSequenceClassification",
            max_tokens=CROSS_ENCODER_TOKENS,
            output=_logits,
            device=device,
        )
        outputs = self._model.run([("", "")]).shape[1]
        if outputs != 1:
            raise KnowledgeBaseError(
                f"{self.name!r} has {outputs} outputs, but a cross-encoder has one; use another model."
            )

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return how well each `(title, text)` passage answers the question, `(n,) float32`; higher is better.

        A score is the model's logit, which has no fixed range. Title and text are joined as `Title. Text`, as
        the authors do.
        """
        if not passages:
            return np.empty(0, dtype=np.float32)
        return self._model.run([(query, titled_text(title, text)) for title, text in passages])[:, 0]


def _logits(output: Any) -> Any:
    return output.logits
