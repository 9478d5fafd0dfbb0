"""Questions as JSON lines: any of one's own, and InfiniteBench's En.QA and En.MC (Zhang et al. 2024), on novels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet, Item, LongDocument
from briefcontext.evaluation.data_sets.field_parsers import (
    YES_NO,
    YES_NO_MAYBE,
    BadRow,
    accepted_texts,
    at,
    identifier,
    identifiers,
    json_rows,
    options_of,
    question_of,
    right_letter,
    text_of,
)
from briefcontext.files import sha256

__all__ = ["read_en_mc", "read_en_qa", "read_json_lines"]

_IDS = ("id", "_id", "qid")
_QUESTIONS = ("question", "query", "body", "text")
_ANSWERS = ("answer", "answers")
_GOLD = ("gold_ids", "gold_pmids_in_corpus", "gold_pmids", "gold_pmid", "PMID")
_DOCUMENTS = ("document", "doc_id", "context_id")
_BESIDE = ("documents.jsonl", "documents.jsonl.gz", "contexts.jsonl", "contexts.jsonl.gz")


def read_json_lines(path: Path, *, options: Mapping[str, str] | None = None) -> DataSet:
    """Read `question`, and where they are there `id`, `options`, `answer`, `gold_ids`, `type` and `group`.

    `options` is a mapping or a list, `answer` a letter or an option's words; without options, `answer` is an
    accepted text, several, or lists of synonyms. Questions of the type `yesno`, and those of a file whose
    answers are all yes, no or maybe, get these as options, maybe only where some answer is. `gold_ids` may
    also be `gold_pmids_in_corpus`, else `gold_pmids`. A long text is in the row (`context`), or in
    documents.jsonl or contexts.jsonl beside, under the id that the row's `document`, `doc_id` or
    `context_id` gives. Without `id` a question's id is its line. Options that are
    given to this function are those of all questions without any.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    data = DataSet(path.resolve().parent.name if stem in ("queries", "questions") else stem)
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, row in json_rows(path):
        if row.get("context") is not None:
            with at(f"{path}, line {number}"):
                row["document"] = _add_context(data, row)
        rows.append((number, row))
    decisions = _decisions([row for _, row in rows]) if options is None else (options, True)
    for number, row in rows:
        with at(f"{path}, line {number}"):
            data.items.append(_item(row, number, decisions))
    _add_documents(data, path)
    return data


def _decisions(rows: list[dict[str, Any]]) -> tuple[Mapping[str, str], bool]:
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


def _item(row: dict[str, Any], number: int, decisions: tuple[Mapping[str, str], bool]) -> Item:
    kind = str(row.get("type") or "")
    options: Mapping[str, str] = options_of(_first(row, ("options", "choices")))
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


def _add_documents(data: DataSet, path: Path) -> None:
    """Read the long texts that questions name by id, and only those."""
    wanted = {item.document for item in data.items if item.document} - set(data.documents)
    for file in (path.parent / name for name in _BESIDE):
        if wanted and file.is_file():
            for number, row in json_rows(file):
                with at(f"{file}, line {number}"):
                    if (id := identifier(row.get("id"))) in wanted:
                        if id in data.documents:
                            raise BadRow(f"the id {id!r} occurs twice")
                        data.documents[id] = LongDocument(id, str(row.get("title") or ""), text_of(row, "text"))
            wanted -= set(data.documents)
    if wanted:
        raise InputError(
            f"{path} asks on {sorted(wanted)[0]!r}, which is in none of {', '.join(_BESIDE[::2])} beside it. "
            "Put its text there (id, title, text), or into the row as 'context'."
        )


def read_en_qa(path: Path) -> DataSet:
    """Read longbook_qa_eng.jsonl: `id`, `context`, `input` and `answer`, a list of accepted texts."""
    return _infinitebench(path, DataSet("infinitebench-qa"), choice=False)


def read_en_mc(path: Path) -> DataSet:
    """Read longbook_choice_eng.jsonl: as En.QA, with `options` (a list), and the right one's words in `answer`.

    As in the benchmark's own scorer, `answer` may also be the words and the letter, and of options with
    equal words the first is the right one.
    """
    return _infinitebench(path, DataSet("infinitebench-mc"), choice=True)


def _infinitebench(path: Path, data: DataSet, *, choice: bool) -> DataSet:
    for number, row in json_rows(path):
        with at(f"{path}, line {number}"):
            options = options_of(row.get("options")) if choice else {}
            if choice and not options:
                raise BadRow("there are no options")
            answers = (_letter(row.get("answer"), options),) if choice else accepted_texts(row.get("answer"))
            if not answers:
                raise BadRow("there is no answer")
            question = question_of(row, "input")
            document = _add_context(data, row)
            data.items.append(Item(identifier(row.get("id")), question, options, answers, (document,), document))
    return data


def _letter(answer: Any, options: dict[str, str]) -> str:
    if isinstance(answer, list) and len(answer) == 2 and answer[1] in [*options]:
        return str(answer[1])
    words = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    same = [letter for letter, text in options.items() if isinstance(words, str) and text == words.strip()]
    return same[0] if same else right_letter(answer, options)


def _add_context(data: DataSet, row: dict[str, Any]) -> str:
    """Keep a long text once, however many questions repeat it, and return its id, made of its SHA-256."""
    text = text_of(row, "context")
    id = f"text-{sha256(text)[:16]}"
    data.documents.setdefault(id, LongDocument(id, "", text))
    return id
