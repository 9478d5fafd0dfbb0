"""MedCPT's cross-encoder: a score for a question and a passage read together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders.checkpoint import Model, find_checkpoint
from briefcontext.knowledge.encoders.encoder import titled_text

CROSS_ENCODER_TOKENS = 512
"""Of question and passage together: README of github.com/ncbi/MedCPT, and the model card."""


class CrossEncoderScorer:
    """Scores passages for a question, slower and finer than comparing vectors. Thread-safe."""

    def __init__(self, folder: Path | None = None, *, device: str | None = None) -> None:
        """Read the model from the Hugging Face hub or its local cache, or from a folder with a copy of it.

        Raises:
            InputError: this machine has no such PyTorch device; None chooses one.
            KnowledgeBaseError: the weights are missing and cannot be downloaded, or cannot be read, or the
                model has not exactly one output.
        """
        checkpoint = find_checkpoint(
            "ncbi/MedCPT-Cross-Encoder" if folder is None else str(folder),
            needs="config.json",
            local_option="CrossEncoderScorer(Path('/path/to/MedCPT-Cross-Encoder'))",
        )

        def read(device: str) -> Any:
            from sentence_transformers import CrossEncoder
            from torch.nn import Identity

            return CrossEncoder(
                str(checkpoint),
                device=device,
                max_length=CROSS_ENCODER_TOKENS,
                activation_fn=Identity(),
                local_files_only=True,
                trust_remote_code=False,
            )

        self._model = Model(checkpoint, read, device)
        if (outputs := self._model.model.num_labels) != 1:
            raise KnowledgeBaseError(
                f"{str(checkpoint)!r} has {outputs} outputs, but a cross-encoder has one; use another model."
            )

    def score(self, query: str, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return how well each `(title, text)` passage answers the question, `(n,) float32`; higher is better.

        A score is the model's logit, which has no fixed range. Title and text are joined as `Title. Text`, as
        the authors do.
        """
        pairs = [(query, titled_text(title, text)) for title, text in passages]
        return self._model.run(self._model.model.predict, pairs)
