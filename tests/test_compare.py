"""Runs side by side, and the commands as a person meets them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.compare import compare_runs
from briefcontext.evaluation.runs.published import PUBLISHED, published_tables
from briefcontext.evaluation.runs.run import EXPERIMENTS
from briefcontext.knowledge import KnowledgeBase
from tests.command_line import Run, command_line
from tests.openai_server import OpenAIServer, Reply


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: OpenAIServer
) -> Run:
    """Run the command line in this process; return its exit code, output and error output."""
    server.script = lambda call: Reply("It is so.\nChoice: A")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return command_line(monkeypatch, capsys)


@pytest.fixture
def questions(tmp_path: Path) -> str:
    """Questions on the bundled knowledge base, one of them with a key document."""
    row = {
        "id": "q1",
        "question": "Is metformin the usual first choice for type 2 diabetes?",
        "options": {"A": "yes", "B": "no"},
        "answer": "A",
        "gold_ids": ["demo-type-2-diabetes-01"],
    }
    (tmp_path / "questions.jsonl").write_text(json.dumps(row) + "\n")
    return str(tmp_path / "questions.jsonl")


@pytest.mark.slow
def test_experiment_and_compare_from_the_command_line(
    run: Run, questions: str, tmp_path: Path, server: OpenAIServer
) -> None:
    command = [
        "experiment",
        "position",
        "--questions",
        questions,
        "--kb",
        "demo",
        "--method",
        "vanilla",
        "--k",
        "5",
    ]
    model = ["--model", "openai:scripted", "--input-price", "1", "--output-price", "2"]
    out = ["--out", str(tmp_path / "run")]
    code, dry, _ = run(*command, *out, "--dry-run")
    assert code == 0
    assert "Vanilla RAG | 5 | 5 |" in dry
    assert server.calls == []
    code, said, progress = run(*command, *out, *model)
    assert code == 0
    assert "5/5" in progress
    assert "answers/s" in progress
    assert "5 calls, $0.0" in progress
    assert "| Vanilla RAG | 5 | 1 |" in said
    for name in (
        "config.json",
        "items.jsonl",
        "summary.json",
        "report.md",
        "position.png",
        "position.svg",
    ):
        assert (tmp_path / "run" / name).stat().st_size > 0
    code, compared, _ = run(
        "compare", str(tmp_path / "run"), "--out", str(tmp_path / "compared.md")
    )
    assert code == 0
    assert "59.05" in compared
    assert "npj Digital Medicine 8, 239, 2025" in compared
    assert "SIMULATION" not in compared
    assert (tmp_path / "compared.md").read_text().strip() == compared.strip()
    code, _, error = run(*command, *out, *model, "--seed", "7")
    assert code == 2
    assert "another configuration" in error


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["experiment", "guess"], "guess"),
        (
            ["experiment", "position", "--questions", "x.jsonl", "--kb", "demo", "--out", "o"],
            "x.jsonl",
        ),
        (["compare", "/nowhere"], "There is no folder /nowhere"),
        (["compare", "."], "no finished run"),
    ],
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], complaint: str) -> None:
    code, _, error = run(*arguments)
    assert code == 2
    assert complaint in error


def write_summary(folder: Path, **given: object) -> None:
    summary = {
        "experiment": "conflict",
        "model": "one",
        "data_set": "set",
        "knowledge_base": None,
        "tables": [],
    }
    folder.mkdir(exist_ok=True)
    (folder / "summary.json").write_text(json.dumps({**summary, "simulation": False, **given}))


def test_the_tables_of_two_runs_are_joined_by_title_and_a_simulation_is_marked(
    tmp_path: Path,
) -> None:
    rows = {
        "one": [["Vanilla RAG", "8", "50.0"], ["OP-RAG", "8", "25.0"]],
        "two": [["Vanilla RAG", "8", "0", "75.0"]],
    }
    for name, own in rows.items():
        beside = ["In parts"] if name == "two" else []
        table = {
            "title": "Accuracy",
            "columns": ["Method", "n", *beside, "Share"],
            "rows": own,
            "notes": [f"Of {name}."],
        }
        alike = {
            "title": "Spread",
            "columns": ["Method"],
            "rows": [[name]],
            "notes": ["In per cent."],
        }
        write_summary(tmp_path / name, model=name, simulation=name == "two", tables=[table, alike])
    compared = compare_runs([tmp_path / "one", tmp_path / "two"])
    joined = compared[compared.index("### Accuracy") : compared.index("### Supplementary Table 2")]
    assert joined.split("\n") == [
        "### Accuracy",
        "",
        "| Run | Method | n | Share | In parts |",
        "| --- | --- | --- | --- | --- |",
        "| one | Vanilla RAG | 8 | 50.0 | – |",
        "| two | Vanilla RAG | 8 | 75.0 | 0 |",
        "| one | OP-RAG | 8 | 25.0 | – |",
        "",
        "Of one. Of two.",
        "",
        "### Spread",
        "",
        "| Run | Method |",
        "| --- | --- |",
        "| one | one |",
        "| two | two |",
        "",
        "In per cent.",
        "",
        "",
    ]
    assert "| GPT-3.5-turbo-0125 | 225 | 313 |" in compared
    assert "This holds for: two." in compared
    with pytest.raises(InputError, match="no run to compare"):
        compare_runs([])


def test_a_run_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    write_summary(tmp_path / "one")
    for again in (tmp_path / "one", tmp_path / "two" / ".." / "one"):
        with pytest.raises(InputError, match=r"one is the same run as .*one\. Name each run once"):
            compare_runs([tmp_path / "one", again])


def test_a_preflight_run_is_compared_by_its_decisions(
    run: Run, questions: str, tmp_path: Path
) -> None:
    command = [
        "experiment",
        "preflight",
        "--questions",
        questions,
        "--kb",
        str(KnowledgeBase.open("demo").path),
    ]
    code, _, error = run(*command, "--out", str(tmp_path / "preflight"))
    assert code == 0, error
    summary = json.loads((tmp_path / "preflight" / "summary.json").read_text())
    assert summary["items"] == summary["n"] == 1
    assert summary["data_set"] == "questions"
    code, compared, _ = run("compare", str(tmp_path / "preflight"))
    assert code == 0
    counts = " | ".join(str(summary["iou"][name]) for name in ("tp", "fp", "fn", "tn"))
    assert f"| preflight | all | 16 | IoU | both | 1 | {counts} |" in compared
    for published in ("426", "423", "235", "50.18", "92.61", "65.09", "35.7"):
        assert published in compared


@pytest.mark.parametrize("experiment", sorted({*EXPERIMENTS, "preflight", "data sets", "corpus"}))
def test_every_figure_of_the_papers_is_in_a_table(experiment: str) -> None:
    figures = [each.value for each in PUBLISHED if each.experiment == experiment]
    cells = [cell for table in published_tables(experiment) for row in table.rows for cell in row]
    assert bool(figures) == (experiment not in ("context_length", "attention_bias"))
    assert not Counter(figures) - Counter(cells)


def test_the_papers_sums_of_conflicts_agree_with_their_tables() -> None:
    own = [each for each in PUBLISHED if each.place == "Supplementary Table 2"]
    total = Counter[tuple[str, str]]()
    for each in own:
        if each.metric in ("conflicts", "conflicts resolved"):
            total[each.model, each.metric] += int(each.value)
    assert sorted(total.values()) == [171, 217, 225, 313]
