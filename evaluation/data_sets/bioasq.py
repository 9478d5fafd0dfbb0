"""BioASQ's golden files: the official JSON, one file a batch or a folder of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ijson  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, Reading
from briefcontext.evaluation.data_sets.field_parsers import (
    YES_NO,
    BadRow,
    accepted_texts,
    identifier,
    object_of,
    question_of,
    right_letter,
)

__all__ = ["read_bioasq"]

TYPES = ("yesno", "factoid", "list", "summary")


def read_bioasq(path: Path, subset: str = "") -> Reading:
    """Read `{"questions": [{id, body, type, exact_answer, ideal_answer, documents}]}`.

    A yesno question gets the options yes and no. A factoid accepts each synonym, a list the whole list, and
    a summary its ideal answers. The PMIDs at the end of `documents`' addresses are the key documents.
    """
    reading = Reading("bioasq")
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        for place, row in enumerate(_questions(file), 1):
            try:
                reading.items.append(_item(object_of(row)))
            except BadRow as error:
                raise InputError(f"{file}, question {place}: {error}.") from error
    return reading


def _questions(path: Path) -> Iterator[Any]:
    # A training file of all years has tens of megabytes, most of it snippets that are not kept.
    try:
        with path.open("rb") as file:
            yield from ijson.items(file, "questions.item", use_float=True)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not JSON of BioASQ's layout ({error}). For a question a line, write jsonl:{path}."
        ) from error


def _item(row: dict[str, Any]) -> Item:
    kind = row.get("type")
    if kind not in TYPES:
        raise BadRow(f"the type {kind!r} is not one of {', '.join(TYPES)}")
    exact, ideal = row.get("exact_answer"), row.get("ideal_answer")
    answers: tuple[str, ...]
    if kind == "yesno":
        # A test set before its answers are out has none.
        answers = (right_letter(exact, YES_NO),) if exact else ()
    else:
        answers = accepted_texts(ideal if kind == "summary" else exact, kind)
    return Item(
        id=identifier(row.get("id")),
        question=question_of(row, "body"),
        options=YES_NO if kind == "yesno" else {},
        answers=answers,
        gold_ids=tuple(dict.fromkeys(_pmid(address) for address in row.get("documents") or [])),
        summary=kind == "summary",
    )


def _pmid(address: Any) -> str:
    found = re.search(r"(\w+)/?\s*$", address) if isinstance(address, str) else None
    if not found:
        raise BadRow(f"a document must be an address that ends in its PMID, not {address!r}")
    return found[1]
