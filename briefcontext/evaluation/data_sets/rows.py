"""JSON and its rows, and the items that are made of them: of JSON lines, and of rows that other data sets give."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from briefcontext.chains.question import check_question
from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet, Item, long_document
from briefcontext.files import sha256

YES_NO = {"A": "yes", "B": "no"}
YES_NO_MAYBE = {**YES_NO, "C": "maybe"}


_NAMES = {
    "id": ("id", "_id", "qid"),
    "question": ("question", "query", "body", "text", "QUESTION", "input"),
    "options": ("options", "choices"),
    "answer": ("answer", "answers", "exact_answer", "final_decision"),
    "gold_ids": ("gold_ids", "gold_pmids_in_corpus", "gold_pmids", "gold_pmid", "PMID"),
    "document": ("document", "doc_id", "context_id"),
}
"""What a value may be called in a row; the first that is there and not empty counts."""
_BESIDE = ("documents.jsonl", "documents.jsonl.gz", "contexts.jsonl", "contexts.jsonl.gz")


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


def _parsed(content: bytes, path: Path, line: int = 1, advice: str = "") -> Any:
    """Parse JSON that begins at a line of a file."""
    with at(f"{path}, line {line}"):
        try:
            return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_distinct)
        except UnicodeDecodeError as error:
            raise BadRow(f"it cannot be read as UTF-8 text: {error}") from error
        except json.JSONDecodeError as error:
            raise InputError(
                f"{path}, line {line + error.lineno - 1}: this is not JSON ({error.msg}). Is the "
                f"file whole, and of "
                f"this layout?{advice}"
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
    return _parsed(
        b"".join(_lines(path)), path, advice=f" For a question a line, write jsonl:{path}."
    )


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line's number and object; blank lines count as lines and yield nothing.

    Raises InputError, with the line, where one is not a JSON object.
    """
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            with at(f"{path}, line {number}"):
                row = object_of(_parsed(line.rstrip(b"\r\n"), path, number))
            yield number, row


def read_json_lines(path: Path, *, options: Mapping[str, str] | None = None) -> DataSet:
    """Read `question`, and where they are there `id`, `options`, `answer`, `gold_ids`, `type` and `group`.

    `options` is a mapping or a list, `answer` a letter or an option's words; without options,
    `answer` is an accepted text, several, or lists of synonyms. Questions of the type `yesno`, and
    those of a file whose answers are all yes, no or maybe, get these as options, maybe only where
    some answer is. `gold_ids` may also be `gold_pmids_in_corpus`, else `gold_pmids`. A long text is
    in the row (`context`), or in documents.jsonl or contexts.jsonl beside, under the id that the
    row's `document`, `doc_id` or `context_id` gives. Without `id` a question's id is its line.
    Options that are given to this function are those of all questions without any.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    data = DataSet(path.resolve().parent.name if stem in ("queries", "questions") else stem)
    rows = list(json_rows(path))
    decisions, of_all = (options, True) if options else _decisions([row for _, row in rows])
    for number, row in rows:
        with at(f"{path}, line {number}"):
            if row.get("context") is not None:
                row["document"] = add_context(data, row)
            if _value_of(row, "id") is None:
                row["id"] = f"line-{number}"
            data.items.append(
                item_of(row, decisions if of_all or row.get("type") == "yesno" else {})
            )
    _add_documents(data, path)
    return data


def _decisions(rows: list[dict[str, Any]]) -> tuple[Mapping[str, str], bool]:
    """The options of questions to be answered by yes or no, and whether all questions without options are."""
    free = [row for row in rows if not _value_of(row, "options")]
    keyed = [row for row in free if _value_of(row, "answer") is not None]
    words = [
        str(_said(_value_of(row, "answer"))).strip().casefold()
        for row in keyed
        if row.get("type") in (None, "yesno")
    ]
    of_all = (
        bool(keyed)
        and len(words) == len(keyed)
        and all(word in YES_NO_MAYBE.values() for word in words)
    )
    return (YES_NO_MAYBE if "maybe" in words else YES_NO), of_all


def _add_documents(data: DataSet, path: Path) -> None:
    """Read the long texts that questions name by id, and only those."""
    wanted = {item.document for item in data.items if item.document} - set(data.documents)
    data.files = [path]
    for file in (path.parent / name for name in _BESIDE):
        if wanted and file.is_file():
            data.files.append(file)
            for number, row in json_rows(file):
                with at(f"{file}, line {number}"):
                    if (id := _identifier(row.get("id"))) in wanted:
                        if id in data.documents:
                            raise BadRow(f"the id {id!r} occurs twice")
                        data.documents[id] = long_document(
                            id, _text_of(row, "text"), str(row.get("title") or "")
                        )
            wanted -= set(data.documents)
    if wanted:
        raise InputError(
            f"{path} asks on {sorted(wanted)[0]!r}, which is in none of {', '.join(_BESIDE[::2])} beside it. "
            "Put its text there (id, title, text), or into the row as 'context'."
        )


def add_context(data: DataSet, row: dict[str, Any]) -> str:
    """Keep a long text once, however many questions repeat it, and return its id, made of its SHA-256."""
    text = _text_of(row, "context")
    id = f"text-{sha256(text)[:16]}"
    data.documents.setdefault(id, long_document(id, text))
    return id


def object_of(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object."""
    if not isinstance(value, dict):
        raise BadRow(f"an object is needed, not {shown(value)}")
    return value


def _value_of(row: Mapping[str, Any], name: str) -> Any:
    """Return a value by the first of its names that has one; None where none has."""
    return next((row[column] for column in _NAMES[name] if row.get(column) not in (None, "")), None)


def item_of(row: Any, decisions: Mapping[str, str] = {}, **given: Any) -> Item:
    """Make an item of a row and of values that are given in place of its own.

    `decisions` are its options where it has none.
    """
    row = {**object_of(row), **given}
    kind, answer, document = row.get("type"), _value_of(row, "answer"), _value_of(row, "document")
    answer = None if answer == [] else answer
    question, gold = _value_of(row, "question"), _value_of(row, "gold_ids")
    if not isinstance(question, str) or not question.strip():
        raise BadRow(f"there is no question in it ({' or '.join(map(repr, _NAMES['question']))})")
    try:
        checked = check_question(question, _lettered(_value_of(row, "options")) or decisions)
    except InputError as error:
        raise BadRow(str(error).removesuffix(".")) from error
    options = checked["options"]
    answers: tuple[str, ...]
    if options:
        answers = () if answer is None else (right_letter(answer, options),)
    elif answer is None:
        answers = _accepted_texts(row.get("ideal_answer"))
    else:
        answers = _accepted_texts(answer, whole_list=kind == "list")
    gold = gold if isinstance(gold, list) else [] if gold is None else [gold]
    return Item(
        id=_identifier(_value_of(row, "id")),
        question=checked["text"],
        options=options,
        answers=answers,
        gold_ids=tuple(dict.fromkeys(map(_identifier, gold))),
        # BioASQ's ideal answers are summaries, also where there is no type.
        summary=not options and bool(answers) and (kind == "summary" or answer is None),
        document=None if document is None else _identifier(document),
        group="" if row.get("group") is None else _identifier(row["group"]),
    )


def _text_of(row: Mapping[str, Any], column: str) -> str:
    """Return a long text, which must not be blank."""
    text = row.get(column)
    if not isinstance(text, str) or not text.strip():
        raise BadRow(f"there is no text in {column!r}")
    return text


def _said(answer: Any) -> Any:
    """Return an answer with yes or no in place of true or false."""
    return answer if not isinstance(answer, bool) else "yes" if answer else "no"


def _lettered(options: Any) -> Any:
    """Return options by letter where they are a list, and numbers among their texts as words."""
    if isinstance(options, list):
        options = {chr(ord("A") + place): text for place, text in enumerate(options)}
    if not isinstance(options, Mapping):
        return options
    return {
        letter: str(text) if type(text) in (int, float) else text
        for letter, text in options.items()
    }


def right_letter(answer: Any, options: Mapping[str, str]) -> str:
    """The letter that `answer` is, or whose option's words it is."""
    words = _said(answer[0] if isinstance(answer, list) and len(answer) == 1 else answer)
    if isinstance(words, str | int | float):
        words = " ".join(str(words).split()).casefold()
        named = [
            letter for letter, text in options.items() if " ".join(text.split()).casefold() == words
        ]
        # "C" may be an option's words (vitamin C) as well as a letter: then it is said, not
        # guessed.
        named = list(dict.fromkeys([*named, *({words.upper()} & options.keys())]))
        if len(named) == 1:
            return named[0]
        if named:
            raise BadRow(f"the answer {answer!r} fits more than one option")
    raise BadRow(
        f"the answer {shown(answer)} is none of the options ({', '.join(options)}), nor the words of one"
    )


def _accepted_texts(answer: Any, *, whole_list: bool = False) -> tuple[str, ...]:
    """The accepted texts of a free-text answer: a text, alternatives, or lists of synonyms.

    With `whole_list` each accepted text has all elements: with the first synonym of each, with the
    second, and so on. Else every text is accepted by itself.
    """
    elements = answer if isinstance(answer, list) else [] if answer is None else [answer]
    groups = [texts for element in elements if (texts := _texts(element))]
    if whole_list:
        most = max(map(len, groups), default=0)
        groups = [
            [
                ", ".join(group[min(place, len(group) - 1)] for group in groups)
                for place in range(most)
            ]
        ]
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _texts(element: Any) -> list[str]:
    texts = [_said(text) for text in (element if isinstance(element, list) else [element])]
    if not all(isinstance(text, str | int | float) for text in texts):
        raise BadRow(
            f"an answer must be a text, a list of texts or a list of synonyms, not {shown(element)}"
        )
    return [words for text in texts if (words := str(text).strip())]


def _identifier(value: Any) -> str:
    """An id as a text; it may be a number in the file."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadRow(f"an id must be a text or a whole number, not {shown(value)}")
    return str(value).strip()


def shown(value: Any) -> str:
    """Return a value as JSON, cut to 60 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"
