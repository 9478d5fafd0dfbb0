"""What the retrieval benchmark measures in a process of its own: peak memory, and the time to open a base."""

import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from retrieval_parts.corpora import SyntheticCorpus

from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.terms import tokenize

K = 16


def run(case: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a case returns, with the peak memory of the new process that ran it, as `peak MB`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, case, arguments).result()


def _measured(case: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    return {**case(*arguments), "peak MB": _peak_mb()}


def _peak_mb() -> float:
    """The most memory that this process has had resident, in MB: pages of files that it has mapped count as well."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux hands ru_maxrss on from the parent process, but not this.
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if found:
            return int(found[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


class GivenVectors:
    """Stands for the encoder of a corpus whose vectors are at hand: it encodes nothing, and needs no model."""

    name = "given"
    revision = ""
    metric: Literal["cosine"] = "cosine"
    text_format = "none"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode_queries(self, texts: Any) -> NDArray[np.float32]:
        raise NotImplementedError

    def encode_passages(self, passages: Any) -> NDArray[np.float32]:
        raise NotImplementedError

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError


def _milliseconds(since: float) -> float:
    return (time.perf_counter() - since) * 1000


def imports() -> dict[str, Any]:
    """Nothing: what every case has loaded before it begins."""
    return {}


def build_given(corpus: SyntheticCorpus, folder: Path) -> dict[str, Any]:
    """A knowledge base of passages whose vectors are at hand."""
    started, cpu = time.perf_counter(), time.process_time()
    build_knowledge_base(corpus.entries(), folder, encoder=GivenVectors(corpus.dimension))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    return {"passages/s": corpus.size / seconds, "per CPU s": corpus.size / cpu_seconds}


def encode(passages: list[tuple[str, str]]) -> dict[str, Any]:
    load_encoder("minilm").encode_passages(passages)
    return {}


def build_encoding(passages: list[tuple[str, str]], folder: Path) -> dict[str, Any]:
    """A knowledge base whose passages are encoded."""
    documents = [
        Document(id=str(number), page_content=text, metadata={"title": title})
        for number, (title, text) in enumerate(passages)
    ]
    build_knowledge_base(documents, folder, encoder=load_encoder("minilm"))
    return {}


def open_base(folder: Path) -> dict[str, Any]:
    started = time.perf_counter()
    with KnowledgeBase.open(folder) as base:
        len(base)
        return {"first ms": _milliseconds(started)}


def search_terms(folder: Path, questions: list[str]) -> dict[str, Any]:
    """BM25 from opening on; Lance itself is loaded before the clock starts."""
    import lance  # noqa: F401

    started = time.perf_counter()
    with KnowledgeBase.open(folder) as base:
        base.search_terms(questions[0], K)
        first = _milliseconds(started)
        for question in questions:
            base.search_terms(question, K)
    return {"first ms": first}


def search_vectors(folder: Path, questions: NDArray[np.float32]) -> dict[str, Any]:
    """Dense search from opening on; Lance itself is loaded before the clock starts."""
    import lance  # noqa: F401

    started = time.perf_counter()
    with KnowledgeBase.open(folder) as base:
        base.search_by_vector(questions[0], K)
        first = _milliseconds(started)
        for question in questions:
            base.search_by_vector(question, K)
    return {"first ms": first}


def search_numpy(corpus: SyntheticCorpus, questions: NDArray[np.float32]) -> dict[str, Any]:
    """Dense search by brute force, from reading the vectors on."""
    started = time.perf_counter()
    vectors = corpus.vectors()
    nearest(vectors, questions[0])
    first = _milliseconds(started)
    for question in questions:
        nearest(vectors, question)
    return {"first ms": first}


def search_rank_bm25(corpus: SyntheticCorpus, questions: list[str]) -> dict[str, Any]:
    """rank_bm25 from reading the texts on."""
    started = time.perf_counter()
    highest(okapi(corpus).get_scores(tokenize(questions[0])))
    return {"first ms": _milliseconds(started)}


def nearest(vectors: NDArray[np.float32], question: NDArray[np.float32]) -> NDArray[np.intp]:
    """The rows of the `K` vectors nearest to a question's, by brute force."""
    return highest(vectors @ question)


def highest(scores: NDArray[Any]) -> NDArray[np.intp]:
    """The places of the `K` highest scores, highest first."""
    best = np.argpartition(scores, -K)[-K:]
    return best[np.argsort(-scores[best])]


def okapi(corpus: SyntheticCorpus) -> Any:
    """rank_bm25 over a corpus, by the tokenizer of the library."""
    from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]

    return BM25Okapi(tokenize(text) for text in corpus.texts())
