"""Questions as JSON lines, any of one's own, and the long texts that they are asked on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet, LongDocument
from briefcontext.evaluation.data_sets.field_parsers import (
    YES_NO,
    YES_NO_MAYBE,
    BadRow,
    at,
    identifier,
    item_of,
    json_rows,
    said,
    text_of,
    value_of,
)
from briefcontext.files import sha256

__all__ = ["add_context", "read_json_lines"]

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
    rows = list(json_rows(path))
    decisions, of_all = (options, True) if options else _decisions([row for _, row in rows])
    for number, row in rows:
        with at(f"{path}, line {number}"):
            if row.get("context") is not None:
                row["document"] = add_context(data, row)
            if value_of(row, "id") is None:
                row["id"] = f"line-{number}"
            data.items.append(item_of(row, decisions if of_all or row.get("type") == "yesno" else {}))
    _add_documents(data, path)
    return data


def _decisions(rows: list[dict[str, Any]]) -> tuple[Mapping[str, str], bool]:
    """The options of questions to be answered by yes or no, and whether all questions without options are."""
    free = [row for row in rows if not value_of(row, "options")]
    words = [
        str(said(value_of(row, "answer"))).strip().casefold() for row in free if row.get("type") in (None, "yesno")
    ]
    of_all = bool(free) and len(words) == len(free) and all(word in YES_NO_MAYBE.values() for word in words)
    return (YES_NO_MAYBE if "maybe" in words else YES_NO), of_all


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


def add_context(data: DataSet, row: dict[str, Any]) -> str:
    """Keep a long text once, however many questions repeat it, and return its id, made of its SHA-256."""
    text = text_of(row, "context")
    id = f"text-{sha256(text)[:16]}"
    data.documents.setdefault(id, LongDocument(id, "", text))
    return id
