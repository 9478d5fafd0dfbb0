"""Recognising options in text: by letter, by words, one or several."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from briefcontext.chains.choice_reply import plain

__all__ = ["Line", "OptionReader", "Value"]

_FILL = re.compile(
    r"(?:[\s\"'`*_(\[{$:=]|(?:option|choice|letter|alternative|clearly|definitely|most likely|likely|probably"
    r"|indeed|either|both)\b)*",
    re.IGNORECASE,
)
_CLOSE = r"[\"'`*_)\]}$]*"
_STOP = re.compile(rf"{_CLOSE}(?:\s*(?:\Z|\n|[.,;:!?(|/<]|[–—-](?!\w))|\s+[–—-]+\s)")
_ON = re.compile(rf"{_CLOSE}\s+(?:because|since|as|and|or|but|rather)\b", re.IGNORECASE)
_ALSO_ON = re.compile(
    rf"{_CLOSE}\s+(?:is|are|was|would|must|should|seems|remains|which|due|for|based|given|with|per|according"
    rf"|instead|rather|not|although|though|while|so|from|over|in|on|if|both|here|to)\b",
    re.IGNORECASE,
)
_AND = re.compile(
    rf"{_CLOSE}(?:\s*(?:(?P<sure>,?\s*\b(?:and/or|and|or)\b|/|&|\+)|,?\s*\bbut\b|[,;(])"
    r"\s*(?:(?:else|possibly|perhaps|maybe)[ \t]+)?|[ \t]+(?-i:(?=[A-Z](?![\w'-]))))",
    re.IGNORECASE,
)
"""Between options that are both meant; what is not `sure` may also begin another sentence."""
_NOT = re.compile(r"(?:not|neither|never|isn't)\b", re.IGNORECASE)
_BUT = re.compile(r"[^.!?\n]*?\bbut(?: rather)?\b", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_PRONOUN = re.compile(r"\s+(?:it|they|he|she|we|I|there|this|that|these|those)\b")
_LEAD = re.compile(
    r"[\s>#*_\-•+\"'`(\[{$]*(?:(?:probably|most likely|likely|definitely|certainly)\s+)?(?:(?:option|choice"
    r"|answer)\s+)?[\"'`*_(\[{$]*",
    re.IGNORECASE,
)
_DELIMITER = re.compile(r"[\"'`*_]*[).:\]},;–—-]+[\"'`*_)\]}]*")
_FREE = re.compile(
    r"(?:\A|[.,;:!?\n>*#-]\s*|\b(?:option|choice|answer|letter|that|and|or|then|so|only|therefore|thus|hence|is"
    r"|think|believe|because|"
    r"while|whereas|although|but|since|both|reflection)\s+)\Z",
    re.IGNORECASE,
)
"""Before a letter that stands by itself; after another word it may belong to it, as in "vitamin C"."""
_DECISIONS = frozenset(["yes", "no", "maybe"])


@dataclass(frozen=True, slots=True)
class Value:
    start: int
    end: int
    letters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Line:
    kind: str
    """"letter" (nothing else), "option" (its words, with or without the letter) or "begun"."""
    letters: frozenset[str]
    rest: str
    lettered: bool


class OptionReader:
    """Finds the options of one question in text."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.letters = {letter.upper(): letter for letter in options}
        self._texts: list[tuple[re.Pattern[str], str, frozenset[str]]] = []
        by_words: dict[str, set[str]] = {}
        for letter, text in options.items():
            words = " ".join(plain(text).casefold().split()).rstrip(".;:,! ")
            # A text that is itself a letter of an option (blood group "B") cannot be told from the letter.
            if words and words.upper() not in self.letters:
                by_words.setdefault(words, set()).add(letter)
        for words in sorted(by_words, key=len, reverse=True):
            inner = r"\s+".join(map(re.escape, words.split()))
            before = r"(?<!\w)" if words[0].isalnum() else ""
            after = r"(?!\w)" if words[-1].isalnum() else ""
            self._texts.append((re.compile(before + inner + after, re.I), words, frozenset(by_words[words])))
        self._letter = re.compile(r"[A-Za-z](?!\w|'\w)")

    def whole(self, text: str) -> frozenset[str] | None:
        """The letters of an answer field; None where it names no option."""
        if not text.strip():
            return frozenset()
        value = self.value(text + "\n", 0, strict=False)
        return None if value is None else value.letters

    def value(self, text: str, at: int, *, strict: bool) -> Value | None:
        """What option, or options, stand at `at`; an empty set for a letter that is none, None for neither.

        With `strict`, only what a stop or a reason follows.
        """
        begin = _FILL.match(text, at)
        start = begin.end() if begin else at
        one = self._one(
            text,
            start,
            strict=strict,
            marked=bool(begin and re.search(r"(?:[(\[{*_`\"']|option|choice|letter)\s*$", begin[0], re.I)),
        )
        if one is None:
            if _NOT.match(text, start) and (but := _BUT.match(text, start)):
                return self.value(text, but.end(), strict=strict)
            return None
        letters, end = one.letters, one.end
        while more := _AND.match(text, end):
            fill = _FILL.match(text, more.end())
            after = fill.end() if fill else more.end()
            other = self._one(text, after, strict=strict, marked=False)
            if other is None or (text[after : after + 1].islower() and "," in more[0] and other.end - after == 1):
                break
            if not more["sure"] and not (_STOP.match(text, other.end) or _AND.match(text, other.end)):
                break
            letters, end = letters | other.letters, other.end
        return Value(start, end, letters)

    def _one(self, text: str, at: int, *, strict: bool, marked: bool) -> Value | None:
        worded = (
            self._words_at(text, at) or ((gap := _ARTICLE.match(text, at)) and self._words_at(text, gap.end())) or None
        )
        lettered = self._letter_at(text, at, marked=marked)
        if worded and not (lettered and lettered.end > worded.end):
            found, words = worded, " ".join(text[worded.start : worded.end].casefold().split())
            goes_on = _STOP.match(text, found.end) or _ON.match(text, found.end)
            if not goes_on and not strict and words not in _DECISIONS:
                goes_on = _ALSO_ON.match(text, found.end)
            # "B cell" is words only where an option has them; "no longer" is not "no".
            if goes_on:
                return found
            return None
        if lettered and strict and not (_STOP.match(text, lettered.end) or _ON.match(text, lettered.end)):
            return None
        return lettered

    def _words_at(self, text: str, at: int) -> Value | None:
        for pattern, _, letters in self._texts:
            if found := pattern.match(text, at):
                return Value(at, found.end(), letters)
        return None

    def _letter_at(self, text: str, at: int, *, marked: bool) -> Value | None:
        found = self._letter.match(text, at)
        if not found:
            return None
        letter, end = found[0], found.end()
        stop, on = _STOP.match(text, end), _ON.match(text, end)
        closed = marked and re.match(r"[\"'`*_)\]}$]", text[end : end + 1])
        own = self.letters.get(letter.upper())
        letters = frozenset([own] if own else [])
        gap = re.compile(rf"{_CLOSE}(?P<sep>[\s).:(\[\"'*_–—-]*)").match(text, end)
        words = self._words_at(text, gap.end()) if gap and gap.end() > end else None
        if words and gap and own in words.letters:
            return Value(at, words.end, letters)
        together = gap and not re.search(r"[.\n]", gap["sep"]) and re.search(r"[):(\[–—-]", gap[0])
        if words and own and together and _STOP.match(text, words.end):
            # "B) Atropine" where Atropine is A: the letter and the words contradict each other.
            return Value(at, words.end, letters | words.letters)
        if re.match(r"\.\s+[a-z]", text[end:]) and not closed:
            return None  # C. difficile
        if stop or closed or on:
            return Value(at, end, letters)
        if _ALSO_ON.match(text, end) and letter not in "ai":
            return Value(at, end, letters)
        # Before another word, "A" is an article, "I" a pronoun, and "B cell" no option.
        following = re.match(rf"{_CLOSE}\s+(\w)", text[end : end + 8])
        if own and letter.isupper() and letter not in "AI" and following and following[1].isupper():
            return Value(at, end, letters)
        return None

    def mentions(self, text: str) -> Iterator[Value]:
        """Every place where an option is named by a capital letter, a letter in brackets, or its words."""
        start = re.compile(r"(?<![\w'-])[(\[*_\"]{0,8}(?=\w)")
        at = 0
        while found := start.search(text, at):
            place = found.end()
            marked = bool(found[0])
            value = None
            if (
                (text[place].isupper() and _FREE.search(text[max(place - 20, 0) : place]))
                or marked
                or self._words_at(text, place)
            ):
                value = self._listed(text, place, marked=marked)
            yield from [value] if value else []
            word = re.compile(r"\w+").match(text, place)
            at = max(value.end if value else 0, word.end() if word else place + 1)

    def _listed(self, text: str, at: int, *, marked: bool) -> Value | None:
        if self._letter.match(text, at) and text[at].upper() not in self.letters:
            return None
        if self._words_at(text, at) or self._letter.match(text, at):
            return self.value(text, at, strict=False) if not marked else self.value(text, at - 1, strict=False)
        return None

    def worded(self, text: str) -> Iterator[Value]:
        """Every place where an option's own words stand; yes, no and maybe say nothing there."""
        taken: list[tuple[int, int]] = []
        for pattern, words, letters in self._texts:
            if words in _DECISIONS or len(words) < 4:
                continue
            for found in pattern.finditer(text):
                if not any(start < found.end() and found.start() < end for start, end in taken):
                    taken.append(found.span())
                    yield Value(found.start(), found.end(), letters)

    def without_options(self, text: str) -> str:
        for pattern, _, _ in self._texts:
            text = pattern.sub(" ", text)
        return text

    def line(self, line: str, *, first: bool) -> Line | None:
        """What a line says by itself, or None."""
        lead = _LEAD.match(line)
        at = lead.end() if lead else 0
        text = line.rstrip()
        bare = re.fullmatch(r"([A-Za-z])[\s\"'`*_).:\]},;!$]*", text[at:])
        if bare:
            own = self.letters.get(bare[1].upper())
            return Line("letter", frozenset([own] if own else []), "", True)
        several = self.value(text, at, strict=True)
        words = self._words_at(text, at)
        if words and (not self._letter.match(text, at) or words.end > at + 1):
            rest = text[words.end :]
            if not re.search(r"\w", rest):
                return Line("option", words.letters, "", False)
            if several and len(several.letters) > 1:
                return Line("begun", several.letters, rest, False)
            decided = " ".join(text[at : words.end].casefold().split()) in _DECISIONS
            if re.match(r"[\"'`*_)]*\s*(?:[.,;:!(]|[–—-](?!\w))", rest) or (first and decided and _PRONOUN.match(rest)):
                return Line("begun", words.letters, rest, False)
            return None
        letter = self._letter.match(text, at)
        if not letter or letter[0].upper() not in self.letters:
            return None
        if several and len(several.letters) > 1:
            return Line("begun", several.letters, text[several.end :], True)
        delimiter = _DELIMITER.match(text, letter.end())
        own = self.letters[letter[0].upper()]
        after = delimiter.end() if delimiter else letter.end()
        gap = re.compile(r"[\s\"'`*_(]*").match(text, after)
        words = self._words_at(text, gap.end() if gap else after)
        if words and own in words.letters and not re.search(r"\w", text[words.end :]):
            return Line("option", frozenset([own]), "", True)
        if delimiter and (letter[0].isupper() or delimiter[0].strip("\"'`*_")[:1] in (")", ".", ":", "]")):
            end = words.end if words and own in words.letters else after
            return Line("begun", frozenset([own]), text[end:], True)
        if words and own in words.letters:
            return Line("begun", frozenset([own]), text[words.end :], True)
        if re.match(r"[\"'`*_)\]}]*\s+(?:because|since)\b", text[letter.end() :], re.IGNORECASE):
            return Line("begun", frozenset([own]), text[letter.end() :], False)
        return None
