"""The commands, code and examples of the README and the documentation work as written."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from briefcontext.cli import app, main
from docs.reference import answer_page, settings_page
from tests import eutils_server
from tests.documentation import PAGES, ROOT, scripted_model
from tests.pubmed_server import article, serve_pubmed

pytestmark = pytest.mark.slow

TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
BLOCKS = [
    (name, language, block)
    for name, text in TEXTS.items()
    for language, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PROGRAM = ".venv/bin/briefcontext "
STAY_RUNNING = ("serve", "mcp")
"""Commands that run until they are stopped. Their own tests run them."""
ARTICLE = (
    "<PubmedArticleSet><MedlineCitation><PMID>11</PMID><Article>"
    "<ArticleTitle>Vitamin D and falls.</ArticleTitle>"
    "<Abstract><AbstractText>Vitamin D did not prevent falls in this toy record.</AbstractText>"
    "</Abstract></Article></MedlineCitation></PubmedArticleSet>"
)


def blocks(kind: str) -> list[Any]:
    """Return the blocks of one language as parameters of a test."""
    return [
        pytest.param(block, id=f"{name}: {block.strip()[:50]}")
        for name, language, block in BLOCKS
        if language == kind
    ]


def shell_commands() -> list[str]:
    shell = [block.replace("\\\n", "") for _, kind, block in BLOCKS if kind == "sh"]
    lines = [line for block in shell for line in block.splitlines()]
    inline = [
        command
        for text in TEXTS.values()
        for command in re.findall(r"`((?:\.venv/bin/\w+|pip|make) [^`]+)`", text)
    ]
    commands = [line.split("  #")[0].strip() for line in (*lines, *inline)]
    return [command for command in dict.fromkeys(commands) if command]


SHELL = shell_commands()
OURS = [command for command in SHELL if command.startswith(PROGRAM)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs that the commands name, and two knowledge bases."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(ROOT / "examples", folder / "examples")
    # The user's own labelled questions: those of the examples, and again with another key
    # document, so that enough of them are misplaced for a calibration.
    file = ROOT / "examples" / "questions.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    gold = [row["gold_ids"] for row in rows]
    rows += [
        {**row, "id": f"{row['id']}-misplaced", "gold_ids": other}
        for row, other in zip(rows, gold[5:] + gold[:5], strict=True)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "labelled.jsonl").write_text(lines)
    for papers, base in (("papers", "my-kb"), ("papers/abstracts.jsonl", "my-abstracts")):
        index = f"{PROGRAM}index examples/{papers} --kb {base}"
        assert call(index, folder) == 0
    return folder


def call(command: str, folder: Path) -> int:
    """Run a command of ours in this process, in a folder; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        arguments = shlex.split(command.removeprefix(PROGRAM))
        patch.setattr(sys, "argv", ["briefcontext", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
    return int(exit.value.code or 0)


@pytest.fixture(scope="module", autouse=True)
def _model() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, scripted_model(patch.setenv):
        yield


@pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")
@pytest.mark.parametrize("command", OURS)
def test_every_command_of_ours_works(
    command: str,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = command.split()[1]
    with eutils_server.serve() as ncbi, serve_pubmed() as files:
        ncbi.add(ARTICLE.encode())
        monkeypatch.setenv("BRIEFCONTEXT_EUTILS_URL", ncbi.url)
        files.add(
            "baseline/pubmed26n0001.xml.gz",
            article(1, "Inhaled corticosteroids reduce asthma exacerbations."),
        )
        monkeypatch.setenv("BRIEFCONTEXT_PUBMED_URL", files.url)
        # The weights of MedCPT cannot be downloaded in a test.
        command = command.replace("--kb pubmed: ", "--kb pubmed:e5 ").replace(" --embeddings", "")
        if name in STAY_RUNNING:
            command = f"{PROGRAM}{name} --help"
        assert call(command, workspace) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", [command for command in SHELL if command not in OURS])
def test_every_other_command_exists(command: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    match program.removeprefix(".venv/bin/"):
        case "make":
            subprocess.run(["make", "-n", *arguments], cwd=ROOT, check=True, capture_output=True)
        case "langgraph" if arguments[0] == "dockerfile":
            langgraph = [sys.executable, "-m", "langgraph_cli", "dockerfile", str(tmp_path / "D")]
            subprocess.run(langgraph, cwd=ROOT, check=True, capture_output=True)
            assert "FROM" in (tmp_path / "D").read_text()
        case "python" | "pip" if "install" in arguments:
            extras = re.search(r"\[(.+)\]", command)
            assert extras is None or set(extras[1].split(",")) <= EXTRAS.keys()
        case "python" if arguments[0] == "-m":
            assert arguments[1] == "build"
        case "python":
            assert (ROOT / arguments[0]).is_file()
        case _:
            assert program in ("export", ".venv/bin/langgraph")


@pytest.mark.parametrize("block", blocks("console"))
def test_an_example_prints_the_lines_shown(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, shown = block.partition("\n")
    monkeypatch.setenv("COLUMNS", "110")
    assert call(command.removeprefix("$ "), tmp_path) == 0

    def lines(text: str) -> str:
        plain = "\n".join(line.rstrip() for line in text.strip().splitlines())
        return "\n" + re.sub(r"[\d.]+ s\b", "… s", plain) + "\n"

    output = lines(capsys.readouterr().out)
    # A line with only an ellipsis replaces lines that are left out.
    first, *rest = re.split(r"^…$", lines(shown), flags=re.MULTILINE)
    assert output.startswith(first)
    place = len(first) - 1
    for part in rest:
        place = output.index(part, place) + len(part) - 1


@pytest.mark.parametrize("block", blocks("python"))
def test_the_code_runs(block: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    exec(compile(block, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("block", blocks("json"))
def test_json_is_valid(block: str) -> None:
    assert json.loads(block)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_example_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_options_in_the_text_exist() -> None:
    group = typer.main.get_command(app)
    commands: dict[str, Any] = {**group.commands}
    for name in ("experiment", "kb", "pubmed"):
        commands |= commands[name].commands
    params = [param for each in commands.values() for param in each.params]
    known = {option for param in params for option in (*param.opts, *param.secondary_opts)}
    benchmarks = "".join(file.read_text() for file in (ROOT / "benchmarks").glob("**/*.py"))
    known |= set(re.findall(r'"(--[a-z-]+)"', benchmarks))
    known.add("--preload")  # An option of gunicorn.
    for name, text in TEXTS.items():
        codes = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        options = {option for code in codes for option in re.findall(r"--[a-z][a-z-]+", code)}
        assert options <= known, name


def test_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", TEXTS["README.md"])
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_reference_describes_every_setting_and_every_field_of_an_answer() -> None:
    for page in (settings_page(), answer_page()):
        rows = re.findall(r"^\| `.*\|$", page, re.MULTILINE)
        assert rows
        assert [row for row in rows if row.endswith("|  |")] == []
