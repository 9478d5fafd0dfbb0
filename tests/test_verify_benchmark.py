"""The benchmark of the verification, on invented pairs."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.openai_server import OpenAIServer, Reply, verdict
from tests.test_package import ROOT

pytestmark = pytest.mark.slow
PAIRS = [
    {
        "id": str(place),
        "claim": f"Toy claim {place}.",
        "title": "Toy",
        "sentences": ["It is so."],
        "label": label,
    }
    for place, label in enumerate(["supported", "contradicted", "not_stated"])
]


@pytest.fixture
def run(tmp_path: Path, server: OpenAIServer) -> Any:
    """Run the benchmark on the pairs; return its figures, or None if it wrote none."""
    (tmp_path / "scifact").mkdir()
    with gzip.open(tmp_path / "scifact" / "pairs.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(pair) + "\n" for pair in PAIRS)

    def run(*arguments: str) -> Any:
        figures = tmp_path / "figures.json"
        figures.unlink(missing_ok=True)
        command = [
            sys.executable,
            "benchmarks/verify.py",
            "--data",
            str(tmp_path),
            "--json",
            str(figures),
            *arguments,
        ]
        environment = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.url, "PATH": ""}
        subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120
        )
        return json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else None

    return run


def judge(prompt: str) -> str:
    """Find the second claim contradicted."""
    found = "contradicted" if "Toy claim 1" in prompt else "supported"
    return json.dumps({"verdicts": [verdict(1, found, "no")]})


def test_a_chat_model_is_measured_by_label(run: Any, server: OpenAIServer) -> None:
    server.verify = lambda call: Reply(judge(call.prompt))
    figures = run("--model", "openai:judge")
    assert [(row["label"], row["n"], row["flagged"]) for row in figures["rows"]] == [
        ("supported", 1, 0),
        ("contradicted", 1, 1),
        ("not_stated", 1, 0),
    ]
    assert figures["used"]["calls"] == len(server.verifications) == 3


def test_a_batch_is_exported_and_its_results_are_measured(
    run: Any, server: OpenAIServer, tmp_path: Path
) -> None:
    batch = ["--model", "openai:judge", "--work", str(tmp_path / "batch")]
    assert run(*batch, "--batch", "export") is None
    requests = [
        json.loads(line)
        for line in (tmp_path / "batch" / "requests-001.jsonl").read_text().splitlines()
    ]
    replies = tmp_path / "replies.jsonl"
    with replies.open("w", encoding="utf-8") as file:
        for request in requests:
            message = {
                "role": "assistant",
                "content": judge(request["body"]["messages"][-1]["content"]),
            }
            body = {"id": "1", "object": "chat.completion", "created": 0, "model": "judge"}
            body |= {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            response = {"status_code": 200, "body": body}
            file.write(json.dumps({"custom_id": request["custom_id"], "response": response}) + "\n")
    figures = run(*batch, "--batch", "import", "--replies", str(replies))
    assert [row["flagged"] for row in figures["rows"]] == [0, 1, 0]
    assert server.all_calls == []


def test_without_a_model_figures_are_compared(run: Any) -> None:
    assert [row["flagged"] for row in run()["rows"]] == [1, 1, 1]
