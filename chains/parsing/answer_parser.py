"""Parsing of a free-text answer: its labels, its quotes, and the option that it chooses."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from briefcontext.chains.citation import KEY, has_key
from briefcontext.chains.model.reply import Cut, cut_warning, without_reasoning
from briefcontext.chains.notes import Note, note
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Quote

NOT_ANSWERED = "Not answered:"
"""Label of the last line of an answer that leaves a part of the question open."""

_LABEL = re.compile(
    r"^[ \t>#*_\"'`•-]*(not answered|no answer|conflict|choice|quotes)"
    r"[ \t*_\"'`]*(?::[ \t*_]*|$)",
    re.IGNORECASE | re.MULTILINE,
)
_BLANK_LINE = re.compile(r"\n\s*\n")
_STRAY_LINE = re.compile(
    r"^[ \t]*(?:```\w*|</?(?:evidence|documents?|passages?)\b[^>\n]*>"
    r"|[*_]*confidence[*_]*[ \t]*:[*_ \t]*[\d.]+[ \t]*%?[*_]*)[ \t]*$\n?",
    re.IGNORECASE | re.MULTILINE,
)
"""Prompt fragments that small models repeat, and fences around the reply."""
_OPENING_TAG = re.compile(r"<(?:evidence (?:reader|condensed)|document key)", re.IGNORECASE)
_HEADING = re.compile(r"^[ \t]*#+[ \t]*(\S.*)$", re.MULTILINE)
_QUOTE_LINE = re.compile(
    rf"[ \t*•-]*(?:\d+[.)][ \t*]*)?(?:\[?((?<=\[)[^\]\n]+|{KEY})\]?[ \t*:–-]*)?(.*?)"
    r"(?:(?<=[\"”»])[ \t]*\[[^\]\n]{1,40}\]\W*)?"
)
"""A quote with an optional key before or after it."""
_REPEATED = 30
"""Length of a shared text that cannot be a coincidence."""
_NO_CONFLICT = {"", "no", "none", "n/a"}
_NO_REASON = "The documents do not answer the question; the model gives no reason."


@dataclass
class ReplyParts:
    """The parts of a reply, by their labels."""

    text: str = ""
    """The answer; the reason if it is refused."""
    refused: bool = False
    """Whether the reply is `NO ANSWER:` alone."""
    chosen: str = ""
    """The text to search for a choice: everything but conflicts and quotes."""
    conflict: str = ""
    not_answered: str = ""
    quotes: list[tuple[str, str]] = field(default_factory=list)
    """Quotes with their keys. A quote without a key has the key of the line before."""


def read_reply(reply: str) -> ReplyParts:
    """Split a reply at its labels. Lines after a label's paragraph belong to the answer."""
    reply = _STRAY_LINE.sub("", reply)
    labels = list(_LABEL.finditer(reply))
    parts = ReplyParts(text=reply[: labels[0].start() if labels else len(reply)])
    parts.chosen = parts.text
    for place, label in enumerate(labels):
        end = labels[place + 1].start() if place + 1 < len(labels) else len(reply)
        _read_section(parts, label[1].lower(), label[0], reply[label.end() : end])
    parts.text = _HEADING.sub(lambda heading: f"{heading[1].rstrip(' #:')}:", parts.text)
    parts.text = re.sub(r"\n{3,}", "\n\n", parts.text).strip()
    return parts


def before_quotes(reply: str, *, unfinished: bool = False) -> str:
    """Return a reply up to its list of quotes.

    An unfinished reply also loses the beginning of a possible list.
    """
    quotes = next((label for label in _LABEL.finditer(reply) if label[1].lower() == "quotes"), None)
    if quotes:
        is_label = quotes[0].rstrip(" \t*_").endswith(":") or "\n" in reply[quotes.end() :]
        if is_label or not unfinished:
            return reply[: quotes.start()].rstrip()
    if unfinished:
        last = reply.rfind("\n") + 1
        if "quotes:".startswith(reply[last:].strip(" \t>#*_\"'`•-:").lower()):
            return reply[:last].rstrip("\n")
    return reply


def _read_section(parts: ReplyParts, name: str, label: str, section: str) -> None:
    """Add the text of a label to the parts of a reply."""
    if name == "quotes":
        parts.quotes, rest = _read_quotes(section)
    elif name == "choice":
        line, _, rest = section.lstrip("\n").partition("\n")
        parts.chosen += f"\n{label}{line}\n{rest}"
        if has_key(line):  # A line that cites is a part of the answer.
            rest = f"{label}{line}\n{rest}"
    elif name == "no answer" and not parts.text.strip():
        parts.refused, rest = True, section.strip(" \n\"'")
    else:
        paragraph, *others = _BLANK_LINE.split(section, maxsplit=1)
        rest = "\n\n".join(others)
        if name == "conflict":
            parts.conflict = f"{parts.conflict}\n{paragraph.strip()}".strip()
        else:
            parts.not_answered = f"{parts.not_answered}\n{paragraph.strip()}".strip()
        parts.chosen += f"\n{rest}"
    if rest.strip():
        parts.text += f"\n\n{rest}"


def _read_quotes(section: str) -> tuple[list[tuple[str, str]], str]:
    """Return the quotes of a list, each with its key, and the lines that are not quotes."""
    quotes, others, key = list[tuple[str, str]](), list[str](), ""
    for line in section.splitlines():
        own_key, words = _QUOTE_LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        if own_key or words[:1] in ('"', "“", "„", "«"):
            key = own_key or key
            quotes += [(key, words)] if words else []
        elif any(map(str.isalpha, line)):
            others.append(line)
    return quotes, "\n".join(others)


def why_no_answer(reply: str, question: Question, instruction: str) -> str | None:
    """Return the reason why a reply is not an answer; None for an answer.

    Some models repeat the instruction of the prompt.
    """
    if _OPENING_TAG.search(before_quotes(reply)):
        return "it repeats what it was given"
    parts = read_reply(reply)
    lines = [line.strip() for line in parts.chosen.splitlines() if any(map(str.isalpha, line))]
    if not lines and (parts.refused or parts.not_answered):
        return None
    if all(line.endswith(":") for line in lines):
        return "it holds no sentence"
    asked = question["text"].strip()
    own = [line for line in lines if line.removeprefix("Question:").strip() != asked]
    is_long = not own or sum(map(len, own)) >= _REPEATED
    if lines and is_long and all(line in instruction for line in own):
        return "it repeats the prompt"
    return None


def parse_draft(
    parts: ReplyParts,
    question: Question,
    quotes: list[Quote],
    notes: list[Note],
    *,
    forced: bool,
    cut: Cut | None = None,
) -> Draft:
    """Return the draft of a reply's parts.

    `forced` means that an option must be chosen without evidence; `cut` is what cut the reply off.
    """
    choice = None
    if question["options"] and (forced or not parts.refused):
        choice = parse_choice(parts.chosen, question["options"])
    abstained = not forced and (parts.refused or not (parts.text or choice))
    notes = list(notes)
    if cut:
        notes.append(note("caution", "cut_off", cut_warning(cut, "The answer")))
    if forced and choice is not None:
        notes.append(note("info", "choice_forced", "The reader had to choose an option."))
        if parts.not_answered or parts.refused:
            message = f"The choice {choice} is unsupported: the model found no answer."
            notes.append(note("caution", "choice_unsupported", message))
    left = " ".join(parts.not_answered.split())
    text = parts.text or (left if abstained else "")
    if abstained:
        text = text or _NO_REASON
    elif left:
        text = f"{text}\n\n{NOT_ANSWERED} {left}".strip()
    conflict = parts.conflict.strip()
    return Draft(
        text=text,
        choice=choice,
        conflict=None if conflict.strip(" .-–—*_").lower() in _NO_CONFLICT else conflict,
        quotes=quotes,
        abstained=abstained,
        notes=notes,
    )


_FIELD = re.compile(
    r"""["'](?:\w+[ _])?(?:answer|choice)(?:[ _]\w+)?["']\s*:\s*"""
    r"""(?:"([^"\n]*)|'([^'\n]*)|\[([^\]\n]*)|([^\[},\n]*))|<answer>([^<]*)""",
    re.IGNORECASE,
)
_CHOICE_LINE = re.compile(
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
    return named_option((fields or _CHOICE_LINE.findall(text) or [text])[-1], options)


def named_option(value: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the one option that a value names by letter or words, or None.

    A letter with the words of another option is ambiguous: "B) Atropine" if Atropine is A.
    """
    value = unicodedata.normalize("NFKC", value)
    letters = {letter.upper(): letter for letter in options}
    words = {letter: _plain(text) for letter, text in options.items()}
    same = [letter for letter in options if words[letter] == _plain(value)]
    if same and value.strip().upper() not in letters:
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
    words = " ".join(unicodedata.normalize("NFKC", text).split())
    return words.strip(" .,;:!*_`\"'()[]<>").casefold()
