"""What the notes on an answer say, for the tests."""

from collections.abc import Mapping
from typing import Any


def messages(answer: Mapping[str, Any], *kinds: str) -> list[str]:
    """Return the messages of the notes of some kinds, or of all."""
    return [note["message"] for note in answer["notes"] if not kinds or note["kind"] in kinds]


def kinds(answer: Mapping[str, Any], *levels: str) -> list[str]:
    """Return the kinds of the notes of some levels, or of all."""
    return [note["kind"] for note in answer["notes"] if not levels or note["level"] in levels]
