"""Notes on an answer: one list for dangers, cautions and information."""

from collections.abc import Sequence
from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

Level = Literal["danger", "caution", "info"]
"""`danger`: can cause harm. `caution`: check this. `info`: good to know."""

SUPPORTED = "supported"
"""Kind of the note on a sentence that the verification confirms."""
_SENTENCE = 80
"""Characters of a sentence that a note repeats."""


class Note(TypedDict):
    """A remark on the answer or on one of its sentences."""

    level: Level
    """How much it matters."""
    kind: str
    """A fixed word, such as `contradicted`, `figure_not_found`, `uncited` or `partition_failed`."""
    message: str
    """The remark, in one line."""
    start: NotRequired[int]
    """Where the sentence begins in the answer's text; missing for the whole answer."""
    end: NotRequired[int]
    """Where the sentence ends."""


def note(level: Level, kind: str, message: str, place: tuple[int, int] | None = None) -> Note:
    """Return a note, its message in one line."""
    made = Note(level=level, kind=kind, message=" ".join(message.split()))
    if place:
        made["start"], made["end"] = place
    return made


def by_level(notes: Sequence[Note]) -> list[Note]:
    """Return notes with the most serious first, each once."""
    once = [each for place, each in enumerate(notes) if each not in notes[:place]]
    return sorted(once, key=lambda each: get_args(Level).index(each["level"]))


def note_lines(notes: Sequence[Note], text: str, *levels: Level) -> list[str]:
    """Return the messages of the notes of some levels.

    The notes on one sentence are one line, which begins with its words and has their most serious
    level.
    """
    lines: dict[object, list[Note]] = {}
    for number, each in enumerate(by_level(notes)):
        if each["kind"] != SUPPORTED:
            place = (each["start"], each["end"]) if "start" in each else number
            lines.setdefault(place, []).append(each)
    return [
        f"{_sentence(line[0], text)}{' '.join(each['message'] for each in line)}"
        for line in lines.values()
        if line[0]["level"] in levels
    ]


def with_signs(text: str, notes: Sequence[Note]) -> str:
    """Return an answer's text with the kinds of the notes on a sentence after it."""
    kinds: dict[int, list[str]] = {}
    for each in notes:
        if "end" in each and each["kind"] != SUPPORTED:
            kinds.setdefault(each["end"], []).append(each["kind"].replace("_", " "))
    for end, words in sorted(kinds.items(), reverse=True):
        text = f"{text[:end]} (! {', '.join(dict.fromkeys(words))}){text[end:]}"
    return text


def _sentence(each: Note, text: str) -> str:
    if "start" not in each:
        return ""
    words = " ".join(text[each["start"] : each["end"]].split())
    if len(words) > _SENTENCE:
        words = f"{words[: _SENTENCE - 1].rstrip()}…"
    return f"“{words}” "
