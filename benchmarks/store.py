"""Cost of the store at growing sizes, with a projection to PubMed.

Passages are generated, with ready-made vectors of 768 dimensions and texts as long as an abstract,
in the layout of NCBI's MedCPT chunks, and are built by `open_sources` and `build_knowledge_base`.
Each build, update and round of questions runs in a new process.

- build: seconds and CPU seconds to write, to train and fill the vector index, and for all other
  indexes.
- update: 1,000 records, half of them revised and half new. Readers see them once the update is
  published; then the build removes old states.
- questions: milliseconds of a search for 16, after the first few; recall is the share of the exact
  16 nearest. `a tenth` and `a hundredth` are filters (by year, by MeSH heading) that keep that
  share of passages. Memory is the peak of the process, with Python and all libraries.
- small cache: the same questions with a cache of indexes as small for the base as the usual one is
  for PubMed.
- law: each figure as a + b * g(n), fitted by least squares of the relative error, and its value for
  the 23.9 million abstracts of PubMed. `g` is rows (n), rows that a vector search visits (n **
  0.6), or rows times partitions (n ** 1.6). Memory grows until the caches are full.

    python benchmarks/store.py [--sizes 10000,100000,1000000] [--questions 200] [--work DIR]
        [--json FILE]

A million passages take 7 GB of disk while it runs, and a quarter of an hour on two cores.
"""

import math
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts import measured
from parts.generated import Literature, Question, write_chunks, write_update
from parts.measured import isolated
from parts.report import options, show, write
from scipy.optimize import nnls

from briefcontext.knowledge.store import table

PUBMED = 23_900_000
UPDATED = 1000
Row = dict[str, float]
"""The figures of a base by name."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a base, with its aims."""

    name: str
    form: str
    grows: float
    """The power of the number of passages in its growing part."""
    least: int = 0
    """The smallest size at which the law holds."""
    aims: tuple[tuple[int, float], ...] = ()
    """Limits by number of passages."""
    most: float = math.inf
    """Limit of its growing part."""


INDEXED = 20_000
"""Smallest number of passages with a vector index."""
MILLION = 1_000_000
CACHES_GB = (table.INDEX_CACHE_BYTES + table.METADATA_CACHE_BYTES) / 1e9
SEARCH_AIMS = {
    "dense: median ms": ((MILLION, 20.0), (4 * MILLION, 60.0), (PUBMED, 250.0)),
    "BM25: median ms": ((MILLION, 30.0), (4 * MILLION, 60.0), (PUBMED, 250.0)),
}
WAYS = (
    "dense",
    "dense, a tenth",
    "dense, a hundredth",
    "BM25",
    "BM25, a tenth",
    "BM25, a hundredth",
    "hybrid",
)
SMALL_CACHE = ("dense, small cache", "BM25, small cache", "hybrid, small cache")
FIGURES = [
    Figure("write, CPU s", ".1f", 1),
    Figure("write, s", ".1f", 1),
    Figure("vector index, CPU s", ".1f", 1.6, INDEXED),
    Figure("vector index, s", ".1f", 1.6, INDEXED),
    Figure("other indexes, CPU s", ".1f", 1),
    Figure("other indexes, s", ".1f", 1),
    Figure("build without the vector index, CPU s", ".1f", 1, aims=((100_000, 40.0),)),
    Figure("bytes a passage", ",.0f", 0),
    Figure("disk, GB", ".2f", 1, aims=((PUBMED, 80.0),)),
    Figure("memory, GB", ".2f", 1, aims=((4 * MILLION, 3.0), (PUBMED, 4.0)), most=CACHES_GB),
    Figure("memory, small cache, GB", ".2f", 0),
    Figure("opening, s", ".3f", 1, INDEXED, ((MILLION, 0.2), (PUBMED, 0.2))),
    Figure("update: published after, s", ".2f", 1, INDEXED),
    Figure("update: done after, s", ".2f", 1, INDEXED),
    Figure("update: CPU s", ".2f", 1, INDEXED, ((100_000, 5.0),)),
    *(
        Figure(
            name,
            ".1f",
            0.6 if way in ("dense", "dense, small cache") else 1,
            INDEXED,
            SEARCH_AIMS.get(name, ()),
        )
        for way in (*WAYS, *SMALL_CACHE)
        for name in (
            [f"{way}: median ms"]
            if way in SMALL_CACHE
            else [f"{way}: {what}" for what in measured.TIMES]
        )
    ),
]
RECALLS = [f"recall@16, {way}" for way in WAYS if way.startswith("dense")]
LEAST_RECALL = 0.98


def measure(size: int, questions: list[Question], work: Path) -> Row:
    """Return all figures of one base, and remove its files."""
    chunks, update, folder = (work / f"{name}-{size}" for name in ("chunks", "update", "base"))
    write_chunks(chunks, size)
    row: Row = {"passages": size, **isolated(measured.build, chunks, folder)}
    row["build without the vector index, CPU s"] = row["write, CPU s"] + row["other indexes, CPU s"]
    row["disk, GB"] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9
    row["bytes a passage"] = row["disk, GB"] * 1e9 / size
    asked = isolated(measured.ask, folder, questions)
    small = isolated(measured.ask, folder, questions, size / PUBMED)
    wanted = measured.exact(chunks, size, questions)
    row |= {
        f"recall@16, {way}": measured.recall(found, wanted[way])
        for way, found in asked.pop("found").items()
    }
    row |= asked | {"memory, small cache, GB": small["memory, GB"]}
    row |= {
        f"{way}: median ms": small[f"{way.partition(',')[0]}: median ms"] for way in SMALL_CACHE
    }
    write_update(update, size, UPDATED)
    updated = isolated(measured.build, update, folder)
    row["update: published after, s"] = updated["published after, s"]
    row["update: done after, s"], row["update: CPU s"] = updated["all, s"], updated["all, CPU s"]
    for used in (chunks, update, folder):
        shutil.rmtree(used)
    return row


def law(figure: Figure, rows: list[Row]) -> Callable[[int], float] | None:
    """Return `a + b * n ** grows`, both not negative; None for too few sizes."""
    fitting = [row for row in rows if row["passages"] >= figure.least]
    if len(fitting) < 2:
        return None
    values = np.array([row[figure.name] for row in fitting])
    powers = np.array([(row["passages"] / PUBMED) ** figure.grows for row in fitting])
    terms = (
        np.column_stack([np.ones(len(fitting)), powers]) if figure.grows else powers[:, np.newaxis]
    )
    found, _ = nnls(terms / values[:, np.newaxis], np.ones(len(fitting)))
    fixed, growing = (found[0], found[1]) if figure.grows else (found[0], 0.0)
    return lambda size: float(fixed + min(growing * (size / PUBMED) ** figure.grows, figure.most))


def summary(rows: list[Row]) -> list[dict[str, str]]:
    """Return all figures by size, with the law of each, and whether the aims are met."""
    found = []
    for figure in FIGURES:
        fitted = law(figure, rows)
        measured_at = {int(row["passages"]): row[figure.name] for row in rows}
        aims = []
        for size, aim in figure.aims:
            if (value := measured_at.get(size, fitted and fitted(size))) is not None:
                outcome = "met" if value <= aim else "MISSED"
                aims.append(f"{size:,}: <= {aim:g} {outcome} ({value:{figure.form}})")
        found.append(
            {
                "figure": figure.name,
                **{f"{size:,}": format(value, figure.form) for size, value in measured_at.items()},
                "law": ""
                if fitted is None
                else f"n^{figure.grows:g}"
                if figure.grows
                else "constant",
                f"{PUBMED:,}*": "" if fitted is None else format(fitted(PUBMED), figure.form),
                "aim": "; ".join(aims),
            }
        )
    for name in RECALLS:
        low = min(row[name] for row in rows)
        aim = f">= {LEAST_RECALL:.0%} {'met' if low >= LEAST_RECALL else 'MISSED'}"
        found.append(
            {
                "figure": name,
                **{f"{row['passages']:,}": f"{row[name]:.1%}" for row in rows},
                "aim": aim,
            }
        )
    return found


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = options(__doc__, "--work", "--json")
    parser.add_argument(
        "--sizes", default="10000,100000,1000000", help="passages, with commas: %(default)s"
    )
    parser.add_argument(
        "--questions", type=int, default=200, help="to each base (default: %(default)s)"
    )
    given = parser.parse_args()
    if given.work:
        given.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="store-", dir=given.work) as work:
        rows: list[Row] = []
        questions = Literature().questions(given.questions)
        for size in map(int, given.sizes.split(",")):
            rows.append(measure(size, questions, Path(work)))
            figures = summary(rows)
            show(f"The store on {os.cpu_count()} cores; * is the projected figure", figures)
            # Write after each size, so that a stopped run keeps its figures.
            write(given.json, {"cores": os.cpu_count(), "sizes": rows, "figures": figures})


if __name__ == "__main__":
    main()
