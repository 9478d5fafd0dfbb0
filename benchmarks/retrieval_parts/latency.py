"""How long one search takes, against the plain way."""

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from retrieval_parts import isolated
from retrieval_parts.bench import Bench, Report, Row, SyntheticBase
from retrieval_parts.isolated import K

from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.terms import tokenize

ROUNDS = 3
REFERENCES = {"dense": "numpy", "BM25": "rank_bm25"}


def latency(bench: Bench) -> Report:
    """Search every synthetic corpus in every way."""
    vectors = bench.encoder.encode_queries(bench.queries)
    rows = []
    for made in bench.synthetic:
        rows += _rows(made, bench, vectors)
    return Report(
        f"Latency of a search for {K}; of exact = share of numpy's {K} that the dense index finds",
        {
            "passages": ",",
            "search": "",
            "median ms": ".2f",
            "p95 ms": ".2f",
            "reference": "",
            "times faster": ".2f",
            "of exact": ".1%",
        },
        rows,
    )


def _rows(made: SyntheticBase, bench: Bench, queries: NDArray[np.float32]) -> list[Row]:
    held, okapi = made.corpus.vectors(), isolated.okapi(made.corpus)
    with KnowledgeBase.open(made.folder) as base:
        times = timed(
            {
                "dense": lambda query: base.search_by_vector(queries[query], K),
                "numpy": lambda query: isolated.nearest(held, queries[query]),
                "BM25": lambda query: base.search_terms(bench.queries[query], K),
            },
            len(queries),
        )
        times |= timed(
            {"rank_bm25": lambda query: isolated.highest(okapi.get_scores(tokenize(bench.queries[query])))},
            bench.sizes.slow_queries,
        )
        found = [{document.id for document in base.search_by_vector(query, K)} for query in queries]
    ids = [entry.document.id for entry in made.corpus.entries()]
    exact = [{ids[place] for place in isolated.nearest(held, query)} for query in queries]
    agreement = statistics.mean(len(ours & best) / K for ours, best in zip(found, exact, strict=True))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    rows = []
    for name, taken in times.items():
        row: Row = {"passages": made.corpus.size, "search": name, "median ms": medians[name]}
        row["p95 ms"] = float(np.percentile(taken, 95))
        if name in REFERENCES:
            row |= {"reference": REFERENCES[name], "times faster": medians[REFERENCES[name]] / medians[name]}
        if name == "dense":
            row["of exact"] = agreement
        rows.append(row)
    return rows


def timed(searches: Mapping[str, Callable[[int], object]], queries: int) -> dict[str, list[float]]:
    """Milliseconds of each search, for every query once a round; the very first call of each is left out."""
    times: dict[str, list[float]] = {name: [] for name in searches}
    for search in searches.values():
        search(0)
    for _ in range(ROUNDS):
        for name, search in searches.items():
            for query in range(queries):
                started = time.perf_counter()
                search(query)
                times[name].append((time.perf_counter() - started) * 1000)
    return times
