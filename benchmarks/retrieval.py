"""What retrieval finds, how fast it is built and searched, and what it takes, each beside a plain reference.

- quality: dense (minilm), BM25 and hybrid retrieval on BioASQ's yes/no questions and on PubMedQA, with and without
  distractors. hit@k is the share of questions with at least one gold passage among the first k; recall@16 is the mean
  share of a question's gold passages among the first 16.
- build: passages a second of `build_knowledge_base`, from documents in memory to a base ready for questions, against
  the bare encoder on the same passages, in turn. The CPU ratio compares CPU seconds, which other work on the machine
  disturbs less, and which hide no waiting.
- latency: one search, dense against brute-force numpy and BM25 against rank_bm25, in turn. The question's vector is
  at hand. The corpora are synthetic, for size only: real passages again and again, with words left out and noise on
  their vectors. What is found in them means nothing.
- memory: peak resident memory and the time from opening to the first result, each in a process of its own. Files are
  in the page cache by then, and pages of mapped files count as memory.

In full it encodes some 24,000 passages and builds bases of up to 180,000: half an hour on two cores. The ratios stand
when the machine does other work, the absolute figures do not.

    python benchmarks/retrieval.py [--data ../shared/data] [--quick] [--parts quality,build,latency,memory]
        [--cache DIR] [--json FILE]
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from retrieval_parts.bench import FULL, QUICK, Bench, Report
from retrieval_parts.build_rate import build_rate
from retrieval_parts.latency import latency
from retrieval_parts.memory import memory
from retrieval_parts.quality import quality
from rich.console import Console
from rich.table import Table

# The bare encoder's vectors of the build part serve the others.
PARTS = {"build": build_rate, "quality": quality, "latency": latency, "memory": memory}
WIDTH = 110
"""Of the tables where there is no terminal."""


def print_report(console: Console, report: Report) -> None:
    """Print a table; a row that lacks a column has a blank there."""
    table = Table(title=report.title)
    for column, form in report.columns.items():
        table.add_column(column, justify="right" if form else "left", no_wrap=True)
    for row in report.rows:
        values = ((row.get(column), form) for column, form in report.columns.items())
        table.add_row(*("" if value is None else format(value, form) for value, form in values))
    console.print(table)


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="a minute or two; the figures mean little")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, with commas: %(default)s")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors there for another run")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    arguments = parser.parse_args()
    wanted = arguments.parts.split(",")
    for part in wanted:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}: use some of {','.join(PARTS)}")
    for name in ("bioasq", "pubmedqa", "distractors"):
        if not (arguments.data / name).is_dir():
            raise SystemExit(
                f"There is no folder {arguments.data / name}. Name the one that holds bioasq, pubmedqa and "
                "distractors: --data DIR"
            )

    sizes = QUICK if arguments.quick else FULL
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    figures: dict[str, Any] = {"sizes": asdict(sizes), "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
        bench = Bench(arguments.data, Path(folder), arguments.cache or Path(folder) / "cache", sizes)
        for part in (part for part in PARTS if part in wanted):
            started = time.perf_counter()
            report = PARTS[part](bench)
            print_report(console, report)
            console.print(f"{part}: {time.perf_counter() - started:.0f} s, load average {os.getloadavg()[0]:.1f}\n")
            figures[part] = report.rows
            if arguments.json:
                # After each part, so that a run that is stopped leaves what it has.
                Path(arguments.json).write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
