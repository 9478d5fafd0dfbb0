"""En.QA and En.MC of InfiniteBench (Zhang et al. 2024): questions on whole novels."""

from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, LongDocument, Reading
from briefcontext.evaluation.data_sets.field_parsers import (
    BadRow,
    accepted_texts,
    identifier,
    json_rows,
    options_of,
    question_of,
    right_letter,
)
from briefcontext.files import sha256

__all__ = ["add_context", "read_en_mc", "read_en_qa"]


def read_en_qa(path: Path, subset: str = "") -> Reading:
    """Read longbook_qa_eng.jsonl: `id`, `context`, `input` and `answer`, a list of accepted texts."""
    return _read(path, Reading("infinitebench-qa"), choice=False)


def read_en_mc(path: Path, subset: str = "") -> Reading:
    """Read longbook_choice_eng.jsonl: as En.QA, with `options` (a list), and the right one's words in `answer`.

    As in the benchmark's own scorer, `answer` may also be the words and the letter, and of options with
    equal words the first is the right one.
    """
    return _read(path, Reading("infinitebench-mc"), choice=True)


def _read(path: Path, reading: Reading, *, choice: bool) -> Reading:
    for number, row in json_rows(path):
        try:
            options = options_of(row.get("options")) if choice else {}
            if choice and not options:
                raise BadRow("there are no options")
            answers = (_letter(row.get("answer"), options),) if choice else accepted_texts(row.get("answer"))
            if not answers:
                raise BadRow("there is no answer")
            question = question_of(row, "input")
            document = add_context(reading, row.get("context"))
            reading.items.append(Item(identifier(row.get("id")), question, options, answers, (document,), document))
        except BadRow as error:
            raise InputError(f"{path}, line {number}: {error}.") from error
    return reading


def _letter(answer: Any, options: dict[str, str]) -> str:
    if isinstance(answer, list) and len(answer) == 2 and answer[1] in options:
        return str(answer[1])
    words = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    if isinstance(words, str):
        for letter, text in options.items():
            if text == words.strip():
                return letter
    return right_letter(answer, options)


def add_context(reading: Reading, context: Any) -> str:
    """Keep a long text once, however many questions repeat it, and return its id, made of its SHA-256."""
    if not isinstance(context, str) or not context.strip():
        raise BadRow("there is no text in 'context'")
    id_ = f"text-{sha256(context)[:16]}"
    if id_ not in reading.documents:
        reading.documents[id_] = LongDocument(id_, "", context)
    return id_
