"""Character offsets of a model's tokens."""

from typing import Any

from briefcontext.errors import KnowledgeBaseError


class OffsetTokenizer:
    """A copy of a model's tokeniser that cuts nothing off, pads nothing and adds no special tokens.

    A copy, because the model's own changes its truncation and padding with each call, which two threads must
    not do at once.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        """Wrap a model's tokenizer.

        Args:
            tokenizer: the model's, from transformers or tokenizers.
            name: the model's, for the error message.

        Raises:
            KnowledgeBaseError: it is not a fast tokeniser, so the places of its tokens are unknown.
        """
        from tokenizers import Tokenizer

        backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise KnowledgeBaseError(
                f"the model {name!r} has no fast tokeniser, which BriefContext needs; use another model."
            )
        self._tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character offsets `(start, end)` of each token."""
        offsets: list[tuple[int, int]] = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return offsets
