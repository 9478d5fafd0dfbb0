"""Runs: that they go on, refuse what is not theirs, say what they take, and count what fails."""

import json
import re
import signal
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError, ModelSetupError
from briefcontext.evaluation.runs.compare import compare_runs
from briefcontext.evaluation.runs.folder import RunFolder
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.runs.results import verify_run
from briefcontext.evaluation.runs.run import Run
from briefcontext.graphs.settings import Settings
from tests.forked_python import ForkedPython
from tests.killed_run import QUESTIONS, make_run
from tests.openai_server import Call, OpenAIServer, Reply
from tests.questions import known, run_settings
from tests.simulated_reader import MODEL, SimulatedReader


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


def chat(server: OpenAIServer) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", max_retries=0)


def body(call: Call) -> str:
    return json.dumps(call.body, sort_keys=True)


@pytest.mark.slow
def test_a_killed_run_goes_on_and_asks_only_what_was_in_flight_again(
    tmp_path: Path, server: OpenAIServer
) -> None:
    reader = SimulatedReader(known(QUESTIONS))
    started: list[ForkedPython] = []
    ready = threading.Event()
    answered: list[str] = []

    def kill_at_the_twentieth(call: Call) -> Reply:
        if call.number == 20:
            ready.wait()
            started[0].kill()
            return Reply(drop=True)
        if call.number < 20:
            answered.append(body(call))
        return reader(call)

    server.script = kill_at_the_twentieth
    with ForkedPython(["-m", "tests.killed_run", str(tmp_path), server.url]) as process:
        started.append(process)
        ready.set()
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors
    before = len(server.calls)
    kept = (tmp_path / "run" / "items.jsonl").read_text().splitlines()

    server.script = reader
    make_run(tmp_path, server.url).execute(tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    assert 0 < len(kept) < len(rows) == QUESTIONS * 5 * 2
    assert json.loads(kept[0]) in rows
    asked = Counter(map(body, server.calls))
    different = {call["request_sha256"] for row in rows for call in row["calls"]}
    assert len(asked) == len(different)
    # At most those that were in flight when the process died: it has 8 places.
    assert sum(asked.values()) - len(asked) <= 8
    assert not set(map(body, server.calls[before:])) & set(answered[:-8])

    count = len(server.calls)
    make_run(tmp_path, server.url).execute(tmp_path / "run")
    assert len(server.calls) == count
    assert rows_of(tmp_path / "run") == rows


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_in_the_same_rows_as_one_that_was_not(
    tmp_path: Path, server: OpenAIServer
) -> None:
    server.script = SimulatedReader(known(QUESTIONS))
    whole = make_run(tmp_path, server.url)
    whole.execute(tmp_path / "run")
    lines = (tmp_path / "run" / "items.jsonl").read_text().splitlines()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "other" / "items.jsonl").write_text("\n".join(lines[3:9]) + "\n" + lines[9][:50])
    make_run(tmp_path, server.url).execute(tmp_path / "other")

    def comparable(folder: Path) -> list[dict[str, Any]]:
        return [{**row, "usage": {**row["usage"], "kept_replies": 0}} for row in rows_of(folder)]

    assert comparable(tmp_path / "other") == comparable(tmp_path / "run")


def open_model(server: OpenAIServer, **arguments: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", max_retries=0, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"reading": Settings(partition_size=2)}, "reading.partition_size was 4 and is 2"),
        (
            {"reading": Settings(max_input_tokens=4000)},
            "reading.max_input_tokens was null and is 4000",
        ),
        ({"model": {"temperature": 0.7}}, "model_arguments.temperature was null and is 0.7"),
        ({"model": {"seed": 3}}, "model_arguments.seed was null and is 3"),
        (
            {"extract_model": {}},
            f'extract_model was null and is "{MODEL}"; extract_model_arguments was null',
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_run_goes_on_with_no_setting_that_changes_its_answers(
    tmp_path: Path, server: OpenAIServer, changed: dict[str, Any], named: str
) -> None:
    server.script = SimulatedReader(known(2))
    given: dict[str, Any] = {"methods": ("vanilla",), "ks": (5,)}
    run = Run(run_settings(tmp_path, "position", 2, model=open_model(server), **given))
    run.execute(tmp_path / "run")
    count = len(server.calls)
    models = {
        name: open_model(server, **arguments)
        for name, arguments in changed.items()
        if name != "reading"
    }
    other = Run(
        run_settings(
            tmp_path, "position", 2, **{"model": open_model(server), **given, **changed, **models}
        )
    )
    for begin in (other.execute, other.estimate):
        with pytest.raises(
            InputError, match=rf"another configuration \({re.escape(named)}.*Give another --out"
        ):
            begin(tmp_path / "run")
    assert len(server.calls) == count


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path, server: OpenAIServer) -> None:
    run = Run(
        run_settings(tmp_path, "position", 2, model=chat(server), methods=("vanilla",), ks=(5,))
    )
    with RunFolder(tmp_path / "run").locked(), pytest.raises(InputError, match="Another process"):
        run.execute(tmp_path / "run")


def test_failed_calls_are_reported_and_asked_again_on_the_next_start(
    tmp_path: Path, server: OpenAIServer
) -> None:
    reader = SimulatedReader(known(4))
    server.script = lambda call: Reply(status=503) if "compound 2" in call.user else reader(call)
    settings = run_settings(
        tmp_path, "position", 4, model=chat(server), methods=("vanilla",), ks=(5,)
    )
    summary = Run(settings).execute(tmp_path / "run")
    assert (summary["answers"], summary["failed"]) == (15, 5)
    assert all(cell["n"] == 3 and cell["failed"] == 1 for cell in summary["cells"])
    assert "### Failed calls" in (tmp_path / "run" / "report.md").read_text()

    server.script, count = reader, len(server.calls)
    summary = Run(settings).execute(tmp_path / "run")
    assert (summary["answers"], summary["failed"]) == (20, 0)
    assert len(server.calls) - count == 5


@pytest.mark.slow
@pytest.mark.parametrize("silent", ["compound 1", ""], ids=["of one question", "of none"])
def test_tokens_that_the_provider_did_not_report_are_no_figures(
    tmp_path: Path, server: OpenAIServer, silent: str
) -> None:
    reader, out = SimulatedReader(known(4)), tmp_path / "run"
    server.script = lambda call: replace(reader(call), reported=silent not in call.prompt)
    given = {"methods": ("vanilla", "map_reduce"), "ks": (8,), "prices": Prices(1.0, 1.0)}
    summary = Run(run_settings(tmp_path, "cost", 4, model=chat(server), **given)).execute(out)
    report = (out / "report.md").read_text()
    assert summary["answers"] == 8
    assert "the provider did not report the tokens" in report
    if silent:
        assert [one["n"] for one in [*summary["costs"], *summary["predictions"]]] == [3] * 4
        assert all(one["input_tokens"] > 100 for one in [*summary["costs"], *summary["cells"]])
    else:
        assert [summary[name] for name in ("costs", "predictions", "savings", "input_tokens")] == [
            [],
            [],
            [],
            None,
        ]
        assert "16 requests, – input and – output tokens" in report
        assert "| 1.0 | – | – |" in report
        assert "| 3.0 | – | – |" in report
        assert "| 16 | – | – |" in compare_runs([out])
    assert verify_run(out) == []


def test_no_answer_is_made_from_a_part_of_the_partitions(
    tmp_path: Path, server: OpenAIServer
) -> None:
    reader = SimulatedReader(known(1))
    server.script = lambda call: (
        Reply(status=503)
        if call.stage == "extract" and "compound 0 was decided" in call.user
        else reader(call)
    )
    given: dict[str, Any] = {"methods": ("map_reduce",), "ks": (8,)}
    summary = Run(run_settings(tmp_path, "position", 1, model=chat(server), **given)).execute(
        tmp_path / "run"
    )
    assert summary["failed"] == 5
    assert "reduce" not in server.stages()


def test_a_refused_key_stops_the_run_at_once(tmp_path: Path, server: OpenAIServer) -> None:
    server.script = lambda call: Reply(status=401)
    reading = Settings(max_concurrent_calls=1)
    settings = run_settings(
        tmp_path, "position", 3, model=chat(server), methods=("vanilla",), ks=(5,), reading=reading
    )
    with pytest.raises(ModelSetupError):
        Run(settings).execute(tmp_path / "run")
    assert len(server.calls) == 1


def test_a_dry_run_calls_nothing_and_foretells_the_calls(
    tmp_path: Path, server: OpenAIServer
) -> None:
    server.script = SimulatedReader(known(3), {0.0: 0.0, 1.0: 0.0})
    given: dict[str, Any] = {"methods": ("vanilla", "map_reduce"), "ks": (8,)}
    run = Run(
        run_settings(tmp_path, "position", 3, model=chat(server), prices=Prices(1.0, 2.0), **given)
    )
    table = run.estimate(tmp_path / "run")
    assert server.calls == []
    run.execute(tmp_path / "run")
    foretold = {row[0]: int(row[2].replace(",", "")) for row in table.rows}
    made = Counter(row["method"] for row in rows_of(tmp_path / "run") for _ in row["calls"])
    assert foretold["Vanilla RAG"] == made["vanilla"] == 15
    assert foretold["Map-reduce"] == made["map_reduce"] == 45
    assert all(row[-1].startswith("$") for row in table.rows)
    # Input tokens are exact but for the tokenizer, and the test server counts as the estimate does.
    sent = sum(
        row["usage"]["input_tokens"]
        for row in rows_of(tmp_path / "run")
        if row["method"] == "vanilla"
    )
    assert int(table.rows[0][3].replace(",", "")) == pytest.approx(sent, rel=0.01)
    assert [row[1] for row in run.estimate(tmp_path / "run").rows] == ["0"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"methods": ("guessing",)}, "no method 'guessing'"),
        ({"methods": ("hybrid",)}, "fused ranking of the corpus"),
        ({"methods": ("long_context",)}, "whole long document"),
        ({"ks": (4,)}, "fewer than 5 different places"),
        ({"ks": (500,)}, "has only"),
        (
            {"experiment": "integration", "ks": (8, 43)},
            "has 42 passages, and 43 are to be retrieved",
        ),
        ({"knowledge_base": None}, "--kb"),
        ({"model": None}, "--model"),
    ],
)
def test_what_cannot_be_run_is_said_before_a_call(
    tmp_path: Path, server: OpenAIServer, given: dict[str, Any], complaint: str
) -> None:
    values: dict[str, Any] = {"model": chat(server), "methods": ("vanilla",), "ks": (5,), **given}
    with pytest.raises(InputError, match=complaint):
        Run(run_settings(tmp_path, values.pop("experiment", "position"), 2, **values)).execute(
            tmp_path / "run"
        )
    assert server.calls == []
