"""MIRAGE (Xiong et al. 2024), PubMedQA (Jin et al. 2019), BioASQ, InfiniteBench and MedQ."""

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError, needing
from briefcontext.evaluation.data_sets.data_set import DataSet
from briefcontext.evaluation.data_sets.rows import (
    YES_NO,
    YES_NO_MAYBE,
    BadRow,
    add_context,
    item_of,
    json_rows,
    load_json,
    object_of,
    reading,
    right_letter,
)

BIOASQ_TYPES = ("yesno", "factoid", "list", "summary")
_MEDQ = ("ID", "Question", "Answer")


def read_mirage(path: Path, subset: str = "") -> DataSet:
    """Read `{subset: {id: {question, options, answer, PMID}}}`; the PMIDs are the key documents."""
    sets = load_json(path)
    if not isinstance(sets, dict) or not all(
        isinstance(questions, dict) for questions in sets.values()
    ):
        raise InputError(f"{path} has not MIRAGE's layout, {{subset: {{id: question}}}}.")
    if subset and subset not in sets:
        raise InputError(f"{path} has no subset {subset!r}: it has {', '.join(sets)}.")
    data = DataSet(subset or "mirage")
    for name, questions in sets.items():
        for id, row in questions.items() if subset in ("", name) else ():
            with reading(f"{path}, {name}, question {id}"):
                item = item_of(row, id=id, group=name)
                if not item.options:
                    raise BadRow("there are no options")
                data.items.append(item)
    seen = Counter(item.id for item in data.items)
    data.items = [
        replace(item, id=f"{item.group}:{item.id}") if seen[item.id] > 1 else item
        for item in data.items
    ]
    return data


def read_pubmedqa(path: Path) -> DataSet:
    """Read `{pmid: {QUESTION, CONTEXTS, LONG_ANSWER, final_decision}}`; the id is the gold id."""
    questions = load_json(path)
    if not isinstance(questions, dict):
        raise InputError(f"{path} has not PubMedQA's layout, {{pmid: question}}.")
    data = DataSet("pubmedqa")
    for pmid, row in questions.items():
        with reading(f"{path}, question {pmid}"):
            data.items.append(item_of(row, YES_NO_MAYBE, id=pmid, gold_ids=pmid))
    return data


def read_bioasq(path: Path) -> DataSet:
    """Read `{"questions": [{id, body, type, exact_answer, ideal_answer, documents}]}` files.

    A yesno question gets the options yes and no. A factoid accepts each synonym, a list the whole
    list, and a summary its ideal answers. The gold ids are the PMIDs in `documents`.
    """
    data = DataSet("bioasq", files=sorted(path.glob("*.json")) if path.is_dir() else [path])
    for file in data.files:
        content = load_json(file)
        questions = content.get("questions") if isinstance(content, dict) else None
        for place, row in enumerate(questions if isinstance(questions, list) else [], 1):
            with reading(f"{file}, question {place}"):
                kind, documents = object_of(row).get("type"), row.get("documents") or []
                if kind not in BIOASQ_TYPES:
                    raise BadRow(f"the type {kind!r} is not one of {', '.join(BIOASQ_TYPES)}")
                if not isinstance(documents, list):
                    raise BadRow(f"the documents must be a list of addresses, not {documents!r}")
                beside = {"exact_answer" if kind == "summary" else "ideal_answer": None}
                data.items.append(
                    item_of(
                        row,
                        YES_NO if kind == "yesno" else {},
                        gold_ids=list(map(_pmid, documents)),
                        **beside,
                    )
                )
    return data


def _pmid(address: Any) -> str:
    match = re.search(r"(\w+)/?\s*$", address) if isinstance(address, str) else None
    if not match:
        raise BadRow(f"a document must be an address that ends in its PMID, not {address!r}")
    return match[1]


def read_infinitebench(path: Path, *, choice: bool) -> DataSet:
    """Read longbook_qa_eng.jsonl: `id`, `context`, `input` and `answer`, a list of accepted texts.

    longbook_choice_eng.jsonl (`choice`) has a list of `options`, and the right one's text in
    `answer`. As in the benchmark's scorer, of options with equal texts the first is right.
    """
    data = DataSet("infinitebench-mc" if choice else "infinitebench-qa")
    unused: dict[str, Any] = {"answer": None} if choice else {"options": None}
    for number, row in json_rows(path):
        with reading(f"{path}, line {number}"):
            document = add_context(data, row)
            item = item_of(row, {}, document=document, gold_ids=document, **unused)
            if choice and not item.options:
                raise BadRow("there are no options")
            if choice:
                item = replace(item, answers=(_letter(row.get("answer"), item.options),))
            if not item.answers:
                raise BadRow("there is no answer")
            data.items.append(item)
    return data


def _letter(answer: Any, options: Mapping[str, str]) -> str:
    if isinstance(answer, list) and len(answer) == 2 and answer[1] in [*options]:
        return str(answer[1])
    words = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    same = [
        letter
        for letter, text in options.items()
        if isinstance(words, str) and text == words.strip()
    ]
    return same[0] if same else right_letter(answer, options)


def read_medq(path: Path) -> DataSet:
    """Read the first sheet of MedQ (Zhang et al. 2025), with the heads ID, Question and Answer."""
    with needing("experiments", "Spreadsheets need openpyxl"):
        import openpyxl  # type: ignore[import-untyped]
        from openpyxl.utils.exceptions import InvalidFileException  # type: ignore[import-untyped]
    from zipfile import BadZipFile

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, BadZipFile, KeyError, ValueError) as error:
        raise InputError(f"{path} is not an .xlsx spreadsheet: {error}. Save it as one.") from error
    with closing(book):
        heads, *rows = [*book.worksheets[0].iter_rows(values_only=True)] or [()]
    if not {*_MEDQ}.issubset(heads):
        raise InputError(
            f"{path} has not MedQ's layout: the first row must have the heads {', '.join(_MEDQ)}."
        )
    data = DataSet("medq")
    for number, cells in enumerate(rows, 2):
        if any(cells):
            id, question, answer = (cells[heads.index(head)] for head in _MEDQ)
            with reading(f"{path}, row {number}"):
                data.items.append(item_of({"id": id, "question": question, "ideal_answer": answer}))
    return data
