"""The README's commands and code do what it says."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.cli import main
from briefcontext.graphs.settings import Settings
from briefcontext.retrievers.knowledge_base import BM25Retriever
from tests import eutils_server, openai_server
from tests.test_sources_pdf import pdf

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PROGRAM = ".venv/bin/briefcontext "
STAY_RUNNING = ("serve", "mcp")
"""Commands that run until they are stopped; their own tests run them."""
ARTICLE = (
    "<PubmedArticleSet><MedlineCitation><PMID>11</PMID><Article><ArticleTitle>Vitamin D and falls.</ArticleTitle>"
    "<Abstract><AbstractText>Vitamin D did not prevent falls in this toy record.</AbstractText></Abstract>"
    "</Article></MedlineCitation></PubmedArticleSet>"
)


def commands(kind: str) -> list[str]:
    lines = [line for language, block in BLOCKS if language == kind for line in block.replace("\\\n", "").splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


SHELL = [*commands("sh"), *(re.findall(r"`((?:\.venv/bin/pip|pip|export|make) [^`]+)`", README))]
OURS = list(dict.fromkeys(line for line in SHELL if line.startswith(PROGRAM)))


@pytest.fixture(scope="module")
def model() -> Iterator[openai_server.OpenAIServer]:
    with openai_server.serve() as server:
        yield server


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands name."""
    folder = tmp_path_factory.mktemp("readme")
    papers = folder / "papers"
    papers.mkdir()
    pairs = list(product(("aspirin", "metformin", "zinc", "honey", "insulin"), range(8)))
    passages = [
        {"id": f"toy-{place}", "title": f"{drug} {trial}", "text": f"In toy trial {trial}, {drug} was taken by many."}
        for place, (drug, trial) in enumerate(pairs)
    ]
    # Every other question has another passage than its own for a key, so that a preflight finds some misplaced.
    questions = [
        {
            "id": str(place),
            "question": f"Who took {drug} in toy trial {trial}?",
            "options": {"A": "many", "B": "none"},
            "answer": "A",
            "gold_ids": [f"toy-{place if place % 2 else (place + 20) % 40}"],
        }
        for place, (drug, trial) in enumerate(pairs[:24])
    ]
    for path, rows in ((papers / "toy.jsonl", passages), (folder / "questions.jsonl", questions)):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "report.pdf").write_bytes(pdf("The treatment lowered mortality by a tenth in this toy report."))
    assert call(f"{PROGRAM}index papers --kb my-kb --encoder minilm", folder) == 0
    return folder


def call(command: str, folder: Path) -> int:
    """Run a command of ours in this process, in a folder; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["briefcontext", *shlex.split(command.removeprefix(PROGRAM))])
        with pytest.raises(SystemExit) as exit:
            main()
    return int(exit.value.code or 0)


@pytest.mark.parametrize("command", OURS)
def test_every_command_of_ours_works(
    command: str,
    workspace: Path,
    model: openai_server.OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    name = command.split()[1]
    with eutils_server.serve() as ncbi:
        ncbi.add(ARTICLE.encode())
        monkeypatch.setenv("BRIEFCONTEXT_EUTILS_URL", ncbi.url)
        # MedCPT's weights are not at hand in a test.
        command = command.replace("--kb pubmed:", "--kb pubmed:minilm")
        assert call(f"{PROGRAM}{name} --help" if name in STAY_RUNNING else command, workspace) == 0
    assert capsys.readouterr().out


def test_every_other_command_is_one_that_exists() -> None:
    for command in SHELL:
        first, *rest = shlex.split(command)
        if first == "make":
            subprocess.run(["make", "-n", *rest], cwd=ROOT, check=True, capture_output=True)
        elif first == ".venv/bin/python":
            assert (ROOT / rest[0]).is_file(), command
        elif "install" in rest:
            named = re.search(r"\[(.+)\]", command)
            assert first == ".venv/bin/pip", command
            assert named is None or set(named[1].split(",")) <= EXTRAS.keys(), command
        else:
            assert first in (".venv/bin/briefcontext", ".venv/bin/langgraph", "export", "docker"), command


@pytest.mark.parametrize(
    "block", [block for language, block in BLOCKS if language == "console"], ids=lambda block: block[:60]
)
def test_the_example_outputs_are_what_comes_out(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, shown = block.partition("\n")
    monkeypatch.setenv("COLUMNS", "110")
    assert call(command.removeprefix("$ "), tmp_path) == 0

    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in re.sub(r"[\d.]+ s\b", "… s", text).strip().splitlines()]

    assert lines(capsys.readouterr().out) == lines(shown)


@pytest.mark.parametrize("block", [block for language, block in BLOCKS if language == "python"])
def test_the_python_code_runs(
    block: str, workspace: Path, model: openai_server.OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.chdir(workspace)
    documents = [
        Document(id=str(n), page_content=f"Aspirin lowered the risk of stroke in trial {n}.") for n in range(9)
    ]
    names: dict[str, Any] = {"my_retriever": BM25Retriever.from_documents(documents)}
    exec(compile(block, "README.md", "exec"), names)


def test_every_setting_is_in_the_table_with_its_default() -> None:
    section = README.partition("| setting | default | meaning |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.+) \|$", section, re.MULTILINE)
    table = {name: (default, meaning) for name, default, meaning in rows}
    assert table == {name: (str(field.default), field.description) for name, field in Settings.model_fields.items()}
