"""What is measured of one base, each in a process of its own: its build, an update, and what it answers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import numpy as np
from numpy.typing import NDArray
from retrieval_parts.isolated import GivenVectors
from store_parts.generated import DIMENSION, FIRST_PMID, Question, heading, read_vectors, year

from briefcontext.knowledge import Filters, KnowledgeBase, build_knowledge_base, open_sources
from briefcontext.knowledge.store import table
from briefcontext.retrievers.knowledge_base import retriever_over

K = 16
OPENINGS = 5
"""Each until a first passage is read; the median counts."""
WARMING = 20
"""Questions that are asked before time is taken: they fill the caches of indexes."""
TENTH = Filters(first_year=2020)
HUNDREDTH = Filters(mesh=(heading(7),))
FILTERS: dict[str, Filters] = {"": Filters(), ", a tenth": TENTH, ", a hundredth": HUNDREDTH}


class Given(GivenVectors):
    """Stands for MedCPT, where the vectors of passages and questions are at hand."""

    name = "medcpt"
    metric = "ip"  # type: ignore[assignment]

    def __init__(self, questions: list[Question] | None = None) -> None:
        super().__init__(DIMENSION)
        self._vectors = {question.text: question.vector for question in questions or []}

    def encode_queries(self, texts: Any) -> NDArray[np.float32]:
        return np.stack([self._vectors[text] for text in texts])


class Clock:
    """Seconds and CPU-seconds of this process by what it does."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Count the time until the end under a name."""
        started, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            spent = self.spent.setdefault(what, [0.0, 0.0])
            spent[0] += time.perf_counter() - started
            spent[1] += time.process_time() - cpu

    def around(self, owner: Any, name: str, what: str) -> None:
        """Count the calls of a method of Lance."""
        method = getattr(owner, name)

        def timed(*given: Any, **options: Any) -> Any:
            with self.on(what):
                return method(*given, **options)

        setattr(owner, name, timed)


def build(chunks: Path, folder: Path) -> dict[str, Any]:
    """Build or update a base from the chunks in a folder."""
    clock = Clock()
    clock.around(lance.LanceDataset, "create_index", "vector index")
    clock.around(lance.LanceDataset, "create_scalar_index", "other indexes")
    began = time.time()
    with clock.on("all"):
        report = build_knowledge_base(open_sources(chunks), folder, encoder=Given())
    all_s, all_cpu = clock.spent.pop("all")
    index_s, index_cpu = clock.spent.get("vector index", [0.0, 0.0])
    other_s, other_cpu = clock.spent.get("other indexes", [0.0, 0.0])
    return {
        "passages": report.passages,
        "s": all_s,
        "CPU s": all_cpu,
        "published s": (folder / "manifest.json").stat().st_mtime - began,
        "vector index s": index_s,
        "vector index CPU s": index_cpu,
        "other indexes s": other_s,
        "other indexes CPU s": other_cpu,
        "write s": all_s - index_s - other_s,
        "write CPU s": all_cpu - index_cpu - other_cpu,
    }


def ask(folder: Path, asked: list[Question], cached: float = 1.0) -> dict[str, Any]:
    """Open a base and ask it, in all ways; Lance itself is loaded before the clock starts.

    The times of each way in milliseconds, and the PMIDs that dense search finds, by filter. `cached`: the share of its
    usual size that the cache of indexes has.
    """
    table.INDEX_CACHE_BYTES = int(table.INDEX_CACHE_BYTES * cached)
    opened = []
    for _ in range(OPENINGS):
        started = time.perf_counter()
        with KnowledgeBase.open(folder, encoder=Given(asked)) as base:
            base.get([str(FIRST_PMID)])
        opened.append(time.perf_counter() - started)
    with KnowledgeBase.open(folder, encoder=Given(asked)) as base:
        size = len(base)
        hybrid = retriever_over(base, "hybrid")
        ways: dict[str, Callable[[str], Any]] = {"hybrid": lambda text: hybrid.invoke(text, k=K)}
        for name, filters in FILTERS.items():
            ways[f"dense{name}"] = lambda text, filters=filters: base.search(text, K, filters)
            ways[f"BM25{name}"] = lambda text, filters=filters: base.search_terms(text, K, filters)
        times, found = {}, {}
        for way, search in ways.items():
            for question in asked[:WARMING]:
                search(question.text)
            taken, cpu, answers = [], time.process_time(), []
            for question in asked:
                before = time.perf_counter()
                documents = search(question.text)
                taken.append((time.perf_counter() - before) * 1000)
                answers.append([int(str(document.id)) for document in documents])
            cpu = (time.process_time() - cpu) * 1000 / len(asked)
            times[way] = {"median ms": np.median(taken), "p95 ms": np.percentile(taken, 95), "CPU ms": cpu}
            if way.startswith("dense"):
                found[way.removeprefix("dense")] = answers
    return {"passages": size, "opening s": np.median(opened), "times": times, "found": found}


def exact(chunks: Path, size: int, questions: list[Question]) -> dict[str, list[list[int]]]:
    """The PMIDs of the nearest passages of all, by filter."""
    asked = np.stack([question.vector for question in questions])
    masks = {
        "": np.ones(size, bool),
        ", a tenth": np.array([year(number) >= 2020 for number in range(size)]),
        ", a hundredth": np.array([heading(number) == heading(7) for number in range(size)]),
    }
    best = {name: (np.empty((len(asked), 0), np.float32), np.empty((len(asked), 0), np.int64)) for name in masks}
    for start, vectors in read_vectors(chunks, size):
        scores = asked @ vectors.T
        for name, mask in masks.items():
            places = np.flatnonzero(mask[start : start + len(vectors)])
            held, numbers = best[name]
            held = np.hstack([held, scores[:, places]])
            numbers = np.hstack([numbers, np.broadcast_to(start + places, (len(asked), len(places)))])
            order = np.argsort(-held, axis=1)[:, :K]
            best[name] = np.take_along_axis(held, order, 1), np.take_along_axis(numbers, order, 1)
    return {name: (numbers + FIRST_PMID).tolist() for name, (_, numbers) in best.items()}


def recall(found: list[list[int]], wanted: list[list[int]]) -> float:
    """The mean share of the wanted ones that were found."""
    return float(np.mean([len(set(ours) & set(best)) / len(best) for ours, best in zip(found, wanted, strict=True)]))
