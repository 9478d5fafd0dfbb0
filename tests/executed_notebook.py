"""Executes notebooks: `python -m tests.executed_notebook SOURCE TARGET …`. Both may be the same file.

Each runs in a folder and a kernel of its own, without a key, and what it stores is the outputs
alone: no times, no standard error.
"""

import os
import sys
import tempfile
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import nbformat
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from nbclient import NotebookClient

SECONDS_A_CELL = 300


class KernelProcess(ForkProcess):
    """A copy of this process that becomes a kernel; to Jupyter it is a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        super().__init__()
        self._command, self._told = Pipe(duplex=False)
        self.start()
        self._command.close()

    def run(self) -> None:
        self._told.close()
        arguments, folder, environment = self._command.recv()
        os.chdir(folder)
        os.environ.update(environment)
        IPKernelApp.launch_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])

    def become_kernel(self, *command: Any) -> None:
        self._told.send(command)
        self._told.close()

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)


class ForkedKernel(LocalProvisioner):
    """Starts the kernel in a copy of this process, made before there are threads."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._copy = KernelProcess()

    async def launch_kernel(self, cmd: list[str], **options: Any) -> Any:
        self.process = self._copy
        self._copy.become_kernel(
            cmd[cmd.index("ipykernel_launcher") + 1 :], options["cwd"], dict(options["env"])
        )
        return self.connection_info


def execute(source: Path, target: Path) -> None:
    """Run every cell, and write the notebook with its outputs.

    Raises:
        CellExecutionError: a cell raised.
    """
    manager = AsyncKernelManager(kernel_name="python3")
    manager.provisioner = ForkedKernel(
        kernel_id=source.stem, kernel_spec=manager.kernel_spec, parent=manager
    )
    notebook = nbformat.read(source, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=SECONDS_A_CELL,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
        )
        client.execute(cleanup_kc=True)
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
    """Execute one notebook after another; return how many failed."""
    import_module("tests.forked_imports")  # Once for all kernels.
    failed = 0
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        executing = ForkProcess(target=execute, args=(source, target))
        executing.start()
        executing.join()
        failed += executing.exitcode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main([Path(path) for path in sys.argv[1:]]))
