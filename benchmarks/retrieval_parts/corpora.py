"""The corpora of the retrieval benchmark: real passages and questions, and larger corpora made of them.

The larger ones are synthetic, and for size only: the first copy of each passage is as it is, every other has lost
words at random and has noise on its vector. They say how long a search takes, and nothing of what it finds.
"""

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
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.sources.files import open_sources
from briefcontext.knowledge.sources.source import VectorDocument

UNSAFE_DISTRACTORS = frozenset(
    {
        "pmc:PMC5299497",
        "pmc:PMC5818014",
        "pmc:PMC5976950",
        "s2:1259280",
        "s2:2485101",
        "s2:9646449",
        "s2:11390393",
        "s2:11659421",
        "s2:13011249",
        "s2:19384430",
        "s2:23974474",
        "s2:26118532",
        "s2:51817902",
    }
)
"""They share text with a gold passage of BioASQ."""

SEED = 20240917
LOST_WORDS = 0.2
"""The share of its words that a synthetic passage loses."""
NOISE = 0.5
"""Length of the noise on the unit vector of a synthetic passage: its cosine to the real one is about 0.89."""
ENCODED_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the ids of the passages that answer it."""

    text: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages with questions on them."""

    name: str
    passages: list[Document]
    questions: list[Question]

    def cut(self, questions: int, passages: int) -> "Corpus":
        """Its first questions, over their gold passages and others up to a number."""
        asked = self.questions[:questions]
        gold = frozenset[str]().union(*(question.gold for question in asked))
        first = sorted(self.passages, key=lambda passage: passage.id not in gold)
        return replace(self, passages=first[: max(passages, len(gold))], questions=asked)

    def among(self, distractors: Iterable[Document]) -> "Corpus":
        """With passages of other collections added."""
        others = [passage for passage in distractors if passage.id not in UNSAFE_DISTRACTORS]
        return replace(self, name=f"{self.name} + distractors", passages=self.passages + others)


def read_bioasq(data: Path) -> Corpus:
    """The passages of BioASQ, and its yes/no questions."""
    questions = [
        Question(row["question"], frozenset(row["gold_pmids_in_corpus"]))
        for row in _rows(data / "bioasq" / "queries.jsonl")
        if row["type"] == "yesno"
    ]
    return Corpus("BioASQ yes/no", _documents(data / "bioasq" / "corpus.jsonl.gz"), questions)


def read_pubmedqa(data: Path) -> Corpus:
    """The abstracts of PubMedQA, without their conclusions, and its questions."""
    questions = [
        Question(row["question"], frozenset(row["gold_pmids"])) for row in _rows(data / "pubmedqa" / "queries.jsonl")
    ]
    return Corpus("PubMedQA", _documents(data / "pubmedqa" / "corpus.jsonl.gz"), questions)


def read_distractors(data: Path) -> list[Document]:
    """Abstracts of other collections."""
    return _documents(data / "distractors" / "abstracts.jsonl.gz")


def _documents(path: Path) -> list[Document]:
    return [entry for source in open_sources(path) for entry in source.entries() if isinstance(entry, Document)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def titled_texts(passages: Iterable[Document]) -> list[tuple[str, str]]:
    """Title and text of passages, as encoders take them."""
    return [title_and_text(passage) for passage in passages]


class WrappedEncoder:
    """An encoder that passes for the one that it wraps."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.revision = encoder.revision
        self.dimension = encoder.dimension
        self.metric = encoder.metric
        self.text_format = encoder.text_format

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode_queries(texts)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self.encoder.encode_passages(passages)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return self.encoder.token_offsets(text)


class CachedEncoder(WrappedEncoder):
    """Encodes each text once, and keeps the vectors in a file."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        super().__init__(encoder)
        name = hashlib.sha256(f"{encoder.name} {encoder.revision} {encoder.text_format}".encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.vectors"
        self._row = np.dtype([("key", "V16"), ("vector", np.float32, (encoder.dimension,))])
        held = np.fromfile(self._path, self._row) if self._path.exists() else np.empty(0, self._row)
        self._vectors = {row["key"].tobytes(): row["vector"] for row in held}

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode([("question", text) for text in texts], lambda missing: self._questions(missing))

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._encode([("passage", *passage) for passage in passages], lambda missing: self._passages(missing))

    def keep(self, passages: Sequence[tuple[str, str]], vectors: NDArray[np.float32]) -> None:
        """Take vectors (n, d) that were made elsewhere, where there are none yet."""
        texts = [("passage", *passage) for passage in passages]
        new = [place for place, text in enumerate(texts) if _key(text) not in self._vectors]
        self._keep([texts[place] for place in new], vectors[new])

    def _questions(self, texts: list[tuple[str, ...]]) -> NDArray[np.float32]:
        return self.encoder.encode_queries([text for _, text in texts])

    def _passages(self, texts: list[tuple[str, ...]]) -> NDArray[np.float32]:
        return self.encoder.encode_passages([(title, text) for _, title, text in texts])

    def _encode(
        self, texts: list[tuple[str, ...]], encode: Callable[[list[tuple[str, ...]]], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        missing = [text for text in dict.fromkeys(texts) if _key(text) not in self._vectors]
        for start in range(0, len(missing), ENCODED_AT_ONCE):
            some = missing[start : start + ENCODED_AT_ONCE]
            self._keep(some, encode(some))
            print(f"encoded {start + len(some):,} of {len(missing):,} texts", file=sys.stderr)
        return np.stack([self._vectors[_key(text)] for text in texts])

    def _keep(self, texts: list[tuple[str, ...]], vectors: NDArray[np.float32]) -> None:
        rows = np.empty(len(texts), self._row)
        rows["key"] = [_key(text) for text in texts]
        rows["vector"] = vectors
        with self._path.open("ab") as file:
            rows.tofile(file)
        self._vectors.update((row["key"].tobytes(), row["vector"]) for row in rows)


def _key(text: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join(text).encode()).digest()[:16]


@dataclass(frozen=True, slots=True)
class SyntheticCorpus:
    """A corpus of any size in two files: texts in JSON Lines, and vectors as raw float32."""

    size: int
    dimension: int
    folder: Path

    def write(self, passages: Sequence[Document], vectors: NDArray[np.float32]) -> None:
        """Make it of real passages and their unit vectors (n, dimension)."""
        random = np.random.default_rng(SEED)
        self.folder.mkdir(parents=True)
        with (self.folder / "texts.jsonl").open("w", encoding="utf-8") as texts, self._vectors.open("wb") as rows:
            for copy, start in enumerate(range(0, self.size, len(passages))):
                some = passages[: self.size - start]
                noisy = vectors[: len(some)].copy()
                if copy:
                    noisy += random.standard_normal(noisy.shape, np.float32) * np.float32(NOISE / self.dimension**0.5)
                    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
                noisy.tofile(rows)
                for passage in some:
                    words = passage.page_content.split()
                    if copy and len(words) > 1:
                        kept = random.random(len(words)) >= LOST_WORDS
                        words = [word for word, keep in zip(words, kept, strict=True) if keep] or words[:1]
                    row = {"id": f"{passage.id}/{copy}", "text": " ".join(words)}
                    texts.write(json.dumps(row, ensure_ascii=False) + "\n")

    @property
    def _vectors(self) -> Path:
        return self.folder / "vectors.f32"

    def vectors(self) -> NDArray[np.float32]:
        """All of its vectors (size, dimension), read into memory."""
        return np.fromfile(self._vectors, np.float32).reshape(self.size, self.dimension)

    def texts(self) -> Iterator[str]:
        return (row["text"] for row in _rows(self.folder / "texts.jsonl"))

    def entries(self) -> Iterator[VectorDocument]:
        """Its passages with their vectors, read one by one."""
        with self._vectors.open("rb") as rows:
            for row in _rows(self.folder / "texts.jsonl"):
                vector = np.fromfile(rows, np.float32, self.dimension)
                yield VectorDocument(Document(id=row["id"], page_content=row["text"], metadata={"title": ""}), vector)
