"""Reading a multiple-choice letter out of a model's words."""

import re
from collections.abc import Mapping

__all__ = ["parse_choice"]

_MARKS = r"[\s\"'*_(\[]*"
_STATED = r"\b(?i:choice|answer|option)\b{marks}(?:(?i:is|would be)\b)?\s*[:=]?{marks}(?:(?i:option|choice)\s+)?{marks}"
_END = r"(?=[\"'*_)\]]*(?:[.,:;)\]\s]*(?:\n|$)|[.,:;)\]]))"


def parse_choice(output: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the option that `output` names, or None when it names none.

    Understands "Choice: B", "The answer is (B)", "The answer is yes.", and a line that is or begins with a
    letter or an option's own words ("B", "B) no", "Yes, because…"). The last statement counts, since models
    reason first. Words in the middle of a sentence ("no evidence…") never count.
    """
    letters = {letter.upper(): letter for letter in options}
    # A lower-case "a" is an article unless punctuation or the line's end follows it.
    letter = rf"(?P<letter>[{''.join(letters)}](?![\w'])|(?i:[{''.join(letters)}])(?![\w']){_END})"
    texts = "|".join(re.escape(text) for text in sorted(options.values(), key=len, reverse=True))
    text = rf"(?P<text>(?i:{texts}))(?!\w){_END}"
    stated = _STATED.replace("{marks}", _MARKS)
    for pattern in (rf"{stated}(?:{letter}|{text})", rf"(?m)^{_MARKS}(?:{letter}{_END}|{text})"):
        found = list(re.finditer(pattern, output))
        if found and (named := found[-1]["letter"]):
            return letters[named.upper()]
        if found:
            return next(key for key, words in options.items() if words.casefold() == found[-1]["text"].casefold())
    return None
