"""MIRAGE's benchmark.json (Xiong et al. 2024) and PubMedQA's ori_pqal.json (Jin et al. 2019)."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, Reading
from briefcontext.evaluation.data_sets.field_parsers import (
    YES_NO_MAYBE,
    BadRow,
    identifiers,
    load_json,
    object_of,
    options_of,
    question_of,
    right_letter,
)

__all__ = ["read_mirage", "read_pubmedqa"]


def read_mirage(path: Path, subset: str = "") -> Reading:
    """Read `{subset: {id: {question, options, answer, PMID}}}`; the PMIDs are the key documents."""
    sets = load_json(path)
    if not isinstance(sets, dict) or not all(isinstance(questions, dict) for questions in sets.values()):
        raise InputError(f"{path} has not MIRAGE's layout, {{subset: {{id: question}}}}.")
    if subset and subset not in sets:
        raise InputError(f"{path} has no subset {subset!r}: it has {', '.join(sets)}.")
    reading = Reading(subset or "mirage")
    for name, questions in sets.items():
        if subset in ("", name):
            for id_, row in questions.items():
                try:
                    reading.items.append(_mirage_item(id_, object_of(row), name))
                except BadRow as error:
                    raise InputError(f"{path}, {name}, question {id_}: {error}.") from error
    seen = Counter(item.id for item in reading.items)
    reading.items = [
        replace(item, id=f"{item.group}:{item.id}") if seen[item.id] > 1 else item for item in reading.items
    ]
    return reading


def _mirage_item(id_: str, row: dict[str, Any], group: str) -> Item:
    options = options_of(row.get("options"))
    if not options:
        raise BadRow("there are no options")
    return Item(
        id=id_,
        question=question_of(row, "question"),
        options=options,
        answers=(right_letter(row.get("answer"), options),),
        gold_ids=identifiers(row.get("PMID")),
        group=group,
    )


def read_pubmedqa(path: Path, subset: str = "") -> Reading:
    """Read `{pmid: {QUESTION, CONTEXTS, LONG_ANSWER, final_decision}}`; the abstract of its id is the key document.

    A question without final_decision (the unlabelled part) has no answer.
    """
    questions = load_json(path)
    if not isinstance(questions, dict):
        raise InputError(f"{path} has not PubMedQA's layout, {{pmid: question}}.")
    reading = Reading("pubmedqa")
    for pmid, row in questions.items():
        try:
            row = object_of(row)
            decision = row.get("final_decision")
            answers = (right_letter(decision, YES_NO_MAYBE),) if decision is not None else ()
            reading.items.append(Item(pmid, question_of(row, "QUESTION"), YES_NO_MAYBE, answers, (pmid,)))
        except BadRow as error:
            raise InputError(f"{path}, question {pmid}: {error}.") from error
    return reading
