"""Parsing of the option that a model chose."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from briefcontext.chains.model.reasoning import without_reasoning

__all__ = ["named_option", "parse_choice"]

_QUOTES = str.maketrans("“”„«»‘’", '"""""\'\'')
_LABEL = r"(?:answer|choice|option)(?:[ _](?:choice|letter|option))?"
_FIELD = re.compile(
    rf"[\"'](?:(?:final|correct|selected|best)[ _]?)?{_LABEL}[\"']\s*:\s*"
    r"(?:\"([^\"\n]*)|'([^'\n]*)|\[([^\]\n]*)|([^\s,{}\[\]]+))"
    r"|\\boxed\{(?:\\\w+\{)?([^{}]*)|<answer>([^<]*)",
    re.IGNORECASE,
)
_LINE = re.compile(
    rf"^[^\w\n]*(?:(?:the|my|final|correct|best) +)*{_LABEL}[^\w\n]*?(?:[:=–-]|$)", re.IGNORECASE | re.MULTILINE
)
_SENTENCE = re.compile(
    rf"\b{_LABEL}\b(?: to (?:this|the)\b[^.\n]*?)?[*_\"']*\s*"
    r"(?::|(?:is|would be|must be)\b(?: (?:therefore|most likely|likely|probably))?(?: to be)?:?)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:^[^\w\n]*conflicts?\b[^\n]*|\b(?:if|unless|whether)\b[^.;!?\n]*"
    r"|(?:\b(?:not|never|doubt|wrong|incorrect|false)\b|n't\b)[^.,;!?\n]*)\Z",
    re.IGNORECASE | re.MULTILINE,
)
_ASKED = re.compile(r"[^.!\n]*\?")
_NONE = re.compile(
    r"(?:n/?a|none|null|unknown|undetermined|no (?:choice|answer|option)|cannot|can't|unable|insufficient"
    r"|not (?:known|determin\w+|applicable|available|enough)|[-–—?]+)(?!\w)",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?:[-•*#>]+ )?[\s\"'`*_()\[{<$]*(?:(?:option|choice|answer|letter|either|both|the)\b[\s:]*)?[\"'`*_()\[{<$]*",
    re.I,
)
_BETWEEN = re.compile(r"[\s\"'`*_()\[\]{}<>$.:–—-]*")
_LETTER = re.compile(r"(?:[A-Z]|[a-z](?=[\W_]*\Z|[).:]))(?![^\W_]|'\w)")
_WORD = re.compile(r"[^\W_]")
_ENDS = re.compile(
    r"\s*(?:\Z|[^\w\s'-]|_|'(?!\w)|-\s|(?:or|and|because|since|as|is|was|with|for|which|but|not|rather|due)\b)", re.I
)
_SPECIES = re.compile(r"\. [a-z]")
_JOINED = re.compile(
    r"[\s\"'`*_)\]]*(?:[/,;&+|>(]|\b(?:or|and)\b)"
    r"(?:[\s\"'`*_(\[]|(?:or|and|either|but|maybe|perhaps|possibly|option)\b)*",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"[\s\"'`*_)\],]*(?:(?:is|was|are|seems)(?:n't| not| wrong| incorrect| false| unlikely)|if|unless)\b", re.IGNORECASE
)
_LETTER_LINE = re.compile(r"[\W_]*(?:(?:option|choice|answer)\s)?[\W_]*([a-z])[\W_]*", re.IGNORECASE)
_LETTERED = re.compile(r"(?<!\w)([A-Za-z])[*_\])]*[).:\]]")


def parse_choice(reply: str, options: Mapping[str, str]) -> str | None:
    r"""Return the letter, as in `options`, of the option that a reply settles on; None when it settles on none.

    In this order: a structured field (JSON, `\boxed{}`, `<answer>`); a line that begins with Choice or Answer; a
    sentence that says what the answer is; lines that are only a letter; lines that begin with a letter, as in
    "B) …", or are an option's own words. Of the first three the last one counts, of lines of the others all must agree.
    """
    text = without_reasoning(_plain(reply))
    if fields := list(_FIELD.finditer(text)):
        return named_option("".join(filter(None, fields[-1].groups())), options)
    reader = _Options(options)
    for introduction in (_LINE, _SENTENCE):
        for found in reversed(list(introduction.finditer(text))):
            value = text[found.end() :].lstrip().split("\n", 1)[0]
            denied = introduction is _SENTENCE and _DENIED.search(text, max(0, found.start() - 500), found.start())
            if not denied and not _ASKED.match(value) and (named := reader.named(value)) is not None:
                return _only(named)
    lines = [line for line in text.splitlines() if line.strip() and not _ASKED.match(line)]
    return _only(_union(map(reader.letter_line, lines)) or _union(map(reader.option_line, lines)))


def named_option(value: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the one option that a short value names, by its letter or its words; None for any other.

    "N/A", "unknown" or a dash name none, unless they are an option's own words; neither do "A/B" and "A or B".
    """
    return _only(_Options(options).named(_plain(value)))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_QUOTES)


def _only(letters: frozenset[str] | None) -> str | None:
    return next(iter(letters)) or None if letters and len(letters) == 1 else None


def _union(several: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*several)


class _Options:
    """Finds the options of one question in a text. A letter that is no option counts as ""."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._letters = {letter.upper(): letter for letter in options}
        words = {letter: " ".join(_plain(text).lower().split()).strip(" .;:,!") for letter, text in options.items()}
        # Words that are a letter of an option (blood group "B") cannot be told from the letter.
        self._words = sorted(
            ((text, letter) for letter, text in words.items() if text and text.upper() not in self._letters),
            key=lambda each: -len(each[0]),
        )

    def named(self, value: str) -> frozenset[str] | None:
        """Return the letters that a value names, none where it says that there is no choice; None for other words."""
        found = self._named(" ".join(value.split()))
        return found[0] if found else None

    def letter_line(self, line: str) -> frozenset[str]:
        """Return the letter that a line is."""
        found = _LETTER_LINE.fullmatch(line)
        return frozenset([self._letter(found[1])] if found else [])

    def option_line(self, line: str) -> frozenset[str]:
        """Return what a line names that begins with a letter and a mark, or is an option's words and nothing else."""
        line = " ".join(line.split())
        letters, end = self._named(line) or (frozenset[str](), 0)
        if not _WORD.search(line, end) or not letters:
            return letters
        lettered = _LETTERED.findall(line) if _LETTERED.match(line, _start(line)) else []
        return letters | {self._letter(letter) for letter in lettered} if lettered else frozenset()

    def _letter(self, letter: str) -> str:
        return self._letters.get(letter.upper(), "")

    def _named(self, value: str) -> tuple[frozenset[str], int] | None:
        """Return the letters, and where in the value what names them ends."""
        start = _start(value)
        item = self._words_item(value, start)
        if item is None and _NONE.match(value, start):
            return frozenset(), len(value)
        if (item := item or self._letter_item(value, start)) is None:
            return None
        letters, end = item
        if _WITHDRAWN.match(value, end):
            return frozenset(), len(value)
        while (joined := _JOINED.match(value, end)) and (
            item := self._words_item(value, joined.end()) or self._letter_item(value, joined.end())
        ):
            letters, end = letters | item[0], item[1]
        return letters, end

    def _words_item(self, value: str, at: int) -> tuple[frozenset[str], int] | None:
        letters, end = self._worded(value, at)
        return (letters, end) if letters and _ENDS.match(value, end) else None

    def _letter_item(self, value: str, at: int) -> tuple[frozenset[str], int] | None:
        """Return the letter at a place, with the option's words behind it."""
        if not (found := _LETTER.match(value, at)):
            return None
        own = frozenset([self._letter(found[0])])
        between = _BETWEEN.match(value, found.end())
        behind = [self._worded(value, place) for place in range(found.end(), (between or found).end() + 1)]
        for letters, end in behind:
            if own & letters:
                return own, end
        if not _ENDS.match(value, found.end()) or _SPECIES.match(value, found.end()):
            return None
        # "B) Atropine" where Atropine is A: the letter and the words contradict each other.
        return own | _union(letters for letters, end in behind if _ENDS.match(value, end)), found.end()

    def _worded(self, value: str, at: int) -> tuple[frozenset[str], int]:
        """Return the letters of the option, the longest one, whose words stand at a place, and where they end."""
        for words, _ in self._words:
            end = at + len(words)
            if value[at:end].lower() == words and not value[end : end + 1].isalnum():
                return frozenset(letter for text, letter in self._words if text == words), end
        return frozenset(), at


def _start(value: str) -> int:
    return len(found[0]) if (found := _BEFORE.match(value)) else 0
