"""The notebooks run without a key and without a network, and store small outputs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from briefcontext.knowledge.pubmed import eutilities
from tests import eutils_server
from tests.conftest import SHARED_DATA
from tests.forked_python import run_forked
from tests.studio_server import ROOT, clean_environment

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 500_000
"""Bytes of a notebook with its outputs, pictures included."""
OF_A_MACHINE = re.compile(
    r"/(?:home|root|Users|tmp|var|work|mnt|opt|usr)/|[A-Z]:\\\\|site-packages|Traceback"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem),
]


@pytest.fixture(scope="module")
def pubmed() -> Iterator[str]:
    """The address of E-utilities that serve real records; empty if they are missing."""
    records = SHARED_DATA / "pubmed_xml" / "titipata_medline16n0902.xml.gz"
    if not records.is_file():
        yield ""
        return
    with eutils_server.serve() as server:
        server.add_file(records)
        yield server.url


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory, pubmed: str) -> tuple[Path, str]:
    """The folder of the notebooks as they ran now, and the errors of those that failed."""
    folder = tmp_path_factory.mktemp("executed")
    runnable = [path for path in NOTEBOOKS if pubmed or not _needs_pubmed(path)]
    command = ["-m", "tests.executed_notebook"]
    command += [str(path) for source in runnable for path in (source, folder / source.name)]
    # A proxy that nothing listens on: whatever leaves this machine fails.
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    nowhere |= {
        "HF_HUB_OFFLINE": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        eutilities.URL_VARIABLE: pubmed,
    }
    environment = clean_environment(**nowhere)
    return folder, run_forked(command, cwd=ROOT, env=environment).stderr


def _needs_pubmed(path: Path) -> bool:
    return eutilities.URL_VARIABLE in path.read_text(encoding="utf-8")


def test_it_runs(path: Path, pubmed: str, executed: tuple[Path, str]) -> None:
    if not pubmed and _needs_pubmed(path):
        pytest.skip("the shared PubMed records are not there")
    folder, errors = executed
    assert (folder / path.name).exists(), errors[-8000:]


def test_its_outputs_are_stored_and_small(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in code)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert path.stat().st_size < LARGEST


def test_nothing_of_a_machine_is_stored(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr"
            if "image/png" not in output.get("data", {}):
                assert not OF_A_MACHINE.search(json.dumps(output))
