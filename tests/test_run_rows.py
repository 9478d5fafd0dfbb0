"""Rows of a run: none is lost, made twice, or counted when it is missing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError, ModelSetupError
from briefcontext.evaluation.data_sets import load_data_set
from briefcontext.evaluation.runs.folder import RunFolder
from briefcontext.evaluation.runs.results import verify_run
from briefcontext.evaluation.runs.run import Run
from briefcontext.evaluation.runs.settings import RunSettings
from briefcontext.files import json_line
from briefcontext.graphs.settings import Settings
from tests.openai_server import Call, OpenAIServer, Reply
from tests.questions import OPTIONS, answer, build_corpus, known, open_corpus, question
from tests.simulated_reader import MODEL, SimulatedReader

LINE_ENDS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
"""At which `str.splitlines` ends a line, and JSON does not."""
HALF = "\ud83d"


def chat(server: OpenAIServer, model: str = "scripted") -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=server.url, api_key="none", max_retries=0)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "items.jsonl").read_bytes().splitlines()]


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "asked.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    return f"jsonl:{folder / 'asked.jsonl'}"


def integration(
    folder: Path, server: OpenAIServer, rows: list[dict[str, Any]], **given: Any
) -> Run:
    if not (folder / "corpus").exists():
        build_corpus(folder / "corpus", 3)
    values: dict[str, Any] = {
        "model": chat(server),
        "knowledge_base": open_corpus(str(folder / "corpus")),
        "methods": ("vanilla",),
        "ks": (4,),
        "figures": False,
        "progress": False,
        "reading": Settings(max_concurrent_calls=8, max_retries=0),
        **given,
    }
    return Run(RunSettings("integration", written(folder, rows), **values))


def choice(number: int, **given: Any) -> dict[str, Any]:
    return {
        "id": f"q{number}",
        "question": question(number),
        "options": OPTIONS,
        "answer": answer(number),
        **given,
    }


@given(st.lists(st.text(st.characters() | st.sampled_from(LINE_ENDS + HALF + "\n\r"))))
def test_whatever_a_row_holds_is_one_line_and_comes_back(texts: list[str]) -> None:
    row = {"id": "q", "texts": texts}
    line = json_line(row)
    assert line.splitlines() == line.split("\n")[:1] == [line.removesuffix("\n")]
    assert json.loads(line.encode().decode()) == row


def test_a_reply_with_line_ends_or_half_a_character_is_a_row_and_is_asked_for_once(
    tmp_path: Path, server: OpenAIServer
) -> None:
    words = f"One{LINE_ENDS}two{HALF}.\nChoice: A"
    server.script = lambda call: Reply(raw=json.dumps(reply(call, words)).encode())
    rows = [
        choice(number, question=f"{question(number)}\u2028Answer briefly.") for number in range(3)
    ]
    summary = integration(tmp_path, server, rows).execute(tmp_path / "run")
    assert (summary["answers"], summary["failed"], summary["missing"], summary["calls"]) == (
        3,
        0,
        0,
        3,
    )
    assert [row["question"] for row in rows_of(tmp_path / "run")] == [
        row["question"] for row in rows
    ]
    assert all(HALF in row["calls"][0]["output"] for row in rows_of(tmp_path / "run"))
    assert "UNFINISHED" not in (tmp_path / "run" / "report.md").read_text()

    again = integration(tmp_path, server, rows).execute(tmp_path / "run")
    assert again == summary
    assert len(server.calls) == 3


def reply(call: Call, words: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": words}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": call.body["model"]}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return {
        **head,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


@pytest.mark.parametrize(
    "row",
    [
        choice(1, question=f"Is it{HALF}?"),
        choice(1, options={"A": "yes", "B": HALF}),
        choice(1, id=f"q{HALF}"),
    ],
    ids=["question", "option", "id"],
)
def test_a_data_set_with_half_a_character_is_refused_with_its_place(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"asked\.jsonl, (line|question) 2: .*half of a character"):
        load_data_set(written(tmp_path, [choice(0), row]))


def test_answers_that_are_not_there_are_said_loudly(tmp_path: Path, server: OpenAIServer) -> None:
    server.script = lambda call: Reply("Choice: A")
    run = integration(
        tmp_path, server, [choice(number) for number in range(3)], model="openai:scripted"
    )
    run.batch(tmp_path / "run", None)
    RunFolder(tmp_path / "run").append({**_row("q0"), "status": "ok"})
    run._finish(RunFolder(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["missing"] == 2
    assert (
        "**UNFINISHED.** 2 of 3 answers are missing" in (tmp_path / "run" / "report.md").read_text()
    )
    assert verify_run(tmp_path / "run") == ["2 answers are missing. Repeat the run's command."]
    (tmp_path / "run" / "summary.json").unlink()
    with pytest.raises(InputError, match="no finished run"):
        verify_run(tmp_path / "run")


def _row(item: str) -> dict[str, Any]:
    usage = {"calls": 0, "input_tokens": 0, "output_tokens": 0, "kept_replies": 0}
    return {
        "id": f"{item}|vanilla|k 4",
        "item": item,
        "group": "asked",
        "question": item,
        "method": "vanilla",
        "calls": [],
        "condition": {"k": 4},
        "metric": "accuracy",
        "score": 1.0,
        "outcome": "right",
        "choice": "A",
        "text": "",
        "route": "vanilla",
        "iou": 1.0,
        "partition_choices": {},
        "truncated": False,
        "failed_calls": 0,
        "usage": usage,
        "documents": [],
        "key_places": [],
        "mirage_score": 1.0,
    }


def test_equal_requests_that_come_at_the_same_time_are_asked_once(
    tmp_path: Path, server: OpenAIServer
) -> None:
    rows = [choice(0, id=f"q{number}") for number in range(8)]
    server.script = lambda call: Reply("It is so.\nChoice: A")
    summary = integration(tmp_path, server, rows).execute(tmp_path / "run")
    assert server.arrived == summary["calls"] == 1
    assert summary["answers"] == 8
    assert Counter(row["usage"]["kept_replies"] for row in rows_of(tmp_path / "run")) == {
        1: 7,
        0: 1,
    }


def test_the_simulated_reader_answers_under_no_other_name(
    tmp_path: Path, server: OpenAIServer
) -> None:
    server.script = SimulatedReader(known(3))
    with pytest.raises(ModelSetupError):
        integration(tmp_path, server, [choice(0)], model=chat(server, "gpt-4o")).execute(
            tmp_path / "run"
        )
    named = chat(server, f"{MODEL}-biased")
    assert (
        integration(tmp_path, server, [choice(0)], model=named).execute(tmp_path / "other")[
            "simulation"
        ]
        is True
    )
