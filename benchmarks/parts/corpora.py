"""Real passages and questions, and an encoder that encodes each text once."""

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.encoders import Encoder
from briefcontext.knowledge.sources.files import open_sources

_UNSAFE_DISTRACTORS = {
    *(
        "pmc:PMC5299497",
        "pmc:PMC5818014",
        "pmc:PMC5976950",
        "s2:1259280",
        "s2:2485101",
        "s2:9646449",
        "s2:11390393",
    ),
    *("s2:11659421", "s2:13011249", "s2:19384430", "s2:23974474", "s2:26118532", "s2:51817902"),
}
"""Passages that share text with a gold passage of BioASQ."""
_ENCODED_AT_ONCE = 1024
Spans = list[tuple[int, int]]
"""The offsets of places in a text."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the ids of the passages that answer it."""

    id: str
    text: str
    gold: frozenset[str]
    kind: str = ""
    """BioASQ's: yesno, factoid, list or summary."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages with questions on them."""

    name: str
    passages: list[Document]
    questions: list[Question]

    def among(self, distractors: Iterable[Document]) -> "Corpus":
        """Return the corpus with passages of other collections."""
        return replace(
            self, name=f"{self.name} + distractors", passages=[*self.passages, *distractors]
        )


def read_bioasq(data: Path) -> Corpus:
    """Return the passages of BioASQ and its yes/no questions."""
    questions = [
        question for question in read_questions(data, "bioasq") if question.kind == "yesno"
    ]
    return Corpus("BioASQ yes/no", _documents(data / "bioasq" / "corpus.jsonl.gz"), questions)


def read_pubmedqa(data: Path) -> Corpus:
    """Return the abstracts of PubMedQA, without their conclusions, and its questions."""
    return Corpus(
        "PubMedQA",
        _documents(data / "pubmedqa" / "corpus.jsonl.gz"),
        read_questions(data, "pubmedqa"),
    )


def read_distractors(data: Path) -> list[Document]:
    """Return abstracts of other collections that share no text with a gold passage."""
    found = _documents(data / "distractors" / "abstracts.jsonl.gz")
    return [passage for passage in found if passage.id not in _UNSAFE_DISTRACTORS]


def read_passages(data: Path) -> list[Document]:
    """Return all 24,000 passages, each once."""
    found = [*read_bioasq(data).passages, *read_pubmedqa(data).passages, *read_distractors(data)]
    return list({passage.id: passage for passage in reversed(found)}.values())[::-1]


def read_questions(data: Path, name: str) -> list[Question]:
    """Return the questions of `bioasq` (all kinds) or `pubmedqa`, with equal ones merged."""
    rows = list(read_rows(data / name / "queries.jsonl"))
    gold: dict[str, set[str]] = {}
    for row in rows:
        gold.setdefault(row["question"], set()).update(
            row.get("gold_pmids_in_corpus") or row["gold_pmids"]
        )
    return [
        Question(
            str(row["id"]), row["question"], frozenset(gold[row["question"]]), row.get("type", "")
        )
        for row in rows
    ]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of JSON lines, which may be compressed."""
    _check(path)
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as file
    ):
        yield from map(json.loads, file)


def overlaps(place: tuple[int, int], spans: Spans) -> bool:
    """Return whether a place in a text overlaps one of several."""
    return any(place[0] < end and start < place[1] for start, end in spans)


def _documents(path: Path) -> list[Document]:
    _check(path)
    return [
        entry
        for source in open_sources(path)
        for entry in source.entries()
        if isinstance(entry, Document)
    ]


def _check(path: Path) -> None:
    if not path.exists():
        raise SystemExit(
            f"There is no {path}. Name the folder that holds {path.parent.name}/{path.name}: "
            f"--data DIR"
        )


class CachedEncoder:
    """An encoder that encodes each text once and keeps the vectors in a file."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self.encoder = encoder
        name = hashlib.sha256(
            f"{encoder.name} {encoder.revision} {encoder.text_format}".encode()
        ).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.vectors"
        self._row = np.dtype([("key", "V16"), ("vector", np.float32, (encoder.dimension,))])
        held = np.fromfile(self._path, self._row) if self._path.exists() else np.empty(0, self._row)
        self._vectors = {row["key"].tobytes(): row["vector"] for row in held}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode("question", texts, self.encoder.encode_queries)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._encode("passage", passages, self.encoder.encode_passages)

    def _encode(
        self, kind: str, texts: Sequence[Any], encode: Callable[[list[Any]], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        keys = [hashlib.sha256(json.dumps([kind, text]).encode()).digest()[:16] for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        missing = list(new.items())
        for start in range(0, len(missing), _ENCODED_AT_ONCE):
            some = missing[start : start + _ENCODED_AT_ONCE]
            rows = np.empty(len(some), self._row)
            rows["key"] = [key for key, _ in some]
            rows["vector"] = encode([text for _, text in some])
            with self._path.open("ab") as file:
                rows.tofile(file)
            self._vectors.update((row["key"].tobytes(), row["vector"]) for row in rows)
            if len(missing) > _ENCODED_AT_ONCE:
                print(f"encoded {start + len(some):,} of {len(missing):,} texts", file=sys.stderr)
        return np.stack([self._vectors[key] for key in keys])
