"""Do the experiments find the bias that a reader has, and none in a reader that has none?

The reader is simulated: see `tests.simulated_reader`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.evaluation.experiments.position import PERCENTILES, key_place
from briefcontext.evaluation.runs.run import Run
from briefcontext.evaluation.statistics.inference import wilson
from tests.openai_server import OpenAIServer
from tests.questions import known, run_settings
from tests.simulated_reader import LOST_IN_THE_MIDDLE, MODEL, NO_BIAS, SimulatedReader

QUESTIONS = 60
CHECKS = 10
"""Accuracies checked below, so that an interval of each at 1 - 0.05 / CHECKS holds all true ones at 95%."""

Execute = Callable[..., dict[str, Any]]


@pytest.fixture
def execute(tmp_path: Path, server: OpenAIServer) -> Execute:
    """Run an experiment with a simulated reader, and return its summary."""

    def execute(experiment: str, *, count: int = QUESTIONS, reader: dict[str, Any], **given: Any) -> dict[str, Any]:
        server.script = SimulatedReader(known(count), **reader)
        chat = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", max_retries=0)
        return Run(run_settings(tmp_path, experiment, count, model=chat, **given)).execute(tmp_path / "run")

    return execute


def accuracies(summary: dict[str, Any], method: str, name: str) -> dict[Any, dict[str, Any]]:
    return {cell["condition"][name]: cell for cell in summary["cells"] if cell["method"] == method}


def expected(reader: SimulatedReader, place: int, k: int) -> float:
    """The accuracy at a place: an overlooked document leaves a guess among two options."""
    overlooked = reader.overlooks(place / (k - 1), k - 1)
    return 1 - overlooked + overlooked / 2


@pytest.mark.parametrize("table", [LOST_IN_THE_MIDDLE, NO_BIAS], ids=["middle", "none"])
def test_position_recovers_the_bias_that_the_reader_has(execute: Execute, table: dict[float, float]) -> None:
    summary = execute("position", reader={"table": table}, methods=("vanilla",), ks=(8,))
    found = accuracies(summary, "vanilla", "position")
    assert list(found) == list(PERCENTILES)
    for position, cell in found.items():
        assert cell["n"] == QUESTIONS
        right = expected(SimulatedReader([], table), key_place(position, 8), 8)
        interval = wilson(round(cell["score"] * cell["n"]), cell["n"], confidence=1 - 0.05 / CHECKS)
        assert interval.low <= right <= interval.high, f"at {position}"
    (spread,) = summary["spread"]
    places = [expected(SimulatedReader([], table), key_place(position, 8), 8) for position in PERCENTILES]
    assert spread["low"] <= max(places) - min(places) <= spread["high"]
    if table is NO_BIAS:
        assert spread["p"] > 0.05
        assert spread["low"] == 0
    else:
        assert spread["p"] < 0.001
        assert spread["low"] > 0


@pytest.mark.parametrize("k", range(5, 130))
def test_the_positions_are_different_places_from_five_documents_on(k: int) -> None:
    places = [key_place(position, k) for position in PERCENTILES]
    assert (places[0], places[-1]) == (0, k - 1)
    assert places == sorted(set(places))


def test_every_method_reads_the_same_ranking(execute: Execute, tmp_path: Path) -> None:
    execute("position", count=6, reader={}, methods=("vanilla", "order_preserving", "map_reduce"), ks=(8,))
    rows = [json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()]
    for item in {row["item"] for row in rows}:
        for position in PERCENTILES:
            some = [r for r in rows if r["item"] == item and r["condition"]["position"] == position]
            assert len(some) == 3
            assert len({tuple(row["documents"]) for row in some}) == 1
            assert some[0]["key_places"] == [key_place(position, 8)]
            assert len(set(some[0]["documents"])) == 8


def test_reading_in_partitions_lowers_the_spread_where_only_long_contexts_hide_documents(execute: Execute) -> None:
    # Overlooked by the number of documents, not by their place: four of them hide nothing.
    reader = {"table": {0.0: 0.0, 1.0: 0.0}, "per_document": 0.04}
    summary = execute("context_length", count=40, reader=reader, methods=("vanilla", "map_reduce"), ks=(4, 16))
    vanilla = accuracies(summary, "vanilla", "documents")
    mapped = accuracies(summary, "map_reduce", "documents")
    assert vanilla[16]["score"] < vanilla[4]["score"]
    assert mapped[16]["score"] > vanilla[16]["score"]
    for length, cell in vanilla.items():
        right = expected(SimulatedReader([], **reader), 0, length)
        interval = wilson(round(cell["score"] * cell["n"]), cell["n"], confidence=1 - 0.05 / len(vanilla))
        assert interval.low <= right <= interval.high


def test_bounds_are_run_once_for_a_question(execute: Execute, server: OpenAIServer) -> None:
    summary = execute("context_length", count=5, reader={"knows": 0.0}, methods=("closed_book", "oracle"), ks=(2, 4, 8))
    assert len(server.calls) == 10
    by_method = {cell["method"]: cell for cell in summary["cells"]}
    assert by_method["oracle"]["n"] == by_method["closed_book"]["n"] == 5
    assert by_method["oracle"]["condition"] == {}
    assert all(len(call.documents) <= 1 for call in server.calls)


def test_conflicts_are_counted_with_what_became_of_them(execute: Execute) -> None:
    summary = execute("conflict", count=30, reader={"misread": 0.5, "table": {0.0: 0.1, 1.0: 0.1}}, ks=(8,))
    (conflict,) = summary["conflicts"]
    assert conflict["questions"] == 30
    assert 0 < conflict["n"] < 30
    assert 0 < conflict["resolved"] <= conflict["n"]
    assert conflict["win"] + conflict["tie"] + conflict["lose"] == conflict["n"]
    assert conflict["low"] <= conflict["share"] <= conflict["high"]


def test_random_documents_are_no_neighbours_and_no_keys(execute: Execute, tmp_path: Path) -> None:
    execute("attention_bias", count=40, reader={}, methods=("vanilla",), ks=(4,), limit=4)
    rows = [json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["key_places"] == [2]
        assert len(set(row["documents"])) == 4
    near, far = (
        {row["item"]: set(row["documents"]) for row in rows if row["condition"]["others"] == company}
        for company in ("neighbours", "random")
    )
    for item in near:
        assert near[item] & far[item] == {f"key-{item[1:]}"}


def test_cost_adds_up_what_the_provider_reported(execute: Execute, server: OpenAIServer) -> None:
    summary = execute("cost", count=4, reader={}, methods=("vanilla", "map_reduce"), ks=(8,))
    costs = {cost["method"]: cost for cost in summary["costs"]}
    sent = sum(len(call.prompt) // 4 for call in server.calls)
    assert sum(cost["input_tokens"] * cost["n"] for cost in costs.values()) == pytest.approx(sent)
    mapped = costs["map_reduce"]
    assert mapped["calls"] == 3
    assert mapped["one_call_input"] == 0
    assert mapped["map_input"] + mapped["reduce_input"] == pytest.approx(mapped["input_tokens"])
    assert mapped["input_ratio"] == pytest.approx(mapped["input_tokens"] / costs["vanilla"]["input_tokens"])


def test_integration_scores_each_data_set_and_tests_against_vanilla(execute: Execute) -> None:
    methods = ("closed_book", "vanilla", "hybrid", "briefcontext")
    summary = execute("integration", count=10, reader={}, methods=methods, ks=(8,))
    (found,) = summary["groups"].values()
    assert {cell["method"] for cell in found} == set(methods)
    assert {c["method"] for c in summary["comparisons"]} == set(methods) - {"vanilla"}
    assert all(c["n"] == 10 and c["p"] <= c["p_holm"] for c in summary["comparisons"])


def test_a_simulation_is_named_wherever_it_appears(execute: Execute, tmp_path: Path) -> None:
    summary = execute("position", count=4, reader={}, methods=("vanilla",), ks=(5,), figures=True)
    assert summary["simulation"] is True
    assert "SIMULATION" in (tmp_path / "run" / "report.md").read_text()
    assert "SIMULATION" in (tmp_path / "run" / "position.svg").read_text()
    assert (tmp_path / "run" / "position.png").read_bytes().startswith(b"\x89PNG")
