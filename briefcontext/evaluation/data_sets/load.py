"""Opening a data set by its kind and path."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet
from briefcontext.evaluation.data_sets.published import (
    read_bioasq,
    read_infinitebench,
    read_medq,
    read_mirage,
    read_pubmedqa,
)
from briefcontext.evaluation.data_sets.rows import read_json_lines
from briefcontext.files import file_sha256, lone_surrogate, sha256


class Kind(NamedTuple):
    """One layout: its reader, and the address of the published data."""

    read: Callable[[Path], DataSet]
    published: str
    folder: bool = False


_INFINITEBENCH = "of https://huggingface.co/datasets/xinrongzhang2022/InfiniteBench"
_BIOASQ = "the golden files at http://participants-area.bioasq.org/datasets/ (free, registration)"
_OWN = "your own JSON lines, or a folder with questions.jsonl and long documents"
KINDS = {
    "mirage": Kind(read_mirage, "benchmark.json of https://github.com/Teddy-XiongGZ/MIRAGE"),
    "pubmedqa": Kind(read_pubmedqa, "data/ori_pqal.json of https://github.com/pubmedqa/pubmedqa"),
    "bioasq": Kind(read_bioasq, _BIOASQ, folder=True),
    "infinitebench-qa": Kind(
        partial(read_infinitebench, choice=False), f"longbook_qa_eng.jsonl {_INFINITEBENCH}"
    ),
    "infinitebench-mc": Kind(
        partial(read_infinitebench, choice=True), f"longbook_choice_eng.jsonl {_INFINITEBENCH}"
    ),
    "medq": Kind(read_medq, "medq/medq-30.xlsx of https://github.com/ebmlab/BriefContext"),
    "jsonl": Kind(read_json_lines, _OWN, folder=True),
}
"""Every layout that can be read, by the word before the colon."""
QUESTIONS = "questions.jsonl"


def load_data_set(spec: str) -> DataSet:
    """Read the data set that `spec` names.

    `spec` is `KIND:PATH` with a kind of `KINDS`, the path of a .jsonl file, or a folder with a
    questions.jsonl. `mirage:PATH#bioasq` is one subset. Equal ids of different MIRAGE subsets get
    the prefix `subset:`.

    Raises:
        InputError: the kind is unknown, the file is missing, or a row cannot be used.
        MissingExtraError: a spreadsheet needs an extra that is not installed.
    """
    name, _, rest = spec.partition(":")
    if name not in KINDS:
        folder = (Path(spec).expanduser() / QUESTIONS).exists()
        if not folder and not spec.lower().endswith((".jsonl", ".jsonl.gz")):
            raise InputError(
                f"{spec!r} is not a data set. Write KIND:PATH with one of {', '.join(KINDS)}, the "
                "path of a .jsonl file, or a folder with a questions.jsonl."
            )
        name, rest = "jsonl", spec
    kind, subset = KINDS[name], ""
    if name == "mirage" and "#" in rest:
        rest, _, subset = rest.rpartition("#")
    if not rest:
        raise InputError(f"{spec!r} has no path. Write {name}:PATH. The data: {kind.published}.")
    path = Path(rest).expanduser()
    if name == "jsonl" and path.is_dir():
        path /= QUESTIONS
    if not path.exists():
        raise InputError(f"There is no {path}. Needed for {name!r}: {kind.published}.")
    if path.is_dir() and not kind.folder:
        raise InputError(f"{path} is a folder, and a file is needed: {kind.published}.")
    try:
        result = read_mirage(path, subset) if subset else kind.read(path)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    if not result.items:
        raise InputError(f"There is no question in {path}. Needed: {kind.published}.")
    result.items = [replace(item, group=item.group or result.name) for item in result.items]
    numbers: dict[str, int] = {}
    for number, item in enumerate(result.items, 1):
        first = numbers.setdefault(item.id, number)
        if first != number:
            raise InputError(
                f"{path}: questions {first} and {number} have the same id {item.id!r}. Give each "
                "its own, or remove one."
            )
        texts = (item.id, *item.answers, *item.gold_ids, item.group)
        _refuse_half_characters(f"{path}, question {number}", texts)
    for document in result.documents.values():
        texts = (str(document.id), document.metadata["title"], document.page_content)
        _refuse_half_characters(f"{path}, a long document", texts)
    if path.is_dir() or len(result.files) > 1:
        folder_path = path if path.is_dir() else path.parent
        names = [(file, file.relative_to(folder_path).as_posix()) for file in result.files]
        result.sha256 = sha256("".join(f"{file_sha256(file)}  {name}\n" for file, name in names))
    else:
        result.sha256 = file_sha256(path)
    return result


def _refuse_half_characters(where: str, texts: Iterable[str]) -> None:
    result = lone_surrogate("".join(texts))
    if result:
        around = ascii(result.string[max(0, result.start() - 30) : result.start() + 10])
        raise InputError(
            f"{where}: half of a character (a lone surrogate) in {around}. Remove it, or write the "
            "whole character."
        )
