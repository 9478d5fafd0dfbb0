"""Any JSONL of questions: a JSON object a line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, LongDocument, Reading
from briefcontext.evaluation.data_sets.field_parsers import (
    YES_NO,
    YES_NO_MAYBE,
    BadRow,
    accepted_texts,
    identifier,
    identifiers,
    json_rows,
    options_of,
    question_of,
    right_letter,
)
from briefcontext.evaluation.data_sets.infinitebench import add_context

__all__ = ["read_json_lines"]

_IDS = ("id", "_id", "qid")
_QUESTIONS = ("question", "query", "body", "text")
_ANSWERS = ("answer", "answers")
_GOLD = ("gold_ids", "gold_pmids_in_corpus", "gold_pmids", "gold_pmid", "PMID")
_DOCUMENTS = ("document", "doc_id", "context_id")
_BESIDE = ("documents.jsonl", "documents.jsonl.gz", "contexts.jsonl", "contexts.jsonl.gz")


def read_json_lines(path: Path, subset: str = "") -> Reading:
    """Read `question`, and where they are there `id`, `options`, `answer`, `gold_ids`, `type` and `group`.

    `options` is a mapping or a list, `answer` a letter or an option's words; without options, `answer` is an
    accepted text, several, or lists of synonyms. Questions of the type `yesno`, and those of a file whose
    answers are all yes, no or maybe, get these as options, maybe only where some answer is. `gold_ids` may
    also be `gold_pmids_in_corpus`, else `gold_pmids`. A long text is in the row (`context`), or in
    documents.jsonl or contexts.jsonl beside, under the id that the row's `document`, `doc_id` or
    `context_id` gives. Without `id` a question's id is its line.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    reading = Reading(path.resolve().parent.name if stem in ("queries", "questions") else stem)
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, row in json_rows(path):
        if row.get("context") is not None:
            try:
                row["document"] = add_context(reading, row.pop("context"))
            except BadRow as error:
                raise InputError(f"{path}, line {number}: {error}.") from error
        rows.append((number, row))
    decisions = _decisions([row for _, row in rows])
    for number, row in rows:
        try:
            reading.items.append(_item(row, number, decisions))
        except BadRow as error:
            raise InputError(f"{path}, line {number}: {error}.") from error
    _add_documents(reading, path)
    return reading


def _decisions(rows: list[dict[str, Any]]) -> tuple[dict[str, str], bool]:
    """The options of questions to be answered by yes or no, and whether all questions without options are."""
    free = [row for row in rows if not row.get("options") and not row.get("choices")]
    answers = [_decision(_first(row, _ANSWERS)) for row in free if row.get("type") in (None, "yesno")]
    every = bool(free) and len(answers) == len(free) and all(answer in YES_NO_MAYBE.values() for answer in answers)
    return (YES_NO_MAYBE if "maybe" in answers else YES_NO), every


def _decision(answer: Any) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return answer.strip().casefold() if isinstance(answer, str) else ""


def _first(row: Mapping[str, Any], columns: tuple[str, ...]) -> Any:
    return next((row[column] for column in columns if row.get(column) is not None), None)


def _item(row: dict[str, Any], number: int, decisions: tuple[dict[str, str], bool]) -> Item:
    kind = str(row.get("type") or "")
    options = options_of(_first(row, ("options", "choices")))
    if not options and (kind == "yesno" or decisions[1]):
        options = decisions[0]
    answer = _first(row, _ANSWERS)
    answers: tuple[str, ...]
    if options:
        answers = (right_letter(answer, options),) if answer is not None and answer != [] else ()
    else:
        answers = accepted_texts(row.get("ideal_answer") if answer is None else answer, "" if answer is None else kind)
    id_, document, group = _first(row, _IDS), _first(row, _DOCUMENTS), row.get("group")
    return Item(
        id=f"line-{number}" if id_ is None else identifier(id_),
        question=question_of(row, *_QUESTIONS),
        options=options,
        answers=answers,
        gold_ids=identifiers(_first(row, _GOLD)),
        # BioASQ's ideal answers are summaries, also where there is no type.
        summary=not options and bool(answers) and (kind == "summary" or answer is None),
        document=None if document is None else identifier(document),
        group="" if group is None else identifier(group),
    )


def _add_documents(reading: Reading, path: Path) -> None:
    """Read the long texts that questions name by id, and only those."""
    wanted = {item.document for item in reading.items if item.document} - set(reading.documents)
    for file in (path.parent / name for name in _BESIDE):
        if wanted and file.is_file():
            for number, row in json_rows(file):
                try:
                    id_, text = identifier(row.get("id")), row.get("text")
                    if id_ in wanted and (not isinstance(text, str) or not text.strip()):
                        raise BadRow("there is no text in 'text'")
                except BadRow as error:
                    raise InputError(f"{file}, line {number}: {error}.") from error
                if id_ in wanted:
                    reading.documents[id_] = LongDocument(id_, str(row.get("title") or ""), str(text))
            wanted -= set(reading.documents)
    if wanted:
        raise InputError(
            f"{path} asks on {sorted(wanted)[0]!r}, which is in none of {', '.join(_BESIDE[::2])} beside it. "
            "Put its text there (id, title, text), or into the row as 'context'."
        )
