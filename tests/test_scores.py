"""What is scored and by what, and what is said where a method could not be what its name says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.runs.run import Run
from briefcontext.evaluation.runs.settings import RunSettings
from briefcontext.evaluation.statistics.tables import cells, repeats_table
from briefcontext.graphs.settings import Settings
from tests.hashing_encoder import HashingEncoder
from tests.openai_server import Call, OpenAIServer, Reply, faithful
from tests.questions import OPTIONS, build_corpus, open_corpus, question

Execute = Callable[..., dict[str, Any]]


@pytest.fixture
def execute(tmp_path: Path, server: OpenAIServer) -> Execute:
    """Run an experiment on rows of JSON or a named data set, and return its summary."""
    server.script = lambda call: faithful(call) if call.stage != "answer" else _right(call)

    def execute(experiment: str, data: list[dict[str, Any]] | str, **given: Any) -> dict[str, Any]:
        spec = (
            data if isinstance(data, str) else f"jsonl:{_write(tmp_path / 'questions.jsonl', data)}"
        )
        if "document_encoder" not in given:
            if not (tmp_path / "corpus").exists():
                build_corpus(tmp_path / "corpus", 12, others=80)
            given = {"knowledge_base": open_corpus(str(tmp_path / "corpus")), **given}
        chat = ChatOpenAI(model="scripted", base_url=server.url, api_key="none", max_retries=0)
        values: dict[str, Any] = {
            "figures": False,
            "progress": False,
            "reading": Settings(max_retries=0),
            **given,
        }
        return Run(RunSettings(experiment, spec, model=chat, **values)).execute(tmp_path / "run")

    return execute


def _write(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def _right(call: Call) -> Reply:
    return Reply("It is so.\nChoice: A" if "A. yes" in call.user else "metformin")


def _rows(count: int, *, keyed: int, options: bool = True) -> list[dict[str, Any]]:
    answer = "A" if options else "metformin"
    return [
        {
            "id": f"q{n}",
            "question": question(n),
            **({"options": OPTIONS} if options else {}),
            **({"answer": answer} if n < keyed else {}),
        }
        for n in range(count)
    ]


def items(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / "items.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("options", [True, False], ids=["multiple choice", "free text"])
def test_questions_without_a_key_are_left_out_of_what_compares_scores(
    execute: Execute, tmp_path: Path, server: OpenAIServer, options: bool
) -> None:
    summary = execute(
        "integration", _rows(6, keyed=4, options=options), methods=("vanilla", "hybrid"), ks=(4,)
    )
    assert list(summary["left_out"].values()) == [2]
    (found,) = summary["groups"].values()
    assert [(cell["n"], cell["score"]) for cell in found] == [(4, 1.0), (4, 1.0)]
    assert [comparison["n"] for comparison in summary["comparisons"]] == [4]
    assert len(items(tmp_path)) == 8
    assert "has no answer key" in (tmp_path / "run" / "report.md").read_text()
    assert not [call for call in server.calls if "compound 5" in call.user]


def test_an_answer_without_a_choice_is_wrong_by_the_strict_score_and_a_by_mirage(
    execute: Execute, server: OpenAIServer, tmp_path: Path
) -> None:
    server.script = lambda call: Reply("Choice: N/A")
    summary = execute("integration", _rows(4, keyed=4), methods=("vanilla",), ks=(4,))
    ((cell,),) = summary["groups"].values()
    assert (cell["score"], cell["mirage"], cell["unparsed"]) == (0.0, 1.0, 4)
    report = (tmp_path / "run" / "report.md").read_text()
    assert "| Accuracy [95% CI] | MIRAGE | Unparsed |" in report
    assert "An answer that settles on no option" in report


def test_every_mean_counts_each_question_alike_where_calls_failed() -> None:
    def row(item: str, position: int, repeat: int) -> dict[str, Any]:
        answered = {"status": "ok", "outcome": "right", "score": 1.0, "mirage_score": 1.0}
        wrong = {**answered, "outcome": "wrong", "score": 0.0, "mirage_score": 0.0}
        outcome = wrong if item == "a" else {"status": "failed"} if position else answered
        condition = {"k": 8, "position": position}
        usage = {"calls": 1, "input_tokens": 9, "output_tokens": 1}
        head = {
            "item": item,
            "repeat": repeat,
            "method": "vanilla",
            "metric": "accuracy",
            "condition": condition,
        }
        return {**head, **outcome, "usage": usage, "calls": [{"input_tokens": 9}]}

    rows = [
        row(item, position, repeat)
        for item in "ab"
        for position in (0, 25, 50, 75, 100)
        for repeat in (0, 1)
    ]
    (cell,) = cells(rows, seed=0, by=("k",))
    assert (cell["n"], cell["score"], cell["mirage"], cell["failed"]) == (2, 0.5, 0.5, 8)
    (over,) = (one for one in repeats_table(rows)[0] if "position" not in one["condition"])
    assert (over["n"], over["repeats"], over["mean"]) == (2, 2, 0.5)


@pytest.mark.slow
def test_integration_tests_each_data_set_and_their_average(
    execute: Execute, server: OpenAIServer, tmp_path: Path
) -> None:
    server.script = lambda call: Reply(f"Choice: {'A' if call.documents else 'B'}")
    rows = [{**row, "group": f"set {n % 2}"} for n, row in enumerate(_rows(10, keyed=10))]
    for row in rows[:2]:
        row["answer"] = "B"
    summary = execute("integration", rows, methods=("closed_book", "vanilla"), ks=(4,))
    assert [(c["group"], c["n"], c["win"], c["lose"]) for c in summary["comparisons"]] == [
        ("set 0", 5, 1, 4),
        ("set 1", 5, 1, 4),
    ]
    (average,) = summary["average_comparisons"]
    assert (average["n"], average["test"]) == (10, "permutation")
    assert average["difference"] == pytest.approx((1 - 4) / 5)
    # Two of ten signs the other way: as far from 0 come all flips with at most two, twice.
    assert average["p"] == pytest.approx(2 * (1 + 10 + 45) / 2**10)
    assert average["p_holm"] == pytest.approx(min(1, 3 * average["p"]))
    # The correction is over all three comparisons; a note is printed once.
    report = (tmp_path / "run" / "report.md").read_text()
    assert report.count("Holm corrects over 3 comparisons.") == 1


WINDOW = 2500
LONG = "The patients were seen again after a year, and nothing had changed in the treated arm. "


def test_numbers_of_chunks_that_a_document_lacks_are_left_out_and_said(
    execute: Execute, tmp_path: Path, server: OpenAIServer
) -> None:
    rows = [
        {**row, "context": f"Compound {n} was given. {LONG * (20 + 60 * n)}"}
        for n, row in enumerate(_rows(2, keyed=2))
    ]
    methods = ("vanilla", "order_preserving")
    encoder = HashingEncoder()
    summary = execute("order", rows, methods=methods, ks=(2, 8, 512), document_encoder=encoder)
    asked = {(row["item"], row["condition"]["chunks"]) for row in items(tmp_path)}
    assert asked == {("q0", 2), ("q1", 2), ("q1", 8)}
    assert {one["holm_over"] for one in summary["comparisons"]} == {2}
    report = (tmp_path / "run" / "report.md").read_text()
    assert "of 2 questions: 1 at 8, 2 at 512" in report


@pytest.mark.parametrize(
    ("experiment", "row", "named"),
    [
        ("open_ended", {"options": OPTIONS}, "Question 1 is multiple choice.*Remove `options`"),
        ("conflict", {"answer": "metformin"}, "Question 1 is a free question.*Add `options`"),
        ("integration", {"options": OPTIONS}, "Question 1 has no answer key.*Add `answer`"),
        ("position", {"options": OPTIONS, "answer": "A"}, "no key document.*Add `gold_ids`"),
        ("order", {"answer": "metformin"}, "names no long document.*Add `document`"),
    ],
)
def test_a_question_that_an_experiment_cannot_use_is_named_with_the_remedy(
    execute: Execute, server: OpenAIServer, experiment: str, row: dict[str, Any], named: str
) -> None:
    given = {"document_encoder": HashingEncoder()} if experiment == "order" else {}
    with pytest.raises(InputError, match=named):
        execute(experiment, [{"id": "q", "question": question(0), **row}], ks=(8,), **given)
    assert server.calls == []


def test_self_route_reads_the_best_ranked_passages_that_fit(
    execute: Execute, tmp_path: Path, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        unanswerable = "UNANSWERABLE" in call.system and "compound 1" in call.user
        return Reply("UNANSWERABLE" if unanswerable else "Yes.\nChoice: A")

    server.script = script
    rows = [
        {**row, "context": f"Compound {n} was given. {LONG * 560}"}
        for n, row in enumerate(_rows(2, keyed=2))
    ]
    summary = execute(
        "order", rows, methods=("self_route",), ks=(2, 64), document_encoder=HashingEncoder(),
        reading=Settings(max_retries=0, max_input_tokens=WINDOW),
    )  # fmt: skip
    assert summary["failed"] == 0
    assert all(len(call.prompt) <= WINDOW * 3 for call in server.calls)
    few, many = (
        sorted(row for row in map(_seen, items(tmp_path)) if row[0] == chunks) for chunks in (2, 64)
    )
    # Where the passages do not answer, the whole document is read, of which the middle is left out.
    assert few == [(2, "q0", "self_route", False), (2, "q1", "long_context", True)]
    assert many == [(64, "q0", "self_route", True), (64, "q1", "long_context", True)]
    first = next(
        call for call in server.calls if "compound 0" in call.user and len(call.documents) > 2
    )
    ranked = next(row["documents"] for row in items(tmp_path) if _seen(row)[:2] == (64, "q0"))
    assert 2 < len(first.documents) < len(ranked)
    report = (tmp_path / "run" / "report.md").read_text()
    assert "| 64 | 2 | " in report
    assert "Chunks end with the sentence nearest to 128 tokens" in report


def _seen(row: dict[str, Any]) -> tuple[int, str, str, bool]:
    return row["condition"]["chunks"], row["item"], row["route"], row["truncated"]


def test_cost_evaluates_the_papers_equations_beside_what_was_used(
    execute: Execute, tmp_path: Path
) -> None:
    names = ("vanilla", "map_reduce", "briefcontext")
    summary = execute("cost", _rows(6, keyed=6), methods=names, ks=(8,), prices=Prices(2.0, 6.0))
    predicted = {one["method"]: one for one in summary["predictions"]}
    costs = {one["method"]: one for one in summary["costs"]}
    vanilla, mapped = predicted["vanilla"], predicted["map_reduce"]
    assert vanilla["n_ins"] > 0
    assert vanilla["n_con"] > 0
    assert vanilla["predicted_input"] == pytest.approx(costs["vanilla"]["input_tokens"])
    assert vanilla["n_con"] + vanilla["n_ins"] == pytest.approx(vanilla["predicted_input"])
    assert (
        vanilla["predicted_output"]
        == vanilla["n_out"]
        == pytest.approx(costs["vanilla"]["output_tokens"])
    )
    assert mapped["partitions"] == 2
    assert mapped["predicted_input"] == pytest.approx(vanilla["n_con"] + 2 * vanilla["n_ins"])
    assert mapped["predicted_output"] == pytest.approx(3 * vanilla["n_out"])
    assert mapped["input_tokens"] == costs["map_reduce"]["input_tokens"]
    assert mapped["reduce_input"] == costs["map_reduce"]["reduce_input"] > 0
    assert mapped["predicted_cost"] == pytest.approx(
        (2 * mapped["predicted_input"] + 6 * mapped["predicted_output"]) / 1e6
    )
    assert mapped["cost"] == pytest.approx(
        (2 * mapped["input_tokens"] + 6 * mapped["output_tokens"]) / 1e6
    )
    saved = {one["what"]: one for one in summary["savings"]}
    assert list(saved) == ["input tokens", "output tokens", "cost"]
    for what, one in saved.items():
        if what != "cost":
            used = [costs[name][what.replace(" ", "_")] for name in ("briefcontext", "map_reduce")]
            assert one["saved"] == pytest.approx(1 - used[0] / used[1])
    report = (tmp_path / "run" / "report.md").read_text()
    assert "### Predicted by the equations, and used" in report
    assert "### Saved by the preflight" in report
