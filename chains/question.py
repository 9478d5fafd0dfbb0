"""Validation of questions and their earlier questions."""

from collections.abc import Mapping

from typing_extensions import TypedDict

from briefcontext.errors import InputError
from briefcontext.files import lone_surrogate

MAX_QUESTION_CHARACTERS = 20_000
"""Longest question. Exam vignettes stay below 5,000 characters; longer texts are documents."""
MAX_EARLIER = 8
"""Limit of earlier questions for a follow-up."""


class Question(TypedDict):
    """A checked question."""

    text: str
    options: dict[str, str]
    """Letter to text, for multiple choice; empty for a free answer."""


def check_question(text: object, options: object = None) -> Question:
    """Return the question without outer white space.

    Raises InputError for an empty or too long question, a single option, an option without a text,
    and a lone surrogate, which cannot be sent.
    """
    if not isinstance(text, str | None):
        raise InputError(f"The question must be a text, not {type(text).__name__}.")
    if text is None or not text.strip():
        raise InputError(
            "The question is empty. Ask one, for example: Which drug is first choice for type 2 "
            "diabetes?"
        )
    text = text.strip()
    if len(text) > MAX_QUESTION_CHARACTERS:
        raise InputError(
            f"The question has {len(text):,} characters; at most {MAX_QUESTION_CHARACTERS:,} are "
            "taken. Shorten it, and put long material into a knowledge base."
        )
    _check_characters(text, "The question")
    return Question(text=text, options=_check_options(options))


def check_earlier(earlier: object) -> list[str]:
    """Return the earlier questions, last one last. Raises InputError for wrong or too many ones."""
    if earlier is None:
        return []
    if not isinstance(earlier, list) or len(earlier) > MAX_EARLIER:
        raise InputError(f"Earlier questions must be a list of at most {MAX_EARLIER} texts.")
    return [check_question(question)["text"] for question in earlier]


def _check_characters(text: str, what: str) -> None:
    if found := lone_surrogate(text):
        raise InputError(
            f"{what} holds U+{ord(found[0]):04X} at character {found.start() + 1}, which is half "
            "of a character (a lone surrogate). Remove it, or write the whole character."
        )


def _check_options(options: object) -> dict[str, str]:
    if not options:
        return {}
    if not isinstance(options, Mapping):
        raise InputError(
            'Options must be a mapping of letter to text, such as {"A": "yes", "B": "no"}, '
            f"not {type(options).__name__}."
        )
    checked: dict[str, str] = {}
    for given, text in options.items():
        letter = str(given).strip().upper()
        is_letter = len(letter) == 1 and letter.isalpha()
        if not is_letter or not isinstance(text, str) or not text.strip():
            raise InputError(
                f"Option {given!r} needs a single letter and a text, for example A=yes."
            )
        if letter in checked:
            raise InputError(f"Option {letter} is given twice. Give each option its own letter.")
        _check_characters(text, f"Option {letter}")
        checked[letter] = text.strip()
    if len(checked) < 2:
        raise InputError("Multiple choice needs at least two options, for example A=yes B=no.")
    if (length := sum(map(len, checked.values()))) > MAX_QUESTION_CHARACTERS:
        raise InputError(
            f"The options have {length:,} characters; at most {MAX_QUESTION_CHARACTERS:,} are "
            "taken. Shorten them."
        )
    return checked
