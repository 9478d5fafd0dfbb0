"""Executes a notebook: `python -m tests.executed_notebook SOURCE TARGET`. Both may be the same file.

It runs in a folder of its own, without a key, and what it stores is the outputs alone: no times, no standard error.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

SECONDS_A_CELL = 300


def execute(source: Path, target: Path) -> None:
    """Run every cell, and write the notebook with its outputs.

    Raises:
        CellExecutionError: a cell raised.
    """
    notebook = nbformat.read(source, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS_A_CELL,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
        )
        client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    written = target.with_name(f".{target.name}.part")
    nbformat.write(notebook, written)
    written.replace(target)


if __name__ == "__main__":
    execute(Path(sys.argv[1]), Path(sys.argv[2]))
