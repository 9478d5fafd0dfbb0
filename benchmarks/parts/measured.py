"""Measurements of one base, each in a new process: its build, an update, and searches."""

import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import lance
import numpy as np
from numpy.typing import NDArray
from parts.generated import DIMENSION, FIRST_PMID, Question, heading, read_vectors, year

from briefcontext.knowledge import Filters, KnowledgeBase, build_knowledge_base, open_sources
from briefcontext.knowledge.store import table
from briefcontext.retrievers.knowledge_base import retriever_over

K = 16
OPENINGS = 5
"""Openings, each until a first passage is read; the median counts."""
WARMING = 20
"""Questions before the clock starts, which fill the caches of indexes."""
FILTERS = {
    "": Filters(),
    ", a tenth": Filters(first_year=2020),
    ", a hundredth": Filters(mesh=(heading(7),)),
}
TIMES = ("median ms", "p95 ms", "CPU ms")
"""Milliseconds of a call."""


def isolated(case: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return the result of a case in a new process, with its peak memory as `memory, GB`."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, case, arguments).result()


def _measured(case: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    figures = case(*arguments)
    # Pages of mapped files count. Linux passes ru_maxrss on from the parent process, but not this.
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return {**figures, "memory, GB": int(peak[1]) * 1024 / 1e9 if peak else float("nan")}


class Given:
    """An encoder for ready-made vectors in place of MedCPT."""

    name = "medcpt"
    revision = ""
    dimension = DIMENSION
    metric: Literal["ip"] = "ip"
    text_format = "none"

    def __init__(self, questions: list[Question] | None = None) -> None:
        self._vectors = {question.text: question.vector for question in questions or []}

    def encode_queries(self, texts: Any) -> NDArray[np.float32]:
        return np.stack([self._vectors[text] for text in texts])

    def encode_passages(self, passages: Any) -> NDArray[np.float32]:
        raise NotImplementedError

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError


@contextmanager
def counted(spent: dict[str, NDArray[np.float64]], what: str) -> Iterator[None]:
    """Add the seconds and CPU seconds of a block, or of each call of a function."""
    began = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        spent[what] += np.array([time.perf_counter(), time.process_time()]) - began


def build(chunks: Path, folder: Path) -> dict[str, Any]:
    """Build or update a base from the chunks in a folder; return the times of its parts."""
    spent = {what: np.zeros(2) for what in ("all", "vector index", "other indexes")}
    for method, what in (
        ("create_index", "vector index"),
        ("create_scalar_index", "other indexes"),
    ):
        setattr(
            lance.LanceDataset, method, counted(spent, what)(getattr(lance.LanceDataset, method))
        )
    began = time.time()
    with counted(spent, "all"):
        report = build_knowledge_base(open_sources(chunks), folder, encoder=Given())
    spent["write"] = spent["all"] - spent["vector index"] - spent["other indexes"]
    published = (folder / "manifest.json").stat().st_mtime - began
    figures = {"passages": report.passages, "published after, s": published}
    for what, (seconds, cpu) in spent.items():
        figures |= {f"{what}, s": seconds, f"{what}, CPU s": cpu}
    return figures


def ask(folder: Path, asked: list[Question], cached: float = 1.0) -> dict[str, Any]:
    """Open a base and search it in all ways, with Lance loaded before the clock starts.

    Returns the times of each way in milliseconds, and the PMIDs of dense searches. `cached` is the
    share of the usual size of the cache of indexes.
    """
    table.INDEX_CACHE_BYTES = int(table.INDEX_CACHE_BYTES * cached)
    opened = []
    for _ in range(OPENINGS):
        started = time.perf_counter()
        with KnowledgeBase.open(folder, encoder=Given(asked)) as base:
            base.get([str(FIRST_PMID)])
        opened.append(time.perf_counter() - started)
    with KnowledgeBase.open(folder, encoder=Given(asked)) as base:
        hybrid = retriever_over(base, "hybrid")
        ways: dict[str, Callable[[str], Any]] = {"hybrid": lambda text: hybrid.invoke(text, k=K)}
        for name, filters in FILTERS.items():
            ways[f"dense{name}"] = lambda text, filters=filters: base.search(text, K, filters)
            ways[f"BM25{name}"] = lambda text, filters=filters: base.search_terms(text, K, filters)
        figures: dict[str, Any] = {"found": {}}
        for way, search in ways.items():
            for question in asked[:WARMING]:
                search(question.text)
            times, answers = timed(search, [(question.text,) for question in asked])
            figures |= {f"{way}: {what}": time for what, time in times.items()}
            if way.startswith("dense"):
                figures["found"][way] = [
                    [int(str(document.id)) for document in found] for found in answers
                ]
    return {"opening, s": np.median(opened), **figures}


def timed(
    ask: Callable[..., Any], questions: Sequence[tuple[Any, ...]]
) -> tuple[dict[str, float], list[Any]]:
    """Return the `TIMES` of a call, and the results."""
    taken, cpu, answers = [], time.process_time(), []
    for question in questions:
        before = time.perf_counter()
        answers.append(ask(*question))
        taken.append((time.perf_counter() - before) * 1000)
    cpu = (time.process_time() - cpu) * 1000 / len(taken)
    times = float(np.median(taken)), float(np.percentile(taken, 95)), cpu
    return dict(zip(TIMES, times, strict=True)), answers


def exact(chunks: Path, size: int, questions: list[Question]) -> dict[str, list[list[int]]]:
    """Return the PMIDs of the exact nearest passages, by filter."""
    asked = np.stack([question.vector for question in questions])
    masks = {
        "dense": np.ones(size, bool),
        "dense, a tenth": np.array([year(number) >= 2020 for number in range(size)]),
        "dense, a hundredth": np.array([heading(number) == heading(7) for number in range(size)]),
    }
    best = {
        name: (np.empty((len(asked), 0), np.float32), np.empty((len(asked), 0), np.int64))
        for name in masks
    }
    for start, vectors in read_vectors(chunks, size):
        scores = asked @ vectors.T
        for name, mask in masks.items():
            places = np.flatnonzero(mask[start : start + len(vectors)])
            held, numbers = best[name]
            held = np.hstack([held, scores[:, places]])
            numbers = np.hstack(
                [numbers, np.broadcast_to(start + places, (len(asked), len(places)))]
            )
            order = np.argsort(-held, axis=1)[:, :K]
            best[name] = np.take_along_axis(held, order, 1), np.take_along_axis(numbers, order, 1)
    return {name: (numbers + FIRST_PMID).tolist() for name, (_, numbers) in best.items()}


def recall(found: list[list[int]], wanted: list[list[int]]) -> float:
    """Return the mean share of the wanted passages that were returned."""
    return float(
        np.mean(
            [
                len(set(ours) & set(best)) / len(best)
                for ours, best in zip(found, wanted, strict=True)
            ]
        )
    )
