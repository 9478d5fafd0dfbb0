"""The preflight check: the overlap and a calibration, their transfer, and their time.

The questions are BioASQ's yes/no questions and PubMedQA's of the split train, over BioASQ's
passages, PubMedQA's abstracts and abstracts of other collections; the encoder is minilm, or with
--rankings another. The shipped signals were chosen on all of these questions and BioASQ's others
(factoid, list, summary), so these figures flatter a little. Coefficients, regularisation and
thresholds never see the questions that they are measured on.

- which ranking: the fused or dense order of hybrid search's 16 documents, and the dense ranking's
  16, compared with BM25's at each possible overlap. A key document is misplaced below 3 or when it
  was not retrieved; one call = the share of questions whose rankings agree.
- nested: IoU and calibrated on the same questions, the latter by nested cross-validation. Positives
  are key documents ranked below 3, or those and the ones that were not retrieved.
- promised and reached: how often the recall of new questions reaches the target, in simulation.
- transfer: fitted on one data set and measured on another.
- latency: milliseconds from retrieved documents to the decision, without encoding and search.

    python benchmarks/preflight.py [--data ../shared/data] [--kb DIR] [--work DIR] [--json FILE]
    python benchmarks/preflight.py --rankings e5 [--cache DIR]

Without --kb it builds the knowledge base in --work (24,000 passages: some minutes on two cores).
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from langchain_core.documents import Document
from parts.corpora import CachedEncoder, read_passages, read_questions
from parts.measured import timed
from parts.report import Row, options, show, write
from sklearn.metrics import roc_auc_score

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.preflight import decisions_table, measured
from briefcontext.evaluation.statistics.calibrate import CONFIDENCE, calibrate, fit
from briefcontext.evaluation.statistics.inference import count_decisions
from briefcontext.evaluation.statistics.labelled import LabelledQuestions, label_questions
from briefcontext.evaluation.statistics.tables import with_interval
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.steps import compare_rankings
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.calibration import Calibration, Positive
from briefcontext.retrievers.knowledge_base import retriever_over
from briefcontext.retrievers.rankings import (
    BM25Pool,
    TwoRankings,
    clear_top,
    dense_order,
    intersection_over_union,
)

KS = (16, 64)
MAIN = ("bioasq-yesno", "pubmedqa")
OTHER = ("bioasq-factoid", "bioasq-list", "bioasq-summary")
TARGETS = (0.93, 0.95)
_SHARES = ("recall", "specificity")
POSITIVES: tuple[Positive, ...] = ("ranked_below", "misplaced")


def measure(data: Path, folder: Path | None, work: Path) -> dict[str, list[Row]]:
    """Return all tables by title."""
    items = [
        Item(
            asked.id,
            asked.text,
            {},
            (),
            tuple(sorted(asked.gold)),
            group=f"{name}-{asked.kind}".rstrip("-"),
        )
        for name in ("bioasq", "pubmedqa")
        for asked in read_questions(data, name)
    ]
    if folder is None:
        folder = work / "minilm"
        build_knowledge_base(read_passages(data), folder, encoder=load_encoder("minilm"))
    with KnowledgeBase.open(folder) as base:
        at = label_questions(base, items, KS)
        main_at = {k: of_groups(labelled, MAIN) for k, labelled in at.items()}
        sixteen, rest = main_at[16], of_groups(at[16], OTHER)
        yesno, papers = of_groups(sixteen, MAIN[:1]), of_groups(sixteen, MAIN[1:])
        every_bioasq = of_groups(at[16], (MAIN[0], *OTHER))
        calibration = calibrate(sixteen, base.manifest, 0.95, positive="misplaced")[0]
        asked = [question.item.question for question in sixteen.questions[:200]]
        return {
            "nested cross-validation": [*nested(base, main_at), *nested(base, {16: rest})],
            "promised and reached, in simulation": promises(sixteen),
            "transfer (target recall 95%)": transfer(
                [
                    ("BioASQ yes/no", yesno, "PubMedQA", papers),
                    ("PubMedQA", papers, "BioASQ yes/no", yesno),
                    ("all BioASQ", every_bioasq, "PubMedQA", papers),
                    ("other BioASQ", rest, "BioASQ yes/no + PubMedQA", sixteen),
                ],
                0.95,
            ),
            "latency": latency(base, asked, calibration, KS),
        }


def which_ranking(data: Path, name: str, cache: Path, work: Path) -> list[Row]:
    """Return the accuracy of the overlap for each compared order."""
    encoder = CachedEncoder(load_encoder(name), cache)
    passages = read_passages(data)
    build_knowledge_base(passages, work / name, encoder=encoder)  # type: ignore[arg-type]
    asked = [question for question in read_questions(data, "bioasq") if question.kind == "yesno"]
    asked += read_questions(data, "pubmedqa")
    encoder.encode_queries([question.text for question in asked])
    orders: dict[str, Callable[[Sequence[Document]], Sequence[Document]]] = {
        "fused": list,
        "dense": dense_order,
    }
    found: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    with KnowledgeBase.open(work / name, encoder=encoder) as base:  # type: ignore[arg-type]
        for method, question in product(("hybrid", "dense"), asked):
            documents = retriever_over(base, method).invoke(question.text)
            ranks = [document.metadata["source_id"] in question.gold for document in documents]
            bm25 = BM25Pool(documents, base.term_statistics).scores(question.text)
            bm25_top = [documents[place].id for place in clear_top(bm25, 3)]
            for order, arrange in orders.items():
                top = [document.id for document in arrange(documents)[:3]]
                overlap = intersection_over_union(top, bm25_top) if bm25_top else 0.0
                found.setdefault((method, order), []).append((overlap, not any(ranks[:3])))
    rows: list[Row] = []
    for (method, order), pairs in found.items():
        overlaps, misplaced = (
            np.array([pair[0] for pair in pairs]),
            np.array([pair[1] for pair in pairs]),
        )
        if (method, order) == ("dense", "fused"):
            continue
        rows += [
            {
                "encoder": name,
                "search": method,
                "compared": order,
                "n": len(pairs),
                "misplaced": int(misplaced.sum()),
                "mapped up to": f"{delta:.1f}",
                "recall": float((overlaps[misplaced] <= delta).mean()),
                "specificity": float((overlaps[~misplaced] > delta).mean()),
                "one call": float((overlaps > delta).mean()),
                "auc": float(roc_auc_score(misplaced, -overlaps)),
            }
            for delta in (0.0, 0.2, 0.5)
        ]
    return rows


def of_groups(labelled: LabelledQuestions, groups: Iterable[str]) -> LabelledQuestions:
    """Return the questions of some data sets."""
    wanted = set(groups)
    return replace(labelled, questions=[q for q in labelled.questions if q.item.group in wanted])


def nested(base: KnowledgeBase, at: dict[int, LabelledQuestions]) -> list[Row]:
    """Return both checks on the same questions, if there are enough to fit."""
    rows = []
    for labelled, positive in product(at.values(), POSITIVES):
        held_out = None
        with suppress(InputError):
            _, held_out = calibrate(labelled, base.manifest, TARGETS[-1], positive=positive)
        table = decisions_table(measured(labelled, held_out, seed=0))
        rows += [
            {"fitted to": positive, **dict(zip(table.columns, row, strict=True))}
            for row in table.rows
        ]
    return rows


def promises(
    labelled: LabelledQuestions, *, fits: int = 200, n: int = 600, fresh: int = 20_000
) -> list[Row]:
    """Return how often the recall of new simulated questions reaches the target.

    The signals of either label are drawn from a normal distribution with the mean and covariance of
    the labelled questions.
    """
    values, labels = labelled.signals, labelled.misplaced
    with_label = {label: values[labels == label] for label in (True, False)}
    moments = {label: (some.mean(axis=0), np.cov(some.T)) for label, some in with_label.items()}
    rng = np.random.default_rng(0)
    reached: dict[float, list[float]] = {target: [] for target in TARGETS}
    for seed in range(fits):
        drawn = rng.random(n) < labels.mean()
        two = [rng.multivariate_normal(*moments[label], size=n) for label in (True, False)]
        features = np.where(drawn[:, None], *two)
        new = rng.multivariate_normal(*moments[True], size=fresh)
        for target, recalls in reached.items():
            model, threshold = fit(features, drawn, target, seed)
            recalls.append(float((model.decision_function(new) >= threshold).mean()))
    return [
        {"target": target, "fits": fits, "questions": n, "mean recall": float(np.mean(recalls)),
         "fits that reach it": float(np.mean(np.array(recalls) >= target)), "promised": CONFIDENCE}
        for target, recalls in reached.items()
    ]  # fmt: skip


def transfer(
    pairs: Sequence[tuple[str, LabelledQuestions, str, LabelledQuestions]], target: float
) -> list[Row]:
    """Fit and choose the threshold on some questions, and decide on others."""
    rows = []
    for fitted_on, inside, tested_on, outside in pairs:
        model, threshold = fit(inside.signals, inside.misplaced, target)
        log_odds = model.decision_function(outside.signals)
        counted = count_decisions(outside.misplaced, log_odds >= threshold)
        rows.append(
            {
                **{
                    "fitted on": fitted_on,
                    "misplaced": int(inside.misplaced.sum()),
                    "tested on": tested_on,
                },
                **{"n": len(outside.questions), "positive": int(outside.misplaced.sum())},
                **{
                    share: with_interval(counted[share], *counted[f"{share}_interval"])
                    for share in _SHARES
                },
                **{"precision": counted["precision"], "skip": counted["skip_share"]},
                "auc": float(roc_auc_score(outside.misplaced, log_odds)),
            }
        )
    return rows


def latency(
    base: KnowledgeBase, questions: Sequence[str], calibration: Calibration, ks: Sequence[int]
) -> list[Row]:
    """Return the milliseconds of the preflight, from retrieved documents to the decision."""
    vectors = base.encoder.encode_queries(list(questions))
    statistics, settings = base.term_statistics, Settings()

    def overlap(question: str, documents: Sequence[Document]) -> object:
        return compare_rankings(
            documents, BM25Pool(documents, statistics).scores(question), settings
        )

    def calibrated(question: str, documents: Sequence[Document]) -> object:
        rankings = TwoRankings.from_documents(question, documents, statistics)
        return compare_rankings(documents, rankings.bm25.tolist(), settings), calibration.predict(
            rankings
        )

    rows = []
    for k in ks:
        asked = list(
            zip(questions, (base.search_by_vector(vector, k) for vector in vectors), strict=True)
        )
        for name, decide in (("IoU", overlap), ("calibrated", calibrated)):
            decide(*asked[0])
            rows.append({"k": k, "preflight": name, **timed(decide, asked)[0]})
    return rows


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = options(__doc__, "--data", "--cache", "--work", "--json")
    parser.add_argument(
        "--kb", type=Path, help="a knowledge base over those passages, built with minilm"
    )
    parser.add_argument(
        "--rankings",
        metavar="ENCODER",
        help="only measure which ranking to compare, with an encoder",
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        if given.rankings:
            report = {
                "which ranking": which_ranking(
                    given.data, given.rankings, given.cache or work / "cache", work
                )
            }
        else:
            report = measure(given.data, given.kb, work)
    for title, rows in report.items():
        show(title, rows, dict.fromkeys(("median ms", "p95 ms", "CPU ms"), ".3f"))
    write(given.json, report)


if __name__ == "__main__":
    main()
