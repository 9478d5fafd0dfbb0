"""What the benchmark of the preflight measures, each as rows of a table."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
from langchain_core.documents import Document
from parts.measured import timed
from parts.report import Row
from sklearn.metrics import roc_auc_score

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.preflight import measured
from briefcontext.evaluation.experiments.preflight_report import decisions_table
from briefcontext.evaluation.statistics.calibrate import CONFIDENCE, calibrate, recall_threshold, tune
from briefcontext.evaluation.statistics.labelled import LabelledQuestions, count_decisions
from briefcontext.evaluation.statistics.tables import with_interval
from briefcontext.graphs.routing import compare_rankings
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.calibration import Calibration, Positive
from briefcontext.retrievers.rankings import BM25Pool, TwoRankings

TARGETS = (0.93, 0.95)
_SHARES = ("recall", "specificity")
POSITIVES: tuple[Positive, ...] = ("ranked_below", "misplaced")


def of_groups(labelled: LabelledQuestions, groups: Iterable[str]) -> LabelledQuestions:
    """Only the questions of some data sets."""
    wanted = set(groups)
    return replace(labelled, questions=[q for q in labelled.questions if q.item.group in wanted])


def nested(base: KnowledgeBase, at: dict[int, LabelledQuestions]) -> list[Row]:
    """Both checks on the same questions, as `experiment preflight` has them, where there are enough to fit on."""
    rows = []
    for labelled, positive in product(at.values(), POSITIVES):
        run, own = None, None
        with suppress(InputError):
            _, (run, *_), own = calibrate(labelled, base.manifest, TARGETS[-1], positive=positive)
        summary = measured(labelled, run, own, positive=positive, seed=0)
        table = decisions_table({"calibrated_reason": None, **summary})
        rows += [{"fitted to": positive, **dict(zip(table.columns, row, strict=True))} for row in table.rows]
    return rows


def promises(labelled: LabelledQuestions, *, fits: int = 200, n: int = 600, fresh: int = 20_000) -> list[Row]:
    """Fit on simulated questions, and count how often the true recall of new ones reaches the target.

    The signals of either label are drawn from a normal distribution with the mean and covariance that they have among
    the labelled questions.
    """
    values, labels = labelled.signals, labelled.misplaced
    with_label = {label: values[labels == label] for label in (True, False)}
    moments = {label: (some.mean(axis=0), np.cov(some.T)) for label, some in with_label.items()}
    rng = np.random.default_rng(0)
    reached: dict[float, list[float]] = {target: [] for target in TARGETS}
    for fit in range(fits):
        drawn = rng.random(n) < labels.mean()
        two = [rng.multivariate_normal(*moments[label], size=n) for label in (True, False)]
        features = np.where(drawn[:, None], *two)
        tuned = tune(features, drawn, fit)
        new = tuned.model.decision_function(rng.multivariate_normal(*moments[True], size=fresh))
        for target, recalls in reached.items():
            recalls.append(float((new >= recall_threshold(tuned.held_out[drawn], target)).mean()))
    return [
        {"target": target, "fits": fits, "questions": n, "mean recall": float(np.mean(recalls)),
         "fits that reach it": float(np.mean(np.array(recalls) >= target)), "promised": CONFIDENCE}
        for target, recalls in reached.items()
    ]  # fmt: skip


def transfer(pairs: Sequence[tuple[str, LabelledQuestions, str, LabelledQuestions]], target: float) -> list[Row]:
    """Fit and choose the threshold on some questions, and decide on others."""
    rows = []
    for fitted_on, inside, tested_on, outside in pairs:
        tuned = tune(inside.signals, inside.misplaced, 0)
        threshold = recall_threshold(tuned.held_out[inside.misplaced], target)
        log_odds = tuned.model.decision_function(outside.signals)
        counted = count_decisions(outside.misplaced, log_odds >= threshold)
        rows.append(
            {
                **{"fitted on": fitted_on, "misplaced": int(inside.misplaced.sum()), "tested on": tested_on},
                **{"n": len(outside.questions), "positive": int(outside.misplaced.sum())},
                **{share: with_interval(counted[share], *counted[f"{share}_interval"]) for share in _SHARES},
                **{"precision": counted["precision"], "skip": counted["skip_share"]},
                "auc": float(roc_auc_score(outside.misplaced, log_odds)),
            }
        )
    return rows


def latency(base: KnowledgeBase, questions: Sequence[str], calibration: Calibration, ks: Sequence[int]) -> list[Row]:
    """Milliseconds of the preflight, from documents that are retrieved to the decision."""
    vectors = base.encoder.encode_queries(list(questions))
    statistics, settings = base.term_statistics, Settings()

    def overlap(question: str, documents: Sequence[Document]) -> object:
        return compare_rankings(documents, BM25Pool(documents, statistics).scores(question), settings)

    def calibrated(question: str, documents: Sequence[Document]) -> object:
        rankings = TwoRankings.of(question, documents, statistics)
        return compare_rankings(documents, rankings.bm25.tolist(), settings), calibration.predict(rankings)

    rows = []
    for k in ks:
        asked = list(zip(questions, (base.search_by_vector(vector, k) for vector in vectors), strict=True))
        for name, decide in (("IoU", overlap), ("calibrated", calibrated)):
            decide(*asked[0])
            rows.append({"k": k, "preflight": name, **timed(decide, asked)[0]})
    return rows
