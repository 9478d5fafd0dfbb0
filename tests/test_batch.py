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


def test_line_ends_that_json_does_not_know_break_no_request_and_no_reply(tmp_path: Path) -> None:
    words = "It is\u2028so\u2029and\x85not otherwise.\nChoice: A"

    def run() -> Run:
        settings = run_settings(
            tmp_path, "position", 1, model="openai:m", methods=("vanilla",), ks=(5,)
        )
        file = tmp_path / "questions.jsonl"
        file.write_text(
            file.read_text().replace("Does compound", "Does\u2028the\x85compound"), encoding="utf-8"
        )
        return Run(settings)

    out = tmp_path / "run"
    (requests,) = run().batch(out, None).files
    assert len(requests.read_text(encoding="utf-8").splitlines()) == 5
    # As an older export and as a provider may write it.
    rows = [json.loads(line) for line in requests.read_text(encoding="utf-8").split("\n") if line]
    requests.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    body: dict[str, Any] = {
        **{"id": "x", "object": "chat.completion", "created": 0, "model": "m", "usage": usage},
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": words},
                "finish_reason": "stop",
            }
        ],
    }
    lines = [
        {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}}
        for row in rows
    ]
    results = tmp_path / "1.jsonl"
    results.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8"
    )
    last = run().batch(out, results)
    assert (last.imported["replies"], list(last.files)) == (5, [])
    assert set(outcomes(out).values()) == {"right"}
    again = run().batch(out, None)
    assert (list(again.files), again.waiting) == ([], 0)


def test_an_export_again_writes_the_same_requests(tmp_path: Path) -> None:
    first = make_run(tmp_path).batch(tmp_path / "run", None)
    before = [file.read_text() for file in first.files]
    again = make_run(tmp_path).batch(tmp_path / "run", None)
    assert [file.read_text() for file in again.files] == before


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


def test_requests_that_all_failed_are_written_to_be_sent_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, methods=("vanilla",))
    first = run.batch(tmp_path / "run", None)
    asked = first.files[0].read_text()
    failed = answer(
        list(first.files), lambda call: Reply("too many", status=429), tmp_path / "1.jsonl"
    )
    second = make_run(tmp_path, methods=("vanilla",)).batch(tmp_path / "run", failed)
    assert second.imported == {"replies": 0, "to ask again": 15, "not of this run": 0}
    assert [file.read_text() for file in second.files] == [asked]
    answers = answer(list(second.files), SimulatedReader(known(COUNT)), tmp_path / "2.jsonl")
    assert make_run(tmp_path, methods=("vanilla",)).batch(tmp_path / "run", answers).files == []


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
        ("[]", "an object is needed"),
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
