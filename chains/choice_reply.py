"""The forms that a reply may have: Unicode variants, reasoning tags, JSON, boxes and answer tags."""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from briefcontext.chains.reasoning import without_reasoning

__all__ = ["answer_fields", "boxed_answers", "plain"]

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "′": "'"})
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_TAGGED = re.compile(r"<(final_?answer|answer|choice)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mathbf|bf)\s*\{([^{}]*)\}")
_FIELD = re.compile(
    r"[\"'](?:final_?|correct_?|selected_?)?(?:answer|choice|option)(?:_?(?:choice|letter"
    r"|option))?[\"']\s*:\s*[\"']([^\"'\n]*)[\"']",
    re.IGNORECASE,
)
_KEYS = frozenset(
    (
        "answer",
        "answerchoice",
        "answerletter",
        "answeroption",
        "finalanswer",
        "correctanswer",
        "choice",
        "finalchoice",
        "correctchoice",
        "selectedchoice",
        "option",
        "correctoption",
        "selectedoption",
        "selectedanswer",
        "selection",
        "prediction",
        "response",
    )
)


def plain(output: str) -> str:
    """Bring compatible characters (full width, bold, circled) to plain ones, and drop reasoning in tags."""
    text = unicodedata.normalize("NFKC", output).translate(_QUOTES)
    text = (
        "".join(mark for mark in text if unicodedata.category(mark) != "Cf").replace("\r\n", "\n").replace("\r", "\n")
    )
    return without_reasoning(text)


def answer_fields(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and answer of every outermost JSON object that has an answer field.

    A field that is null, or holds more than one answer, is an answer that determines nothing: "".
    """
    decoder = json.JSONDecoder(strict=False)
    at, spans = 0, []
    while (at := text.find("{", at)) >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(value, dict) and (answer := _answer(value)) is not None:
            yield at, end, answer
            spans.append((at, end))
        at = end
    for field in _FIELD.finditer(text):
        # JSON that is cut off or has the wrong quotes.
        if not any(start <= field.start() < end for start, end in spans):
            yield field.start(), field.end(), field[1]


def _answer(fields: dict[str, Any]) -> str | None:
    values = [value for key, value in fields.items() if re.sub(r"[^a-z]", "", key.casefold()) in _KEYS]
    if not values:
        inner = [
            answer for value in fields.values() if isinstance(value, dict) and (answer := _answer(value)) is not None
        ]
        return inner[0] if len(inner) == 1 else None
    texts = {_text(value) for value in values}
    return texts.pop() if len(texts) == 1 else " or ".join(sorted(texts))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return " and ".join(_text(each) for each in value)
    if isinstance(value, dict):
        inner = _answer(
            {("answer" if key in ("letter", "text", "value", "label") else key): each for key, each in value.items()}
        )
        return inner or ""
    return ""


def boxed_answers(text: str) -> Iterator[tuple[int, int, str]]:
    r"""Start, end and content of every \boxed{} and <answer> tag."""
    for found in _BOXED.finditer(text):
        yield found.start(), found.end(), _COMMAND.sub(r"\1", found[1])
    for found in _TAGGED.finditer(text):
        yield found.start(), found.end(), found[2]
