"""Parsing of the option that a model chose."""

import re
import unicodedata
from collections.abc import Mapping

from briefcontext.chains.model.reply import without_reasoning

_FIELD = re.compile(
    r"""["'](?:\w+[ _])?(?:answer|choice)(?:[ _]\w+)?["']\s*:\s*"""
    r"""(?:"([^"\n]*)|'([^'\n]*)|\[([^\]\n]*)|([^\[},\n]*))|<answer>([^<]*)""",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"^[^\w\n]*(?:(?:the|my|final|correct|best) )*(?:answer|choice)[^\w\n]*?[:=]\s*(.*)",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST = re.compile(r"\W*(?:option\W*)?([a-z])(?!['’/-]?\w)((?:[^\w-]|- )*)", re.IGNORECASE)
_LETTER = re.compile(
    r"(?<![\w/'’-])(?:[B-Z]|A(?! \w)|A(?= (?:and|or)\b))(?![\w'’]|[/-]\w|\. [a-z])"
)
"""A letter by itself. "A" before a word is an article, and "C. d" begins a species' name."""


def parse_choice(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the letter, as in `options`, of the option that a reply chooses.

    A structured field (JSON or `<answer>`) counts first, then the last line that begins with
    `Choice:` or `Answer:`, then the only letter of the whole reply. None if there is no choice,
    or more than one.
    """
    text = without_reasoning(reply)
    fields = ["".join(values) for values in _FIELD.findall(text)]
    return named_option((fields or _LINE.findall(text) or [text])[-1], options)


def named_option(value: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the one option that a value names by letter or words, or None.

    A letter with the words of another option is ambiguous: "B) Atropine" if Atropine is A.
    """
    value = unicodedata.normalize("NFKC", value)
    letters = {letter.upper(): letter for letter in options}
    words = {letter: _plain(text) for letter, text in options.items()}
    if value.strip().upper() not in letters:
        same = [letter for letter in options if words[letter] == _plain(value)]
        if same:
            return same[0] if len(same) == 1 else None
    found = {letters[letter] for letter in _LETTER.findall(value) if letter in letters}
    first = _FIRST.match(value)
    if first and first[1].upper() in letters:
        letter = letters[first[1].upper()]
        rest = _plain(value[first.end() :])
        if rest and rest == words[letter]:
            return letter
        beside = [text for text in words.values() if text and rest.startswith(text)]
        if beside or not rest or first[2].strip():
            found.add(letter)
        if beside and max(beside, key=len) not in map(words.get, found):
            return None
    return found.pop() if len(found) == 1 else None


def _plain(text: str) -> str:
    """Return words in lower case without the marks around them."""
    return (
        re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text))
        .strip(" .,;:!*_`\"'()[]<>")
        .casefold()
    )
