"""Runs side by side, and the commands as a person meets them."""

import json
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.experiment import EXPERIMENTS
from briefcontext.evaluation.runs.compare import NOT_AVAILABLE, NPJ, OP_RAG, PREPRINT, PUBLISHED, compare_runs
from briefcontext.evaluation.runs.run import Run as ExperimentRun
from briefcontext.evaluation.statistics.tables import points_with_interval
from briefcontext.knowledge import demo_knowledge_base
from tests.command_line import Run, command_line
from tests.openai_server import OpenAIServer, Reply
from tests.questions import known, run_settings
from tests.simulated_reader import MODEL, SimulatedReader


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: OpenAIServer) -> Run:
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


def test_experiment_and_compare_from_the_command_line(
    run: Run, questions: str, tmp_path: Path, server: OpenAIServer
) -> None:
    command = ["experiment", "position", "--questions", questions, "--kb", "demo", "--method", "vanilla", "--k", "5"]
    model = ["--model", "openai:scripted", "--input-price", "1", "--output-price", "2"]
    out = ["--out", str(tmp_path / "run")]
    code, dry, _ = run(*command, *out, "--dry-run")
    assert code == 0
    assert "Vanilla RAG | 5 | 5 |" in dry
    assert server.calls == []
    code, said, progress = run(*command, *out, *model)
    assert code == 0
    assert "5 of 5 answers" in progress
    assert "$" in progress
    assert "| Vanilla RAG | 5 | 0 | 1 |" in said
    for name in ("config.json", "items.jsonl", "summary.json", "report.md", "position.png", "position.svg"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    code, compared, _ = run("compare", str(tmp_path / "run"), "--out", str(tmp_path / "compared.md"))
    assert code == 0
    assert "15.2 points" in compared
    assert "npj Digital Medicine 8, 239, 2025" in compared
    assert "SIMULATION" not in compared
    assert (tmp_path / "compared.md").read_text().strip() == compared.strip()
    code, _, error = run(*command, *out, *model, "--seed", "7")
    assert code == 2
    assert "another configuration" in error


def test_batches_from_the_command_line(run: Run, questions: str, tmp_path: Path, server: OpenAIServer) -> None:
    command = ["experiment", "position", "--questions", questions, "--kb", "demo", "--method", "vanilla", "--k", "8"]
    command += ["--out", str(tmp_path / "run"), "--model", "openai:any"]
    code, said, _ = run(*command, "--batch", "export")
    assert code == 0
    file = tmp_path / "run" / "batch" / "requests-001.jsonl"
    assert str(file) in said
    assert len(file.read_text().splitlines()) == 5
    for wrong in (["--batch", "import"], ["--batch", "send"], ["--replies", "x.jsonl"]):
        code, _, error = run(*command, *wrong)
        assert code == 2
        assert "--batch" in error
    assert server.calls == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["experiment", "guess"], ", ".join(map(repr, [*EXPERIMENTS, "preflight", "verify"]))),
        (["experiment", "position", "--questions", "x.jsonl", "--kb", "demo", "--out", "o"], "x.jsonl"),
        (["compare", "/nowhere"], "no finished run"),
    ],
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], complaint: str) -> None:
    code, _, error = run(*arguments)
    assert code == 2
    assert complaint in error


def test_two_runs_stand_side_by_side_and_a_simulation_is_marked(tmp_path: Path) -> None:
    for name, score, simulated in (("one", 0.5, False), ("two", 0.75, True)):
        cell = {"method": "vanilla", "condition": {"k": 8}, "n": 8, "score": score, "low": 0.1, "high": 0.9}
        summary = {"experiment": "conflict", "model": name, "data_set": "set", "simulation": simulated, "cells": [cell]}
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(summary))
    compared = compare_runs([tmp_path / "one", tmp_path / "two"])
    assert "| Vanilla RAG | k 8 | 50.0 [10.0, 90.0] (n = 8) | 75.0 [10.0, 90.0] (n = 8) |" in compared
    assert "396 of 530" in compared
    assert "This holds for: two." in compared
    with pytest.raises(InputError, match="no run to compare"):
        compare_runs([])


def test_a_preflight_run_is_compared_by_its_decisions(run: Run, questions: str, tmp_path: Path) -> None:
    command = ["experiment", "preflight", "--questions", questions, "--kb", str(demo_knowledge_base().path)]
    code, _, error = run(*command, "--out", str(tmp_path / "preflight"))
    assert code == 0, error
    summary = json.loads((tmp_path / "preflight" / "summary.json").read_text())
    assert summary["items"] == summary["n"] == 1
    assert summary["data_set"] == tmp_path.name
    code, compared, _ = run("compare", str(tmp_path / "preflight"))
    assert code == 0
    counts = " | ".join(str(summary["iou"][name]) for name in ("tp", "fp", "fn", "tn"))
    assert f"| preflight | IoU | all | 16 | 1 | both | {counts} |" in compared
    assert "Too few labelled questions" in compared
    for published in ("426, 423, 34, 235", "50.18", "92.61", "65.09", "35.71", "24.1%"):
        assert published in compared


@pytest.mark.parametrize(
    ("experiment", "key", "what", "condition"),
    [
        ("position", "comparisons", "Difference from vanilla in Accuracy, OP-RAG", "k 8, position 0"),
        ("attention_bias", "effects", "Random documents minus neighbours in Accuracy, Vanilla RAG", "k 8"),
    ],
)
def test_the_differences_that_a_run_found_are_shown(
    tmp_path: Path, server: OpenAIServer, experiment: str, key: str, what: str, condition: str
) -> None:
    server.script = SimulatedReader(known(40))
    chat = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", max_retries=0)
    settings = run_settings(
        tmp_path, experiment, 40, model=chat, methods=("vanilla", "order_preserving"), ks=(8,), limit=8
    )
    first = ExperimentRun(settings).execute(tmp_path / "run")[key][0]
    shown = points_with_interval(first["difference"], first["low"], first["high"])
    compared = compare_runs([tmp_path / "run"])
    assert f"| {what} | {condition} | {shown} (n = 8, p (Holm) " in compared
    assert ("-5.3 points" in compared) == (experiment == "position")


def test_each_papers_figures_stand_in_a_column_of_their_own(tmp_path: Path) -> None:
    summary = {"experiment": "position", "model": "one", "data_set": "set", "cells": []}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    lines = compare_runs([tmp_path]).splitlines()
    head = next(line for line in lines if line.startswith("| Row | Column |")).split("|")
    of_paper = {name: next(at for at, cell in enumerate(head) if name in cell) for name in ("npj", "arXiv 2412.15271")}
    cells = {tuple(line.split("|")[1:3]): line.split("|") for line in lines if line.startswith("| GPT-3.5, k = 8 |")}
    mean = cells[" GPT-3.5, k = 8 ", " Mean over five positions, vanilla -> BriefContext "]
    assert "54.82 -> 58.11" in mean[of_paper["npj"]]
    assert "53.33 -> 59.51 (Supplementary Table 1)" in mean[of_paper["arXiv 2412.15271"]]
    spread = cells[" GPT-3.5, k = 8 ", " Best minus worst of five positions, vanilla (computed) "]
    assert spread[of_paper["npj"]].strip() == "–"
    assert "15.2 points" in spread[of_paper["arXiv 2412.15271"]]


def test_every_published_figure_names_its_paper_place_row_and_column() -> None:
    assert {p.paper for p in PUBLISHED} == {NPJ, PREPRINT, OP_RAG}
    assert all(value for p in PUBLISHED for value in (p.place, p.row, p.column, p.figure))
    keys = [(p.experiment, p.paper, p.place, p.row, p.column) for p in PUBLISHED]
    assert len(set(keys)) == len(keys)
    assert {*EXPERIMENTS, "preflight"} == {p.experiment for p in PUBLISHED} | set(NOT_AVAILABLE)
    of_mc = {p.row: p.figure for p in PUBLISHED if p.column == "EN.MC accuracy"}
    assert of_mc["OP-RAG-24K (192 chunks), Llama3.1-70B"] == "88.65"
