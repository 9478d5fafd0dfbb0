"""Runs side by side, and the commands as a person meets them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from briefcontext.cli import main
from briefcontext.errors import InputError
from briefcontext.evaluation.compare import compare_runs
from tests.openai_server import OpenAIServer, Reply

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: OpenAIServer) -> Run:
    """Run the command line in this process; return its exit code, output and error output."""
    server.script = lambda call: Reply("It is so.\nChoice: A")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["briefcontext", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        output = capsys.readouterr()
        return int(exit.value.code or 0), output.out, output.err

    return run


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
    command = ["experiment", "position", "--questions", questions, "--kb", "demo", "--method", "rag", "--k", "5"]
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
    assert "npj Digital Medicine 2025" in compared
    assert "SIMULATION" not in compared
    assert (tmp_path / "compared.md").read_text().strip() == compared.strip()
    code, _, error = run(*command, *out, *model, "--seed", "7")
    assert code == 2
    assert "another configuration" in error


def test_batches_from_the_command_line(run: Run, questions: str, tmp_path: Path, server: OpenAIServer) -> None:
    command = ["experiment", "position", "--questions", questions, "--kb", "demo", "--method", "rag", "--k", "8"]
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
        (["experiment", "guess", "--questions", "x.jsonl", "--out", "o"], "no experiment 'guess'"),
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
        cell = {"method": "rag", "condition": {"k": 8}, "n": 8, "score": score, "low": 0.1, "high": 0.9}
        summary = {"experiment": "conflict", "model": name, "data_set": "set", "simulation": simulated, "cells": [cell]}
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(summary))
    compared = compare_runs([tmp_path / "one", tmp_path / "two"])
    assert "| Vanilla RAG | k 8 | 50.0 [10.0, 90.0] (n = 8) | 75.0 [10.0, 90.0] (n = 8) |" in compared
    assert "396 of 530" in compared
    assert "This holds for: two." in compared
    with pytest.raises(InputError, match="no run to compare"):
        compare_runs([])
