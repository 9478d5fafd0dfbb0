"""MIRAGE's benchmark.json (Xiong et al. 2024), PubMedQA's ori_pqal.json (Jin et al. 2019), BioASQ's golden files."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ijson  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet, Item
from briefcontext.evaluation.data_sets.field_parsers import (
    YES_NO,
    YES_NO_MAYBE,
    BadRow,
    accepted_texts,
    at,
    identifier,
    identifiers,
    load_json,
    object_of,
    options_of,
    question_of,
    right_letter,
)

__all__ = ["read_bioasq", "read_mirage", "read_pubmedqa"]

BIOASQ_TYPES = ("yesno", "factoid", "list", "summary")


def read_mirage(path: Path, subset: str = "") -> DataSet:
    """Read `{subset: {id: {question, options, answer, PMID}}}`; the PMIDs are the key documents."""
    sets = load_json(path)
    if not isinstance(sets, dict) or not all(isinstance(questions, dict) for questions in sets.values()):
        raise InputError(f"{path} has not MIRAGE's layout, {{subset: {{id: question}}}}.")
    if subset and subset not in sets:
        raise InputError(f"{path} has no subset {subset!r}: it has {', '.join(sets)}.")
    data = DataSet(subset or "mirage")
    for name, questions in sets.items():
        for id, row in questions.items() if subset in ("", name) else ():
            with at(f"{path}, {name}, question {id}"):
                data.items.append(_mirage_item(id, object_of(row), name))
    seen = Counter(item.id for item in data.items)
    data.items = [replace(item, id=f"{item.group}:{item.id}") if seen[item.id] > 1 else item for item in data.items]
    return data


def _mirage_item(id: str, row: dict[str, Any], group: str) -> Item:
    if not (options := options_of(row.get("options"))):
        raise BadRow("there are no options")
    answer = right_letter(row.get("answer"), options)
    return Item(id, question_of(row, "question"), options, (answer,), identifiers(row.get("PMID")), group=group)


def read_pubmedqa(path: Path) -> DataSet:
    """Read `{pmid: {QUESTION, CONTEXTS, LONG_ANSWER, final_decision}}`; the abstract of its id is the key document.

    A question without final_decision (the unlabelled part) has no answer.
    """
    questions = load_json(path)
    if not isinstance(questions, dict):
        raise InputError(f"{path} has not PubMedQA's layout, {{pmid: question}}.")
    data = DataSet("pubmedqa")
    for pmid, row in questions.items():
        with at(f"{path}, question {pmid}"):
            decision = object_of(row).get("final_decision")
            answers = (right_letter(decision, YES_NO_MAYBE),) if decision is not None else ()
            data.items.append(Item(pmid, question_of(row, "QUESTION"), YES_NO_MAYBE, answers, (pmid,)))
    return data


def read_bioasq(path: Path) -> DataSet:
    """Read `{"questions": [{id, body, type, exact_answer, ideal_answer, documents}]}`, of a file or a folder of them.

    A yesno question gets the options yes and no. A factoid accepts each synonym, a list the whole list, and
    a summary its ideal answers. The PMIDs at the end of `documents`' addresses are the key documents.
    """
    data = DataSet("bioasq", files=sorted(path.glob("*.json")) if path.is_dir() else [path])
    for file in data.files:
        for place, row in enumerate(_bioasq_questions(file), 1):
            with at(f"{file}, question {place}"):
                data.items.append(_bioasq_item(object_of(row)))
    return data


def _bioasq_questions(path: Path) -> Iterator[Any]:
    # A training file of all years has tens of megabytes, most of it snippets that are not kept.
    try:
        with path.open("rb") as file:
            yield from ijson.items(file, "questions.item", use_float=True)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not JSON of BioASQ's layout ({error}). For a question a line, write jsonl:{path}."
        ) from error


def _bioasq_item(row: dict[str, Any]) -> Item:
    kind = row.get("type")
    if kind not in BIOASQ_TYPES:
        raise BadRow(f"the type {kind!r} is not one of {', '.join(BIOASQ_TYPES)}")
    exact, ideal, documents = row.get("exact_answer"), row.get("ideal_answer"), row.get("documents") or []
    if not isinstance(documents, list):
        raise BadRow(f"the documents must be a list of addresses, not {documents!r}")
    if kind == "yesno":
        # A test set before its answers are out has none.
        answers: tuple[str, ...] = (right_letter(exact, YES_NO),) if exact else ()
    else:
        answers = accepted_texts(ideal if kind == "summary" else exact, kind)
    return Item(
        id=identifier(row.get("id")),
        question=question_of(row, "body"),
        options=YES_NO if kind == "yesno" else {},
        answers=answers,
        gold_ids=tuple(dict.fromkeys(_pmid(address) for address in documents)),
        summary=kind == "summary",
    )


def _pmid(address: Any) -> str:
    found = re.search(r"(\w+)/?\s*$", address) if isinstance(address, str) else None
    if not found:
        raise BadRow(f"a document must be an address that ends in its PMID, not {address!r}")
    return found[1]
