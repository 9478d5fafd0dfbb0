"""Parsing of the option that a model chose."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from briefcontext.chains.model.reply import without_reasoning

_QUOTES = str.maketrans("“”„«»‘’", '"""""\'\'')
_LABEL = r"(?:answer|choice|option)(?:[ _](?:choice|letter|option))?"
_FIELD = re.compile(
    rf"[\"'](?:(?:final|correct|selected|best)[ _]?)?{_LABEL}[\"']\s*:\s*"
    r"(?:\"([^\"\n]*)|'([^'\n]*)|\[([^\]\n]*)|([^\s,{}\[\]]+))"
    r"|<answer>([^<]*)",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{(?:\\\w+\{)?([^{}]*)")
_LINE = re.compile(
    rf"^[^\w\n]*(?:(?:the|my|final|correct|best) +)*{_LABEL}[^\w\n]*?(?:[:=–-]|$)", re.IGNORECASE | re.MULTILINE
)
_SENTENCE = re.compile(
    rf"\b{_LABEL}\b(?: to (?:this|the)\b[^.\n]*?)?[*_\"']*\s*"
    r"(?::|(?:is|(?:would|should|must) be)\b(?: (?:therefore|most likely|likely|probably))?(?: to be)?:?)"
    r"|\bI(?:'d| would| will)? (?:choose|select|pick|go with)\b|\b(?:therefore|thus|hence),(?= *\W*(?:option )?\w+\W*$)"
    r"|(?=(?<!\w)(?:option )?[(*]{0,8}[A-Z][)*]* is (?:the )?(?:most likely |single )?(?:correct|right|best)\b)",
    re.IGNORECASE | re.MULTILINE,
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
_MARKS = r"[\s\"'`*_()\[\]{}<>$]*"
_BEFORE = re.compile(
    rf"(?:[-•*#>]+ )?{_MARKS}(?:(?:option|choice|answer|letter|either|both|the)\b[\s:]*)?{_MARKS}", re.IGNORECASE
)
_BETWEEN = r"[\s\"'`*_()\[\]{}<>$.:–—-]*?"
_ALPHANUMERIC = r"[^\W_]"
_LETTER = r"(?P<letter>[A-Z]|[a-z](?=[\W_]*\Z|[).:]))(?![^\W_]|'\w)"
_ENDS = (
    r"(?i:\s*(?:\Z|[^\w\s'-]|_|'(?!\w)|-\s"
    r"|(?:or|and|because|since|as|is|was|with|for|which|but|not|rather|due|if|unless|are|seems)\b))"
)
_JOINED = re.compile(
    r"[\s\"'`*_)\]]*(?:[/,;&+|>(]|\b(?:or|and)\b)"
    r"(?:[\s\"'`*_(\[]|(?:or|and|either|but|maybe|perhaps|possibly|option)\b)*",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"[\s\"'`*_)\],]*(?:(?:is|was|are|seems)(?:n't| not| wrong| incorrect| false| unlikely)|if|unless)\b", re.IGNORECASE
)
_LETTER_LINE = re.compile(r"[\W_]*+(?:(?:option|choice|answer)\s[\W_]*+)?([a-z])[\W_]*", re.IGNORECASE)
_LETTERED = re.compile(r"(?<!\w)([A-Za-z])[*_\])]*[).:\]]")


def parse_choice(reply: str, options: Mapping[str, str]) -> str | None:
    r"""Return the letter, as in `options`, of the option that a reply settles on; None when it settles on none.

    In this order: a structured field (JSON, `<answer>`); a line that begins with Choice or
    Answer; `\boxed{}`; a sentence that says what the answer is, or what is chosen or follows;
    lines that are only a letter; lines that begin with a letter, as in "B) …", or are an option's
    own words. Of the first four the last one counts, of lines of the others all must agree.
    """
    text = without_reasoning(_plain(reply))
    if fields := list(_FIELD.finditer(text)):
        return named_option("".join(filter(None, fields[-1].groups())), options)
    reader = _Options(options)
    for introduction in (_LINE, _BOXED, _SENTENCE):
        matches = list(introduction.finditer(text))
        if introduction is _BOXED and matches:
            return named_option(matches[-1][1], options)
        for found in reversed(matches):
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
        self._words: dict[str, frozenset[str]] = {}
        own = []
        for letter, text in options.items():
            words = " ".join(_plain(text).lower().split()).strip(" .;:,!")
            # Words that are a letter of an option (blood group "B") cannot be told from the letter.
            if words and words.upper() not in self._letters:
                self._words[words] = self._words.get(words, frozenset()) | {letter}
                own.append(rf"(?:{letter.upper()}|{letter.lower()}(?=[).:])){_BETWEEN}(?i:{re.escape(words)})")
        words = "|".join(map(re.escape, sorted(self._words, key=len, reverse=True))) or "(?!)"
        # "B) Atropine" where Atropine is A: the letter and the words beside it contradict each other.
        self._item = re.compile(
            rf"(?P<own>{'|'.join(own) or '(?!)'})(?!{_ALPHANUMERIC})|(?P<words>(?i:{words}))(?={_ENDS})"
            rf"|{_LETTER}(?:{_BETWEEN}(?P<beside>(?i:{words}))(?={_ENDS})|(?={_ENDS})(?!\. [a-z]))"
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
        if not letters or not re.search(_ALPHANUMERIC, line[end:]):
            return letters
        lettered = _LETTERED.findall(line) if _LETTERED.match(line, _start(line)) else []
        return letters | set(map(self._letter, lettered)) if lettered else frozenset()

    def _letter(self, letter: str) -> str:
        return self._letters.get(letter.upper(), "")

    def _named(self, value: str) -> tuple[frozenset[str], int] | None:
        """Return the letters, and where in the value what names them ends."""
        end = _start(value)
        found = self._item.match(value, end)
        if _NONE.match(value, end) and not (found and found["words"]):
            return frozenset(), len(value)
        if found is None:
            return None
        letters = frozenset[str]()
        while found:
            letters |= self._read(found)
            end = found.end()
            joined = _JOINED.match(value, end)
            found = joined and self._item.match(value, joined.end())
        return (frozenset(), len(value)) if _WITHDRAWN.match(value, end) else (letters, end)

    def _read(self, item: re.Match[str]) -> frozenset[str]:
        letter = item["letter"] or (item["own"] or "")[:1]
        named = self._words.get((item["words"] or item["beside"] or "").lower(), frozenset())
        return named | {self._letter(letter)} if letter else named


def _start(value: str) -> int:
    return len(found[0]) if (found := _BEFORE.match(value)) else 0
