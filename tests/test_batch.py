"""Provider batches: requests written, replies taken, stage after stage, without a call."""

import json
from pathlib import Path
from typing import Any

import pytest

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.run import Run
from tests.openai_server import Call, OpenAIServer, Reply, Script
from tests.questions import known, run_settings
from tests.simulated_reader import SimulatedReader

COUNT = 3
METHODS = ("vanilla", "map_reduce")


def make_run(folder: Path, **given: Any) -> Run:
    values = {"model": "openai:simulated-reader", "methods": METHODS, "ks": (8,), **given}
    return Run(run_settings(folder, "position", COUNT, **values))


def answer(requests: list[Path], script: Script, file: Path) -> Path:
    """Play the provider: answer every request of the files, as OpenAI's batches do."""
    lines = []
    for row in (json.loads(line) for file in requests for line in file.read_text().splitlines()):
        reply = script(Call(0, row["body"], {}))
        message = {"role": "assistant", "content": reply.content}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        body: dict[str, Any] = {
            **{"id": "x", "object": "chat.completion", "created": 0, "model": row["body"]["model"]},
            **{
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": usage,
            },
        }
        if reply.status != 200:
            body = {"error": {"message": reply.content, "type": "scripted", "code": None}}
        response = {"status_code": reply.status, "request_id": "r", "body": body}
        lines.append(
            json.dumps(
                {"id": "b", "custom_id": row["custom_id"], "response": response, "error": None}
            )
        )
    file.write_text("\n".join(lines) + "\n")
    return file


def outcomes(folder: Path) -> dict[str, str]:
    rows = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    return {row["id"]: row["outcome"] for row in rows}


@pytest.mark.slow
def test_batches_end_in_the_answers_of_a_run_that_asks(
    tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = SimulatedReader(known(COUNT))
    first = make_run(tmp_path).batch(tmp_path / "run", None)
    assert first.waiting == COUNT * 5 * 2
    rows = [json.loads(line) for file in first.files for line in file.read_text().splitlines()]
    assert all(set(row) == {"custom_id", "method", "url", "body"} for row in rows)
    assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
    assert len({row["custom_id"] for row in rows}) == len(rows)
    assert all(
        row["body"]["model"] == "simulated-reader" and row["body"]["temperature"] == 0
        for row in rows
    )

    second = make_run(tmp_path).batch(
        tmp_path / "run", answer(list(first.files), reader, tmp_path / "1.jsonl")
    )
    assert second.imported["replies"] == len(rows)
    assert second.waiting == COUNT * 5
    assert len(outcomes(tmp_path / "run")) == COUNT * 5
    reduce = [json.loads(line) for file in second.files for line in file.read_text().splitlines()]
    assert all("that readers copied out" in row["body"]["messages"][0]["content"] for row in reduce)

    last = make_run(tmp_path).batch(
        tmp_path / "run", answer(list(second.files), reader, tmp_path / "2.jsonl")
    )
    assert (list(last.files), last.waiting) == ([], 0)
    assert (tmp_path / "run" / "report.md").exists()
    assert server.calls == []

    server.script = reader
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    make_run(tmp_path).execute(tmp_path / "asked")
    assert outcomes(tmp_path / "asked") == outcomes(tmp_path / "run")
    # The bodies are those that are sent.
    sent = {json.dumps(call.body, sort_keys=True) for call in server.calls}
    assert sent == {json.dumps(row["body"], sort_keys=True) for row in [*rows, *reduce]}


def test_what_the_provider_failed_is_asked_again(tmp_path: Path) -> None:
    reader = SimulatedReader(known(COUNT))
    first = make_run(tmp_path, methods=("vanilla",)).batch(tmp_path / "run", None)
    failing = answer(
        list(first.files),
        lambda call: Reply("later", status=500) if "compound 1" in call.user else reader(call),
        tmp_path / "1.jsonl",
    )
    second = make_run(tmp_path, methods=("vanilla",)).batch(tmp_path / "run", failing)
    assert (second.imported["replies"], second.imported["to ask again"]) == (10, 5)
    assert second.waiting == 5
    last = make_run(tmp_path, methods=("vanilla",)).batch(
        tmp_path / "run", answer(list(second.files), reader, tmp_path / "2.jsonl")
    )
    assert last.files == []
    assert len(outcomes(tmp_path / "run")) == 15


@pytest.mark.slow
def test_a_refused_form_is_asked_in_another(tmp_path: Path) -> None:
    reader = SimulatedReader(known(COUNT))

    def script(call: Call) -> Reply:
        return Reply("no such form", status=400) if "response_format" in call.body else reader(call)

    run, done = make_run(tmp_path, methods=("map_reduce",)), None
    step = run.batch(tmp_path / "run", None)
    for number in range(8):
        if not step.files:
            break
        done = answer(list(step.files), script, tmp_path / f"{number}.jsonl")
        step = make_run(tmp_path, methods=("map_reduce",)).batch(tmp_path / "run", done)
    assert step.files == []
    assert len(outcomes(tmp_path / "run")) == 15


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{not json", "is not JSON"),
        ("[]", "JSON object"),
        ('{"custom_id": "other"}', "no reply to a request"),
    ],
)
def test_a_file_of_other_results_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    make_run(tmp_path, methods=("vanilla",)).batch(tmp_path / "run", None)
    (tmp_path / "bad.jsonl").write_text(content)
    with pytest.raises(InputError, match=complaint):
        make_run(tmp_path, methods=("vanilla",)).batch(tmp_path / "run", tmp_path / "bad.jsonl")


def test_batches_are_for_models_that_speak_openais_protocol(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="openai:NAME"):
        make_run(tmp_path, model="anthropic:claude").batch(tmp_path / "run", None)
