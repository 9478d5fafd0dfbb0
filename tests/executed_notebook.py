"""Executes notebooks: `python -m tests.executed_notebook SOURCE TARGET …`.

SOURCE and TARGET may be the same file. Each notebook runs in an empty folder, and only its
outputs are stored: no times, no standard error.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS_A_CELL = 300


def execute(source: Path, target: Path) -> None:
    """Run every cell, and write the notebook with its outputs.

    Raises:
        CellExecutionError: a cell raised.
    """
    notebook = nbformat.read(source, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=SECONDS_A_CELL,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
        ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    written = target.with_name(f".{target.name}.part")
    nbformat.write(notebook, written)
    written.replace(target)


def main(paths: list[Path]) -> int:
    """Execute one notebook after another; return the number of those that failed."""
    failed = 0
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        try:
            execute(source, target)
        except CellExecutionError as error:
            sys.stderr.write(f"{source}: {error}\n")
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main([Path(path) for path in sys.argv[1:]]))
