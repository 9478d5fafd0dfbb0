"""Time of a command from start to end: an answer over the demo, and importing LangGraph.

Each command runs in a new process; the rounds take turns, and the median counts.

    python benchmarks/start.py [--rounds 5] [--json FILE]
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from parts.report import Row, options, show, write

QUESTION = "Which drug is first choice for type 2 diabetes?"
COMMANDS = {
    "import langgraph": ["-c", "import langchain_core.documents, langgraph.graph"],
    "briefcontext --help": ["-m", "briefcontext", "--help"],
    "briefcontext ask": ["-m", "briefcontext", "ask", QUESTION],
    "the graph in Python": [
        "-c",
        f"from briefcontext import graph; graph.invoke({{'question': {QUESTION!r}}})",
    ],
}


def main() -> None:
    """Run the commands and print their times."""
    parser = options(__doc__, "--json")
    parser.add_argument("--rounds", type=int, default=5, help="times that each command runs")
    given = parser.parse_args()
    run("briefcontext ask")  # The first run builds the demo collection's index.
    times = [{name: run(name) for name in COMMANDS} for _ in range(given.rounds)]
    rows: list[Row] = []
    base = statistics.median(each["import langgraph"][1] for each in times)
    for name in COMMANDS:
        wall, cpu, memory = (
            statistics.median(each[name][place] for each in times) for place in range(3)
        )
        rows.append(
            {
                "command": name,
                "s": wall,
                "CPU-s": cpu,
                "of the import's CPU": cpu / base,
                "MB": memory,
            }
        )
    show("Start", rows, form=".2f")
    write(given.json, rows)


def run(name: str) -> tuple[float, float, float]:
    """Return a command's seconds, its CPU seconds, and its peak memory in MB."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *COMMANDS[name]], stdout=subprocess.DEVNULL, cwd=Path.home()
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{name} failed with exit code {process.returncode}.")
    wall = time.perf_counter() - started
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
