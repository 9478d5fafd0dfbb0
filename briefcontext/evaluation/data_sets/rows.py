"""Rows of JSON, and the items that are made from them."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

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
"""The names of a value in a row; the first that is not empty counts."""


_DOCUMENTS = ("documents.jsonl", "documents.jsonl.gz", "contexts.jsonl", "contexts.jsonl.gz")


class BadRow(ValueError):
    """A row that cannot be used; `at` adds its place to the message."""


@contextmanager
def reading(place: object) -> Iterator[None]:
    """Turn a BadRow into an InputError with the place of the row."""
    try:
        yield
    except BadRow as error:
        raise InputError(f"{place}: {error}.") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The json module keeps the last of equal keys, and would lose a question silently.
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise BadRow(f"the key {key!r} occurs twice in one object: give each its own")
        result[key] = value
    return result


def _parsed(content: bytes, path: Path, line: int = 1, advice: str = "") -> Any:
    with reading(f"{path}, line {line}"):
        try:
            return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_distinct)
        except UnicodeDecodeError as error:
            raise BadRow(f"it cannot be read as UTF-8 text: {error}") from error
        except json.JSONDecodeError as error:
            raise InputError(
                f"{path}, line {line + error.lineno - 1}: this is not JSON ({error.msg}). Check "
                f"that the file is complete and has this layout.{advice}"
            ) from error


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


def load_json(path: Path) -> Any:
    """Read a whole JSON file. Raises InputError if it is not JSON or a key occurs twice."""
    return _parsed(b"".join(_lines(path)), path, advice=f" For JSON lines, write jsonl:{path}.")


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line that is not blank.

    Raises InputError for a line that is not a JSON object.
    """
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            with reading(f"{path}, line {number}"):
                row = object_of(_parsed(line.rstrip(b"\r\n"), path, number))
            yield number, row


def read_json_lines(path: Path) -> DataSet:
    """Read your own questions, one JSON object a line; docs/reproduce.md describes the format.

    Keys: `question`, and optionally `id`, `options` (a mapping or a list), `answer` (a letter or
    an option's text; for a free question an accepted text, several, or lists of synonyms),
    `gold_ids`, `document` (a file next to this one, or an id in documents.jsonl), `context` (the
    long text itself), `type` and `group`. Questions of the type `yesno`, and those of a file whose
    answers are all yes, no or maybe, get these as options.
    """
    data = DataSet(path.name.removesuffix(".gz").removesuffix(".jsonl"), files=[path])
    rows = list(json_rows(path))
    decisions, of_all = _decisions([row for _, row in rows])
    for number, row in rows:
        with reading(f"{path}, line {number}"):
            if row.get("context") is not None:
                row["document"] = add_context(data, row)
            if _value_of(row, "id") is None:
                row["id"] = f"line-{number}"
            own = decisions if of_all or row.get("type") == "yesno" else {}
            data.items.append(item_of(row, own))
    _add_documents(data, path)
    return data


def _decisions(rows: list[dict[str, Any]]) -> tuple[Mapping[str, str], bool]:
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
    wanted = {item.document for item in data.items if item.document} - set(data.documents)
    for name in sorted(wanted):
        file = path.parent / name
        if file.is_file() and file.resolve().is_relative_to(path.parent.resolve()):
            data.documents[name] = _file_document(file, name)
            data.files.append(file)
    wanted -= set(data.documents)
    for file in (path.parent / name for name in _DOCUMENTS):
        if not wanted or not file.is_file():
            continue
        data.files.append(file)
        for number, row in json_rows(file):
            with reading(f"{file}, line {number}"):
                id = _identifier(row.get("id"))
                if id in wanted and id in data.documents:
                    raise BadRow(f"the id {id!r} occurs twice")
                if id in wanted:
                    text, title = _text_of(row, "text"), str(row.get("title") or "")
                    data.documents[id] = long_document(id, text, title)
        wanted -= set(data.documents)
    if wanted:
        name = min(wanted)
        number = next(n for n, item in enumerate(data.items, 1) if item.document == name)
        raise InputError(
            f"Question {number} names the document {name!r}, which is not in {path.parent}. Put a "
            "file of this name there, or a row with this id and `text` into documents.jsonl."
        )


def _file_document(file: Path, name: str) -> Document:
    from briefcontext.knowledge.sources.files import open_sources
    from briefcontext.knowledge.sources.source import only_document, several_documents

    source, *others = open_sources(file)
    if others:
        raise several_documents(file)
    document = only_document(file, source.entries())
    metadata = {"title": "", **document.metadata, "source_id": name}
    return Document(id=name, page_content=document.page_content, metadata=metadata)


def add_context(data: DataSet, row: dict[str, Any]) -> str:
    """Keep a long text once, and return its id, which is made from its SHA-256."""
    text = _text_of(row, "context")
    id = f"text-{sha256(text)[:16]}"
    data.documents.setdefault(id, long_document(id, text))
    return id


def object_of(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object."""
    if not isinstance(value, dict):
        raise BadRow(f"a question must be a JSON object, not {shown(value)}")
    return value


def _value_of(row: Mapping[str, Any], name: str) -> Any:
    return next((row[column] for column in _NAMES[name] if row.get(column) not in (None, "")), None)


def item_of(row: Any, decisions: Mapping[str, str] = {}, **given: Any) -> Item:
    """Make an item from a row; `given` replaces its values, `decisions` are its default options."""
    row = {**object_of(row), **given}
    kind, answer, document = row.get("type"), _value_of(row, "answer"), _value_of(row, "document")
    answer = None if answer == [] else answer
    question, gold = _value_of(row, "question"), _value_of(row, "gold_ids")
    if not isinstance(question, str) or not question.strip():
        raise BadRow("it has no `question`. Add its text")
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
        # BioASQ's ideal answers are summaries, also without a type.
        summary=not options and bool(answers) and (kind == "summary" or answer is None),
        document=None if document is None else _identifier(document),
        group="" if row.get("group") is None else _identifier(row["group"]),
    )


def _text_of(row: Mapping[str, Any], column: str) -> str:
    text = row.get(column)
    if not isinstance(text, str) or not text.strip():
        raise BadRow(f"there is no text in {column!r}")
    return text


def _said(answer: Any) -> Any:
    return answer if not isinstance(answer, bool) else "yes" if answer else "no"


def _lettered(options: Any) -> Any:
    if isinstance(options, list):
        options = {chr(ord("A") + place): text for place, text in enumerate(options)}
    if not isinstance(options, Mapping):
        return options
    return {
        letter: str(text) if type(text) in (int, float) else text
        for letter, text in options.items()
    }


def right_letter(answer: Any, options: Mapping[str, str]) -> str:
    """Return the letter that `answer` is, or whose option has its text."""
    words = _said(answer[0] if isinstance(answer, list) and len(answer) == 1 else answer)
    if isinstance(words, str | int | float):
        words = " ".join(str(words).split()).casefold()
        named = [
            letter for letter, text in options.items() if " ".join(text.split()).casefold() == words
        ]
        named = list(dict.fromkeys([*named, *({words.upper()} & options.keys())]))
        if len(named) == 1:
            return named[0]
        if named:
            raise BadRow(f"the answer {answer!r} fits more than one option. Give the letter")
    raise BadRow(
        f"the answer {shown(answer)} is not one of the letters {', '.join(options)} or the text of "
        "an option. Correct `answer`"
    )


def _accepted_texts(answer: Any, *, whole_list: bool = False) -> tuple[str, ...]:
    """Return the accepted texts of a free answer: a text, alternatives, or lists of synonyms."""
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
        raise BadRow(f"`answer` must be a text or a list of texts, not {shown(element)}")
    return [words for text in texts if (words := str(text).strip())]


def _identifier(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadRow(f"an id must be a text or a whole number, not {shown(value)}")
    return str(value).strip()


def shown(value: Any) -> str:
    """Return a value as JSON, cut to 60 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"
