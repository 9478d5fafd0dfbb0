"""Reading JSON, and parsing the fields that data sets share: options, answers and ids."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from briefcontext.errors import InputError

__all__ = [
    "YES_NO",
    "YES_NO_MAYBE",
    "BadRow",
    "accepted_texts",
    "at",
    "identifier",
    "identifiers",
    "json_rows",
    "load_json",
    "object_of",
    "options_of",
    "question_of",
    "right_letter",
    "text_of",
]

YES_NO = {"A": "yes", "B": "no"}
YES_NO_MAYBE = {"A": "yes", "B": "no", "C": "maybe"}


class BadRow(ValueError):
    """A row that cannot be used, and why; `at` adds where it stands."""


@contextmanager
def at(place: object) -> Iterator[None]:
    """Make an InputError of a BadRow, with the place of the row."""
    try:
        yield
    except BadRow as error:
        raise InputError(f"{place}: {error}.") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The json module keeps the last of equal keys, and would lose a question without a word.
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadRow(f"the key {key!r} occurs twice in one object: give each its own")
        found[key] = value
    return found


def _parsed(content: bytes, path: Path, line: int = 1) -> Any:
    """Parse JSON that begins at a line of a file."""
    with at(f"{path}, line {line}"):
        try:
            return json.loads(content.decode("utf-8-sig" if line == 1 else "utf-8"), object_pairs_hook=_distinct)
        except UnicodeDecodeError as error:
            raise BadRow(f"it cannot be read as UTF-8 text: {error}") from error
        except json.JSONDecodeError as error:
            raise InputError(
                f"{path}, line {line + error.lineno - 1}: this is not JSON ({error.msg}). Is the file whole, and of "
                "this layout?"
            ) from error


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, gzipped where its name ends in .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


def load_json(path: Path) -> Any:
    """Read a whole JSON file; raises InputError where it is not JSON or a key occurs twice."""
    return _parsed(b"".join(_lines(path)), path)


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line's number and object; blank lines count as lines and yield nothing.

    Raises InputError, with the line, where one is not a JSON object.
    """
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            with at(f"{path}, line {number}"):
                row = object_of(_parsed(line.rstrip(b"\r\n"), path, number))
            yield number, row


def object_of(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object."""
    if not isinstance(value, dict):
        raise BadRow(f"an object is needed, not {_shown(value)}")
    return value


def question_of(row: Mapping[str, Any], *columns: str) -> str:
    """Return the question, from the first of `columns` that is there."""
    for column in columns:
        value = row.get(column)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if value is not None and value != "":
            raise BadRow(f"{column!r} must be a text that is not blank, not {_shown(value)}")
    raise BadRow(f"there is no question in it ({' or '.join(repr(column) for column in columns)})")


def text_of(row: Mapping[str, Any], column: str) -> str:
    """Return a long text, which must not be blank."""
    text = row.get(column)
    if not isinstance(text, str) or not text.strip():
        raise BadRow(f"there is no text in {column!r}")
    return text


def options_of(value: Any) -> dict[str, str]:
    """Letters to texts, from a mapping (its keys in capitals) or from a list (A, B, C in its order)."""
    if value is None or value in ({}, []):
        return {}
    if isinstance(value, list):
        if len(value) > len(ascii_uppercase):
            raise BadRow(f"there are {len(value)} options, more than letters")
        pairs: Iterable[tuple[Any, Any]] = zip(ascii_uppercase, value, strict=False)
    elif isinstance(value, Mapping):
        pairs = value.items()
    else:
        raise BadRow(f"the options must be a list or a mapping, not {_shown(value)}")
    options: dict[str, str] = {}
    for key, text in pairs:
        letter = str(key).strip().upper()
        if len(letter) != 1 or letter not in ascii_uppercase:
            raise BadRow(f"an option is named {key!r}: use one letter, A to Z")
        if isinstance(text, bool) or not isinstance(text, str | int | float) or not str(text).strip():
            raise BadRow(f"option {letter} must be a text, not {_shown(text)}")
        if letter in options:
            raise BadRow(f"there are two options {letter}")
        options[letter] = str(text).strip()
    if len(options) < 2:
        raise BadRow("there is only one option: give two or more, or none for a free-text question")
    return options


def right_letter(answer: Any, options: Mapping[str, str]) -> str:
    """The letter that `answer` is, or whose option's words it is."""
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, str | int | float):
        words = " ".join(str(answer).split()).casefold()
        named = [letter for letter, text in options.items() if " ".join(text.split()).casefold() == words]
        # "C" may be an option's words (vitamin C) as well as a letter: then it is said, not guessed.
        if words.upper() in options and named in ([], [words.upper()]):
            return words.upper()
        if len(named) == 1 and words.upper() not in options:
            return named[0]
        if named:
            raise BadRow(f"the answer {answer!r} fits more than one option")
    raise BadRow(f"the answer {_shown(answer)} is none of the options ({', '.join(options)}), nor the words of one")


def accepted_texts(answer: Any, kind: str = "") -> tuple[str, ...]:
    """The accepted texts of a free-text answer: a text, alternatives, or lists of synonyms.

    A `list` question is answered by all its elements, so that each accepted text is the whole list: with
    the first synonym of each element, with the second, and so on. Else every text is accepted by itself.
    """
    if answer is None:
        return ()
    elements = answer if isinstance(answer, list) else [answer]
    groups = [_texts(element) for element in elements]
    groups = [group for group in groups if group]
    if kind == "list" and groups:
        most = max(map(len, groups))
        texts = [", ".join(group[min(place, len(group) - 1)] for group in groups) for place in range(most)]
    else:
        texts = [text for group in groups for text in group]
    return tuple(dict.fromkeys(texts))


def _texts(element: Any) -> list[str]:
    if isinstance(element, bool):
        return ["yes" if element else "no"]
    if isinstance(element, str | int | float):
        return [text] if (text := str(element).strip()) else []
    if isinstance(element, list) and all(isinstance(text, str | int | float) for text in element):
        return [str(text).strip() for text in element if str(text).strip()]
    raise BadRow(f"an answer must be a text, a list of texts or a list of synonyms, not {_shown(element)}")


def identifier(value: Any) -> str:
    """An id as a text; it may be a number in the file."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadRow(f"an id must be a text or a whole number, not {_shown(value)}")
    return str(value).strip()


def identifiers(value: Any) -> tuple[str, ...]:
    """Ids, from one or from a list of them; none twice."""
    if value is None:
        return ()
    return tuple(dict.fromkeys(identifier(each) for each in (value if isinstance(value, list) else [value])))


def _shown(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= 60 else shown[:57] + "..."
