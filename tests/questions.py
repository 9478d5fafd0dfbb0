"""A small made-up corpus with a key document for each of its questions."""

import json
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from briefcontext.evaluation.experiments.corpus import Corpus
from briefcontext.evaluation.runs.settings import RunSettings
from briefcontext.files import cache_folder
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.sources.source import EntrySource
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build
from tests.simulated_reader import Known

OPTIONS = {"A": "yes", "B": "no"}


def question(number: int) -> str:
    return f"Does compound {number} lower the marker {number}?"


def answer(number: int) -> str:
    return "AB"[number % 2]


def write_questions(file: Path, count: int) -> str:
    """Write multiple-choice questions as JSON lines; return what names them as a data set."""
    rows = [
        {
            "id": f"q{number}",
            "question": question(number),
            "options": OPTIONS,
            "answer": answer(number),
            "gold_ids": [f"key-{number}"],
        }
        for number in range(count)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"jsonl:{file}"


def known(count: int) -> list[Known]:
    """The answers that the simulated reader knows."""
    return [
        Known(question(n), OPTIONS, answer(n), [f"The trial of compound {n} was decided."])
        for n in range(count)
    ]


def build_corpus(folder: Path, count: int, *, others: int = 40) -> str:
    """Make a base with a key document for each question, and others; return its folder."""
    shutil.copytree(_built(count, others), folder)
    return str(folder)


@cache
def _built(count: int, others: int) -> Path:
    """Build such a knowledge base once in this process, to be copied."""
    folder = cache_folder() / f"corpus-{count}-{others}-{os.getpid()}"
    documents: Sequence[Document] = [
        *(
            _document(
                f"key-{n}", f"The trial of compound {n} was decided. The marker {n} was read."
            )
            for n in range(count)
        ),
        *(
            _document(
                f"other-{n}", f"Volunteer {n} was seen at clinic {n * 7}. Nothing was decided."
            )
            for n in range(others)
        ),
    ]
    build(
        folder,
        EntrySource(documents, name="corpus", fingerprint="sha256:corpus", size=len(documents)),
    )
    return folder


def run_settings(folder: Path, experiment: str, count: int, **given: Any) -> RunSettings:
    """Return settings of an experiment on these questions and their corpus."""
    if not (folder / "corpus").exists():
        build_corpus(folder / "corpus", count)
    values: dict[str, Any] = {
        "knowledge_base": open_corpus(str(folder / "corpus")),
        "figures": False,
        "reading": Settings(max_concurrent_calls=8, max_retries=0),
        **given,
    }
    return RunSettings(experiment, write_questions(folder / "questions.jsonl", count), **values)


def open_corpus(folder: str) -> Corpus:
    """Open it with its encoder, which has no name that could be loaded by."""
    return Corpus(KnowledgeBase.open(folder, encoder=HashingEncoder()))


def _document(id: str, text: str) -> Document:
    return Document(id=id, page_content=text, metadata={"source_id": id, "title": id})
