"""Evidence Inference (DeYoung et al. 2020): what full texts of trials report of an outcome."""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet, Item, long_document
from briefcontext.evaluation.data_sets.rows import read_json_lines

OPTIONS = {
    "A": "significantly increased",
    "B": "significantly decreased",
    "C": "no significant difference",
}

_CODES = {"1": "A", "-1": "B", "0": "C"}
"""The file's Label Code; its labels in words are spelt in more than one way."""

_TITLE = re.compile(r"\A\s*TITLE:\s*(\S.*)")
_ROW_BYTES = 1 << 24
_FILES = ("prompts_merged.csv", "annotations_merged.csv", "documents.jsonl", "questions.jsonl")
_PROMPT_COLUMNS = ("PromptID", "PMCID", "Outcome", "Intervention", "Comparator")


def read_evidence_inference(path: Path) -> DataSet:
    """Read a folder of the published layout, or of documents.jsonl and questions.jsonl; its files may be gzipped.

    The answer is what most annotators say whose label was found valid, each with one vote a label.
    Left out, and counted, are prompts without a valid label, with a tie, without an outcome or an
    intervention, and those that repeat another word for word.
    """
    if not path.is_dir():
        raise InputError(
            f"{path} is a file: give the folder that holds prompts_merged.csv, or questions.jsonl."
        )
    files = [
        file for name in _FILES for file in (path / name, path / f"{name}.gz") if file.is_file()
    ]
    named = {file.name.removesuffix(".gz"): file for file in reversed(files)}
    if "prompts_merged.csv" in named:
        data = _published(path, named)
        files += sorted((path / "txt_files").glob("PMC*.txt"))
    elif "questions.jsonl" in named and "documents.jsonl" in named:
        data = _as_json_lines(named["questions.jsonl"])
    else:
        raise InputError(
            f"{path} holds neither prompts_merged.csv nor questions.jsonl with documents.jsonl. "
            "The data are published at https://github.com/jayded/evidence-inference."
        )
    data.files = files
    return data


def _published(folder: Path, named: Mapping[str, Path]) -> DataSet:
    votes = _votes(named.get("annotations_merged.csv", folder / "annotations_merged.csv"))
    data = DataSet("evidence-inference")
    read: dict[str, dict[str, str]] = {}
    for place, row in _csv_rows(named["prompts_merged.csv"], *_PROMPT_COLUMNS):
        prompt, document = row["PromptID"], f"PMC{row['PMCID'].upper().removeprefix('PMC')}"
        ballot = votes.get(prompt, Counter()).most_common()
        if read.get(prompt) == row:
            data.left_out["repeats another prompt"] += 1
            continue
        read[prompt] = row
        if not row["Outcome"] or not row["Intervention"]:
            data.left_out["no outcome or no intervention"] += 1
        elif not ballot:
            data.left_out["no valid label"] += 1
        elif len(ballot) > 1 and ballot[0][1] == ballot[1][1]:
            data.left_out["the annotators' labels are tied"] += 1
        else:
            question = (
                f"With respect to {row['Outcome']}, characterize the reported difference between patients "
                f"receiving {row['Intervention']} and those receiving {row['Comparator']}."
            )
            if document not in data.documents:
                data.documents[document] = _text(
                    folder / "txt_files" / f"{document}.txt", document, place
                )
            data.items.append(
                Item(prompt, question, OPTIONS, (ballot[0][0],), (document,), document)
            )
    return data


def _votes(path: Path) -> dict[str, Counter[str]]:
    cast: dict[str, set[tuple[str, str]]] = {}
    for place, row in _csv_rows(path, "PromptID", "UserID", "Valid Label", "Label", "Label Code"):
        code, valid = (
            row["Label Code"].removesuffix(".0"),
            row["Valid Label"].casefold() in ("1", "1.0", "true"),
        )
        if not valid or row["Label"].casefold() in ("", "invalid prompt"):
            continue
        if code not in _CODES:
            raise InputError(
                f"{path}, line {place}: the Label Code {code!r} is none of {', '.join(_CODES)}."
            )
        # An annotator has a row for each piece of evidence, and still one vote.
        cast.setdefault(row["PromptID"], set()).add((row["UserID"], _CODES[code]))
    return {prompt: Counter(label for _, label in ballots) for prompt, ballots in cast.items()}


def _csv_rows(path: Path, *columns: str) -> Iterator[tuple[int, dict[str, str]]]:
    if not path.is_file():
        raise InputError(
            f"There is no {path}. It is published at https://github.com/jayded/evidence-inference."
        )
    csv.field_size_limit(_ROW_BYTES)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        names = rows.fieldnames or []
        if missing := [column for column in columns if column not in names]:
            raise InputError(
                f"{path} has no column {missing[0]!r}: its columns are {', '.join(names)}."
            )
        try:
            for row in rows:
                if not (row["PromptID"] or "").strip():
                    raise InputError(f"{path}, line {rows.line_num}: there is no PromptID.")
                yield rows.line_num, {column: (row[column] or "").strip() for column in columns}
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}, line {rows.line_num}: {error}.") from error


def _text(path: Path, id_: str, place: int) -> Document:
    if not path.is_file():
        raise InputError(
            f"prompts_merged.csv, line {place} asks on {id_}, and there is no {path}. "
            "The texts are published at http://evidence-inference.ebm-nlp.com/download/."
        )
    text = path.read_text(encoding="utf-8")
    title = _TITLE.match(text)
    return long_document(id_, text, title[1].strip() if title else "")


def _as_json_lines(questions: Path) -> DataSet:
    data = read_json_lines(questions, options=OPTIONS)
    data.name = "evidence-inference"
    for place, item in enumerate(data.items):
        if not item.document or not item.answers:
            missing = "answer" if item.document else "doc_id"
            raise InputError(f"{questions}: question {item.id} has no {missing!r}.")
        data.items[place] = replace(item, gold_ids=(item.document,))
    return data
