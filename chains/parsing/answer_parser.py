"""Parsing of a free-text answer by its labels: not answered, conflict, choice and quotes."""

import re
from dataclasses import dataclass, field

from briefcontext.chains.citation import KEY
from briefcontext.chains.model.reply import Cut, cut_warning
from briefcontext.chains.notes import Note, note
from briefcontext.chains.parsing.choice import parse_choice
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Quote

NOT_ANSWERED = "Not answered:"
"""Label of the last line of an answer that leaves a part of the question open."""

_LABEL = re.compile(
    r"^[ \t>#*_\"'`•-]*(not answered|no answer|conflict|choice|quotes)[ \t*_\"'`]*(?::[ \t*_]*|$)",
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
_KEY = re.compile(KEY, re.IGNORECASE)
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
    if quotes and (
        not unfinished or quotes[0].rstrip(" \t*_").endswith(":") or "\n" in reply[quotes.end() :]
    ):
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
        if _KEY.search(line):  # A line that cites is a part of the answer.
            rest = f"{label}{line}\n{rest}"
    elif name == "no answer" and not parts.text.strip():
        parts.refused, rest = True, section.strip(" \n\"'")
    else:
        paragraph, *others = _BLANK_LINE.split(section, maxsplit=1)
        rest = "\n\n".join(others)
        target = "conflict" if name == "conflict" else "not_answered"
        setattr(parts, target, "\n".join(filter(None, (getattr(parts, target), paragraph.strip()))))
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

    Args:
        reply: The reply.
        question: The question.
        instruction: The instructions of the prompt, which some models repeat.
    """
    if _OPENING_TAG.search(before_quotes(reply)):
        return "it repeats what it was given"
    parts = read_reply(reply)
    lines = [line.strip() for line in parts.chosen.splitlines() if any(map(str.isalpha, line))]
    if not lines and (parts.refused or parts.not_answered):
        return None
    if all(line.endswith(":") for line in lines):
        return "it holds no sentence"
    own = [
        line for line in lines if line.removeprefix("Question:").strip() != question["text"].strip()
    ]
    if (
        lines
        and all(line in instruction for line in own)
        and (not own or sum(map(len, own)) >= _REPEATED)
    ):
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

    Args:
        parts: The reply, split at its labels.
        question: The question.
        quotes: The located quotes.
        notes: Notes on the reply.
        forced: Whether an option must be chosen without evidence.
        cut: What cut the reply off.
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
