"""Sentences of a text, with their places."""

import sentencex

__all__ = ["split_sentences"]


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return the character offsets (start, end) of the sentences of an English text, white space trimmed."""
    spans = []
    position = 0
    for piece in sentencex.segment("en", text):
        start = text.index(piece, position)
        position = start + len(piece)
        words = piece.strip()
        if words:
            start += len(piece) - len(piece.lstrip())
            spans.append((start, start + len(words)))
    return spans
