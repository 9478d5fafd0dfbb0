"""Pairs of answers for raters, verdicts, and a model judge."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.open_ended import agreement, consensus, outcomes_of
from briefcontext.evaluation.judging.pairs import (
    Verdict,
    judge_pairs,
    kept_verdicts,
    make_pairs,
    write_sheets,
)
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.evaluation.runs.compare import compare_runs
from briefcontext.evaluation.runs.run import Run
from briefcontext.evaluation.runs.settings import RunSettings
from briefcontext.graphs.settings import Settings
from tests.openai_server import Call, OpenAIServer, Reply
from tests.questions import build_corpus, open_corpus, question

COUNT = 8


def row(item: str, method: str, text: str) -> dict[str, Any]:
    condition = {"k": 4}
    return {
        "id": f"{item}|{method}",
        "item": item,
        "method": method,
        "condition": condition,
        "status": "ok",
        "question": f"What of {item}?",
        "text": text,
    }


ROWS = [
    row(f"q{n}", method, f"{method} says {n}")
    for n in range(40)
    for method in ("vanilla", "briefcontext")
]


@pytest.fixture
def run(tmp_path: Path, server: OpenAIServer) -> Run:
    server.script = lambda call: Reply(
        f"An answer of {'one call' if call.documents else 'no document'}."
    )
    rows = [{"id": f"q{n}", "question": question(n)} for n in range(COUNT)]
    (tmp_path / "open.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_corpus(tmp_path / "corpus", COUNT)
    chat = ChatOpenAI(model="scripted", base_url=server.url, api_key="none", max_retries=0)
    return Run(
        RunSettings(
            "open_ended",
            f"jsonl:{tmp_path / 'open.jsonl'}",
            model=chat,
            knowledge_base=open_corpus(str(tmp_path / "corpus")),
            ks=(4,),
            methods=("vanilla", "closed_book"),
            reading=Settings(max_retries=0),
        )
    )


@pytest.mark.parametrize("methods", [("vanilla",), ("vanilla", "closed_book", "map_reduce")])
def test_answers_of_other_than_two_methods_make_no_pairs_and_none_is_paid_for(
    run: Run, server: OpenAIServer, methods: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match=f"two methods, got {len(methods)}"):
        Run(replace(run.settings, methods=methods))
    assert server.calls == []


def test_which_answer_is_whose_is_drawn_by_the_seed_and_not_told(tmp_path: Path) -> None:
    pairs = make_pairs(ROWS, "vanilla", "briefcontext", seed=1)[0]
    assert pairs == make_pairs(ROWS, "vanilla", "briefcontext", seed=1)[0]
    assert [pair.id for pair in pairs] != [
        pair.id for pair in make_pairs(ROWS, "vanilla", "briefcontext", seed=2)[0]
    ]
    assert 8 < sum(pair.methods["A"] == "vanilla" for pair in pairs) < 32
    assert [pair.question for pair in pairs] != sorted(pair.question for pair in pairs)
    for pair in pairs:
        assert pair.a.startswith(pair.methods["A"])
        assert "vanilla" not in pair.id
    blind = [row(r["item"], r["method"], str(n)) for n, r in enumerate(ROWS)]
    write_sheets(tmp_path, make_pairs(blind, "vanilla", "briefcontext", seed=1)[0], simulated=False)
    for name in ("pairs.csv", "pairs.html"):
        text = (tmp_path / name).read_text()
        assert "briefcontext" not in text
        assert "vanilla" not in text


def test_hostile_answers_stay_text_on_the_page_and_in_the_sheet(tmp_path: Path) -> None:
    attack = '</div><script>alert(1)</script><img src=x onerror="alert(1)">'
    rows = [row("q1", "vanilla", attack), row("q1", "briefcontext", "=cmd|' /C calc'!A0")]
    write_sheets(tmp_path, make_pairs(rows, "vanilla", "briefcontext", seed=0)[0], simulated=True)
    page = (tmp_path / "pairs.html").read_text()
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "SIMULATION" in page
    assert "http" not in page.replace("http-equiv", "")
    (sheet,) = csv.DictReader(io.StringIO((tmp_path / "pairs.csv").read_text(), newline=""))
    assert {sheet["answer A"], sheet["answer B"]} == {attack, "'=cmd|' /C calc'!A0"}


def test_verdicts_are_taken_in_and_counted_for_each_rater(
    tmp_path: Path, run: Run, server: OpenAIServer
) -> None:
    out = tmp_path / "run"
    run.execute(out)
    key = json.loads((out / "key.json").read_text())
    assert len(key) == COUNT
    lines = ["pair,verdict,rater"]
    for number, (pair, methods) in enumerate(key.items()):
        better = next(side for side, method in methods.items() if method == "closed_book")
        lines.append(f"{pair},{better if number < 6 else 'tie'},one")
        lines.append(f"{pair},{'' if number else 'Tie'},two")
    (tmp_path / "filled.csv").write_text("\n".join([*lines, "gone,A,one"]) + "\n")
    count = len(server.calls)
    assert run.take_verdicts(out, tmp_path / "filled.csv") == COUNT + 2
    assert len(server.calls) == count
    one, two = json.loads((out / "summary.json").read_text())["verdicts"]
    assert (one["rater"], one["n"], one["win"], one["tie"], one["lose"]) == ("one", 8, 6, 2, 0)
    assert one["unknown_pairs"] == 1
    assert one["p"] == pytest.approx(2 * 0.5**6)
    assert (two["rater"], two["n"], two["tie"]) == ("two", 1, 1)
    assert "| one | 8 | 6 / 2 / 0 |" in (out / "report.md").read_text()
    assert "| run | one | 8 | 6 / 2 / 0 |" in compare_runs([out])


NO_VERDICTS = {
    "a,b\n1,2\n": "no columns",
    "pair\nx\n": "no columns 'pair' and 'verdict'",
    "pair,verdict\nx,C\n": "Write A, B or tie",
    "on a pair, or both;pair;verdict\n;x;C\n": "Write A, B or tie",
    "pair,verdict\nx,A\n": "no verdict on a pair of this run",
}
"""What a file may hold instead of verdicts, and what is said of it."""


def test_a_file_that_holds_no_verdicts_is_refused(tmp_path: Path, run: Run) -> None:
    run.execute(tmp_path / "run")
    for content, complaint in NO_VERDICTS.items():
        (tmp_path / "bad.csv").write_text(content)
        with pytest.raises(InputError, match=complaint):
            run.take_verdicts(tmp_path / "run", tmp_path / "bad.csv")


def verdict_file(
    file: Path, key: dict[str, Any], verdict: str, rater: str = "", *, mark: str = ","
) -> Path:
    file.parent.mkdir(exist_ok=True)
    with file.open("w", encoding="utf-8-sig", newline="") as sheet:
        writer = csv.writer(sheet, delimiter=mark)
        writer.writerow(["pair", "question", "verdict (A, B or tie)", "rater", "comment"])
        writer.writerows([pair, "Is it, or not?", verdict, rater, ""] for pair in key)
    return file


def counted(out: Path) -> dict[str, tuple[int, int, int]]:
    verdicts = json.loads((out / "summary.json").read_text())["verdicts"]
    return {v["rater"]: (v["n"], v["tie"], v["changed"]) for v in verdicts}


def test_identical_answers_are_ties_and_not_given_to_raters(
    tmp_path: Path, run: Run, server: OpenAIServer
) -> None:
    answering, same = server.script, run.items[0].question
    server.script = lambda call: Reply("The same.") if same in call.user else answering(call)
    out = tmp_path / "run"
    summary = run.execute(out)
    key = json.loads((out / "key.json").read_text())
    assert (summary["identical"], summary["pairs"], len(key)) == (1, COUNT - 1, COUNT - 1)
    assert same not in (out / "pairs.csv").read_text()
    run.take_verdicts(out, verdict_file(tmp_path / "v.csv", key, "A", "one"))
    assert counted(out)["one"][:2] == (COUNT, 1)


def test_a_judge_that_prefers_a_side_decides_nothing(tmp_path: Path, server: OpenAIServer) -> None:
    pairs = make_pairs(ROWS[:12], "vanilla", "briefcontext", seed=0)[0]

    def prefer_longer(call: Call) -> Reply:
        a, b = (call.user.partition(f"<answer {side}>\n")[2].split("\n")[0] for side in "AB")
        return Reply(f"It says more.\nVerdict: {'A' if len(a) > len(b) else 'B'}")

    chat = ChatOpenAI(model="judge", base_url=server.url, api_key="none", max_retries=0)
    models = [RunModels(chat, replies=tmp_path / f"{number}.sqlite") for number in range(2)]
    server.script = lambda call: Reply("The first is clearer.\nVerdict: A")
    judge_pairs(tmp_path, pairs, models[0], "judge", Settings())
    unclear = kept_verdicts(tmp_path)
    assert {(verdict.verdict, bool(verdict.comment)) for verdict in unclear} == {("tie", True)}

    server.script = prefer_longer
    judge_pairs(tmp_path, pairs, models[1], "judge", Settings())
    by_id = {pair.id: pair for pair in pairs}
    for verdict in kept_verdicts(tmp_path):
        assert by_id[verdict.pair].methods[verdict.verdict] == "briefcontext"
    assert len(server.calls) == 4 * len(pairs)


@pytest.mark.slow
@pytest.mark.parametrize("reply", ["1", "Better: 1", "Verdict: neither is wrong"])
def test_a_judge_whose_replies_state_no_verdict_is_counted_apart_and_ties_nothing(
    tmp_path: Path, run: Run, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    out = tmp_path / "run"
    run.execute(out)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    unread = run.items[0].question
    server.script = lambda call: Reply(reply if unread in call.user else "Verdict: tie")
    run.judge(out, "openai:judge")
    (judge,) = json.loads((out / "summary.json").read_text())["verdicts"]
    assert [judge[name] for name in ("n", "win", "tie", "lose", "unclear", "unknown_pairs")] == [
        7,
        0,
        7,
        0,
        1,
        0,
    ]

    server.script = lambda call: Reply(reply)
    run.judge(out, "openai:another")
    assert (
        "| judge openai:another | 0 | 0 / 0 / 0 | – / – / – | – | 1.000 | 1.000 | 8 | 0 |"
        in (out / "report.md").read_text()
    )


KEY = {f"p{n}": {"A": "vanilla", "B": "briefcontext"} for n in range(24)}


def _said(rater: str, words: str) -> list[Verdict]:
    """Verdicts of a rater on the pairs in order: w, t or l for the second method."""
    return [
        Verdict(f"p{n}", {"w": "B", "l": "A", "t": "tie"}[word], rater)
        for n, word in enumerate(words)
    ]


@pytest.mark.parametrize(
    ("raters", "agreed"),
    [("ww", "win"), ("wl", "tie"), ("wt", "tie"), ("llw", "lose"), ("wlt", "tie")],
)
def test_the_consensus_is_what_more_than_half_say(raters: str, agreed: str) -> None:
    verdicts = [verdict for n, word in enumerate(raters) for verdict in _said(f"r{n}", word)]
    assert consensus(outcomes_of(verdicts, KEY, "briefcontext")) == {"p0": agreed}


def test_the_agreement_of_two_raters_is_cohens_kappa() -> None:
    first, second = "wwwwwwwttttttttttlll", "wwwwwwtttttttwwlllll"
    outcomes = outcomes_of([*_said("a", first), *_said("b", second)], KEY, "briefcontext")
    found = agreement(outcomes, ["a", "b"])
    alike = sum(a == b for a, b in zip(first, second, strict=True)) / 20
    chance = sum(first.count(word) * second.count(word) for word in "wtl") / 400
    assert found is not None
    assert (found["name"], found["pairs"]) == ("Cohen's kappa", 20)
    assert found["kappa"] == pytest.approx((alike - chance) / (1 - chance))
    assert found["low"] < found["kappa"] < found["high"]
    assert agreement(outcomes_of(_said("a", "www"), KEY, "briefcontext"), ["a"]) is None
    same = agreement(
        outcomes_of([*_said("a", "www"), *_said("b", "www")], KEY, "briefcontext"), ["a", "b"]
    )
    assert same is not None
    assert same["kappa"] is None
