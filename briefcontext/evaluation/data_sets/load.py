"""Opening a data set by its kind and path."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import DataSet
from briefcontext.evaluation.data_sets.evidence_inference import read_evidence_inference
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
    """One layout: who reads it, and where the real data are."""

    read: Callable[[Path], DataSet]
    published: str
    folder: bool = False
    """Whether a folder can be read."""


_INFINITEBENCH = "of https://huggingface.co/datasets/xinrongzhang2022/InfiniteBench"
KINDS = {
    "mirage": Kind(read_mirage, "benchmark.json of https://github.com/Teddy-XiongGZ/MIRAGE"),
    "pubmedqa": Kind(read_pubmedqa, "data/ori_pqal.json of https://github.com/pubmedqa/pubmedqa"),
    "bioasq": Kind(
        read_bioasq,
        "the golden files at http://participants-area.bioasq.org/datasets/ (free, after "
        "registration)",
        True,
    ),
    "infinitebench-qa": Kind(
        partial(read_infinitebench, choice=False), f"longbook_qa_eng.jsonl {_INFINITEBENCH}"
    ),
    "infinitebench-mc": Kind(
        partial(read_infinitebench, choice=True), f"longbook_choice_eng.jsonl {_INFINITEBENCH}"
    ),
    "evidence-inference": Kind(
        read_evidence_inference,
        "the folder annotations/ (prompts_merged.csv, annotations_merged.csv, txt_files/) of "
        "https://github.com/jayded/evidence-inference and "
        "http://evidence-inference.ebm-nlp.com/download/",
        True,
    ),
    "medq": Kind(read_medq, "medq/medq-30.xlsx of https://github.com/ebmlab/BriefContext"),
    "jsonl": Kind(
        read_json_lines,
        "your own: a JSON object a line, with id, question, options, answer and gold_ids",
    ),
}
"""Every layout that can be read, by the word before the colon."""


def load_data_set(spec: str) -> DataSet:
    """Read the data set that `spec` names.

    `spec` is `KIND:PATH`, with a kind of `KINDS`, or the path of a .jsonl file.
    `mirage:PATH#bioasq` is one subset. Questions with equal ids are refused; in MIRAGE, whose
    subsets number their questions each for itself, equal ids of different subsets are told apart as
    `subset:id`.

    Raises:
        InputError: the kind is unknown, the file is missing (with where the data are published), or
            a row cannot be used (with the file, the row and the reason).
        MissingExtraError: a spreadsheet is to be read without the extra that reads it.
    """
    name, _, rest = spec.partition(":")
    if name not in KINDS and spec.lower().endswith((".jsonl", ".jsonl.gz")):
        name, rest = "jsonl", spec
    if name not in KINDS:
        raise InputError(
            f"{spec!r} names no data set: write KIND:PATH, with one of {', '.join(KINDS)}, or the path of a .jsonl."
        )
    kind, subset = KINDS[name], ""
    if name == "mirage" and "#" in rest:
        rest, _, subset = rest.rpartition("#")
    if not rest:
        raise InputError(f"{spec!r} has no path: write {name}:PATH. The data: {kind.published}.")
    path = Path(rest).expanduser()
    if not path.exists():
        raise InputError(
            f"There is no {path}: check the path. Needed for {name!r}: {kind.published}."
        )
    if path.is_dir() and not kind.folder:
        raise InputError(f"{path} is a folder, and a file is needed: {kind.published}.")
    try:
        found = read_mirage(path, subset) if subset else kind.read(path)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    if not found.items:
        left_out = "; ".join(
            f"{count} left out: {reason}" for reason, count in found.left_out.items()
        )
        raise InputError(
            f"There is no question in {path}{f' ({left_out})' if left_out else ''}. Needed: {kind.published}."
        )
    found.items = [replace(item, group=item.group or found.name) for item in found.items]
    places: dict[str, int] = {}
    for place, item in enumerate(found.items, 1):
        if (first := places.setdefault(item.id, place)) != place:
            raise InputError(
                f"{path}: questions {first} and {place} have the same id {item.id!r}. Give each "
                f"its own, or remove one."
            )
        texts = (item.id, *item.answers, *item.gold_ids, item.group)
        _refuse_half_characters(f"{path}, question {place}", texts)
    for document in found.documents.values():
        _refuse_half_characters(
            f"{path}, a long document",
            (str(document.id), document.metadata["title"], document.page_content),
        )
    if path.is_dir() or len(found.files) > 1:
        folder = path if path.is_dir() else path.parent
        digests = (
            f"{file_sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in found.files
        )
        found.sha256 = sha256("".join(digests))
    else:
        found.sha256 = file_sha256(path)
    return found


def _refuse_half_characters(where: str, texts: Iterable[str]) -> None:
    if found := lone_surrogate("".join(texts)):
        around = ascii(found.string[max(0, found.start() - 30) : found.start() + 10])
        raise InputError(
            f"{where}: half of a character (a lone surrogate, as a text cut within an emoji leaves "
            f"it) in "
            f"{around}, which no model can be sent. Remove it, or write the whole character."
        )
