"""Which passages are shown without a model, and whether it abstains where the base has no answer.

Passages of BioASQ, PubMedQA and other collections are searched by hybrid search with the defaults.

- BioASQ, PubMedQA: first = the share of answers whose first passage is of an answering article;
  cited = the share of answering articles among those shown; found = an answering article is among
  the 16 retrieved; wrong = the share of these questions that are refused. "gold out" asks with the
  answering articles taken out: right = the share that is refused. Some of these questions are
  answered by articles that are not marked.
- the same on bases of 3,000, 300 and 15 passages, with fewer questions each.
- demo: the demo's questions; those on BioASQ and PubMedQA, of which it answers next to none.
- drugs: side effects of 30 invented drugs, of which the base has side effects of the other half
  only: other = the share of questions that show a passage about another drug.

Half of the questions, by their ids, are for fitting (tuned); figures to quote are those of the
other half (held out). With `--fit`, the weights of the passage ranker are fitted on the tuned half,
at four sizes of the base, and written.

    python benchmarks/passages.py [--data ../shared/data] [--encoder e5] [--distractors 9583]
        [--questions 800] [--cache DIR] [--fit] [--json FILE]

Encoding takes hours with e5, and half an hour with minilm, on two cores; with --cache only once.
"""

import json
import random
import statistics
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from parts.corpora import CachedEncoder, Question, read_passages, read_questions
from parts.report import Row, options, show, write
from pydantic import SkipValidation
from sklearn.linear_model import LogisticRegression

from briefcontext.chains.passage_reader import PassageReader
from briefcontext.graphs.graph import build_graph
from briefcontext.knowledge import demo_questions
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.knowledge_base import retriever_over
from briefcontext.retrievers.passage_ranking import FEATURES, OTHER_ENCODER, PassageRanker
from briefcontext.retrievers.ranking_retriever import RankingRetriever

HALVES = ("tuned", "held out")
SMALL, SMALL_QUESTIONS = 300, 30
MIDDLE, MIDDLE_QUESTIONS = 3000, 300
TINY, TINY_QUESTIONS = 15, 3
WRONG = 0.05
"""The share of answerable questions that may be refused, by which the threshold is chosen."""
WEIGHTS = Path(__file__).parents[1] / "retrievers" / "passage_weights.json"
Base = tuple[RankingRetriever, PassageReader, list[Question]]


class WithoutGold(RankingRetriever):
    """Retrieves as another retriever does, as if some sources were missing."""

    retriever: RankingRetriever
    left_out: SkipValidation[dict[str, frozenset[str]]]
    """The sources to leave out, by question."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        return self.retriever.term_statistics

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        left_out = self.left_out[query]
        found = self.retriever.invoke(query, k=k + len(left_out), filters=filters)
        return [document for document in found if document.metadata["source_id"] not in left_out][
            :k
        ]


def half_of(id: str) -> str:
    """The half that a question belongs to."""
    return HALVES[zlib.crc32(id.encode()) % 2]


def without_gold(retriever: RankingRetriever, questions: Iterable[Question]) -> WithoutGold:
    """The retriever, as if the base lacked the articles that answer each question."""
    return WithoutGold(
        retriever=retriever, left_out={question.text: question.gold for question in questions}
    )


def outcomes(
    retriever: RankingRetriever, reader: PassageReader, questions: Sequence[Question]
) -> list[Row]:
    """The measures of each question's answer, by name."""
    graph = build_graph(reader=reader, retriever=retriever)
    rows: list[Row] = []
    for question in questions:
        state = graph.invoke({"question": question.text}, output_keys=["answer", "ranking"])
        cited = [
            citation["source_id"] in question.gold for citation in state["answer"]["citations"]
        ]
        found = any(
            document.metadata["source_id"] in question.gold for document in state["ranking"]
        )
        row: Row = {"refused": state["answer"]["abstained"], "found": found, "passages": len(cited)}
        if cited:
            row |= {"first": cited[0], "cited": statistics.fmean(cited)}
        if found:
            row |= {"wrong": state["answer"]["abstained"], "right of all": bool(cited) and cited[0]}
        rows.append(row)
    return rows


def means(group: str, documents: str, rows: Sequence[Row]) -> Row:
    """The mean of each measure over the questions that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    averages = {
        name: statistics.fmean(float(row[name]) for row in rows if name in row) for name in names
    }
    return {"questions on": group, "documents": documents, "n": len(rows)} | averages


def on_bases(group: str, bases: Iterable[Base]) -> list[Row]:
    """Ask with the answering articles in the base and without them, held-out questions last."""
    parts: dict[tuple[str, str], list[Row]] = {}
    for retriever, reader, questions in bases:
        for documents, searched in (
            ("all", retriever),
            ("gold out", without_gold(retriever, questions)),
        ):
            for half in HALVES:
                some = [question for question in questions if half_of(question.id) == half]
                parts.setdefault((half, documents), []).extend(outcomes(searched, reader, some))
    return [
        {"half": half} | means(group, documents, rows)
        for (half, documents), rows in sorted(parts.items())
        if rows
    ]


@contextmanager
def opened(
    folder: Path, passages: Sequence[Document], questions: list[Question], encoder: Any
) -> Iterator[Base]:
    """A base over passages, with its retriever and its reader, while it is open."""
    build_knowledge_base(passages, folder, encoder=encoder)
    with KnowledgeBase.open(folder, encoder=encoder) as base:
        encoder.encode_queries([question.text for question in questions])
        ranker = PassageRanker(base.term_statistics, encoder.name)
        yield retriever_over(base, "hybrid"), PassageReader(ranker), questions


def sampled(
    size: int, n_questions: int, passages: Sequence[Document], questions: Sequence[Question]
) -> Iterator[tuple[list[Document], list[Question]]]:
    """Batches of questions, each with a random base that holds what answers them."""
    rng = random.Random(0)
    for start in range(0, len(questions), n_questions):
        asked = questions[start : start + n_questions]
        gold = {id for question in asked for id in question.gold}
        held = [passage for passage in passages if passage.metadata["source_id"] in gold]
        rest = [passage for passage in passages if passage.metadata["source_id"] not in gold]
        yield held + rng.sample(rest, min(len(rest), max(0, size - len(held)))), list(asked)


def fit(bases: Sequence[Base], encoder_name: str) -> None:
    """Fit the weights on the tuned half of the questions, and write them."""
    fitted = json.loads(WEIGHTS.read_text())
    for name in (encoder_name, OTHER_ENCODER):
        if name == OTHER_ENCODER and encoder_name != "e5":
            continue
        # Before its weights exist, an encoder's features are those of other encoders.
        fitted.setdefault(name, fitted[OTHER_ENCODER])
        examples, labels, by_question = [], [], []
        for place, (retriever, _, questions) in enumerate(bases):
            ranker = PassageRanker(
                retriever.term_statistics, name if name != OTHER_ENCODER else None
            )
            tuned = [question for question in questions if half_of(question.id) == HALVES[0]]
            for searched in (retriever, without_gold(retriever, tuned)):
                for question in tuned:
                    documents = searched.invoke(question.text)
                    features, specific = ranker.features(question.text, documents)
                    gold = np.array(
                        [document.metadata["source_id"] in question.gold for document in documents]
                    )
                    examples.append(features[specific])
                    labels.append(gold[specific])
                    if place == 0 and gold.any():
                        by_question.append(features[specific])
        model = LogisticRegression(C=1e6, max_iter=10_000).fit(
            np.concatenate(examples), np.concatenate(labels)
        )
        best = [
            model.decision_function(some).max() if len(some) else -np.inf for some in by_question
        ]
        odds = np.sort(best)[int(WRONG * len(best))]
        fitted[name] = {
            "intercept": round(float(model.intercept_[0]), 3),
            **{
                feature: round(float(weight), 3)
                for feature, weight in zip(FEATURES, model.coef_[0], strict=True)
            },
            "threshold": round(float(1 / (1 + np.exp(-odds))), 3),
        }
    WEIGHTS.write_text(json.dumps(fitted, indent=2) + "\n")
    print(WEIGHTS.read_text())


def drugs(n_without: int = 30, n_with: int = 10) -> tuple[list[Document], list[Question]]:
    """Passages on invented drugs, and a question on the side effects of each that has none in them.

    The gold of a question is all that is about its drug.
    """
    rng = random.Random(0)
    syllables = [
        "zor",
        "tel",
        "qui",
        "bran",
        "oxa",
        "mir",
        "kel",
        "dov",
        "fen",
        "lar",
        "nep",
        "pul",
        "sil",
        "tro",
    ]
    illnesses = [
        "chronic migraine",
        "atrial fibrillation",
        "plaque psoriasis",
        "type 2 diabetes",
        "osteoporosis",
    ]
    names = [
        "".join(rng.sample(syllables, 2)) + rng.choice(["vanib", "lumab", "prazole", "statin"])
        for _ in range(n_without + n_with)
    ]
    passages, questions = [], []
    for place, name in enumerate(names):
        drug, illness = name.capitalize(), rng.choice(illnesses)
        texts = {
            f"{drug} for {illness}": f"{drug} is approved for adults with {illness} who did not "
            f"respond to the first treatment. In two trials {name} reduced symptoms within twelve "
            f"weeks compared with placebo.",
            f"Dose of {name}": f"The usual dose of {name} is {rng.choice([5, 10, 50])} mg once a "
            f"day with food.",
            f"Mechanism of {name}": f"{drug} binds to its receptor and blocks the signal. Its "
            f"half-life is 14 hours.",
            f"{drug} in pregnancy": f"There are no studies of {name} in pregnant women.",
        }
        if place >= n_without:
            texts[f"Safety of {name}"] = (
                f"Common side effects of {name} are nausea and dizziness. Serious adverse events "
                f"occurred in 3% of "
                f"the patients who took {name}."
            )
        ids = [f"{name}-{number}" for number in range(len(texts))]
        passages += [
            Document(text, id=id, metadata={"source_id": id, "title": title})
            for id, (title, text) in zip(ids, texts.items(), strict=True)
        ]
        if place < n_without:
            ask = rng.choice(
                ["What are the side effects of {}?", "Which side effects does {} have?"]
            )
            questions.append(Question(name, ask.format(name), frozenset(ids)))
    return passages, questions


def on_drugs(folder: Path, encoder: Any) -> Row:
    """Ask for side effects that the base has of other drugs only."""
    passages, questions = drugs()
    with opened(folder, passages, questions, encoder) as (retriever, reader, _):
        rows = outcomes(retriever, reader, questions)
    other = [row.get("cited", 1.0) < 1 for row in rows]
    shown = means("side effects of 30 drugs", "none with them", rows)
    return {name: shown[name] for name in ("questions on", "documents", "n", "refused")} | {
        "another drug": statistics.fmean(other)
    }


def on_demo(others: Iterable[Question]) -> list[Row]:
    """Ask the demo's questions, and others that it can hardly answer."""
    own = [
        Question(row["id"], row["question"], frozenset(row["gold_ids"])) for row in demo_questions()
    ]
    asked = {
        ("demo", "all"): [question for question in own if question.gold],
        ("demo", "no answer"): [question for question in own if not question.gold],
        ("BioASQ and PubMedQA", "demo"): [
            Question(each.id, each.text, frozenset()) for each in others
        ],
    }
    with KnowledgeBase.open("demo") as base:
        retriever = retriever_over(base, "hybrid")
        reader = PassageReader(PassageRanker(base.term_statistics, base.manifest.encoder.name))
        return [means(*names, outcomes(retriever, reader, some)) for names, some in asked.items()]


def measure(given: Any, work: Path) -> list[Row]:
    """All rows of the table."""
    encoder: Any = CachedEncoder(load_encoder(given.encoder), given.cache or work / "cache")
    passages = read_passages(given.data)
    n_gold = sum(not str(passage.id).startswith(("s2:", "pmc:", "med:")) for passage in passages)
    passages = passages[: n_gold + given.distractors]
    asked = {}
    for group in ("BioASQ", "PubMedQA"):
        questions = read_questions(given.data, group.lower())
        # Neighbours in the file are of one year's batch.
        asked[group] = sorted(questions, key=lambda question: zlib.crc32(question.text.encode()))[
            : given.questions
        ]
    everything = [question for questions in asked.values() for question in questions]
    with ExitStack() as stack:
        whole = stack.enter_context(opened(work / "whole", passages, everything, encoder))
        tiny, small, middle = (
            [
                stack.enter_context(opened(work / f"{size}-{place}", held, some, encoder))
                for place, (held, some) in enumerate(
                    sampled(size, n, passages, asked["BioASQ"][:300])
                )
            ]
            for size, n in (
                (TINY, TINY_QUESTIONS),
                (SMALL, SMALL_QUESTIONS),
                (MIDDLE, MIDDLE_QUESTIONS),
            )
        )
        if given.fit:
            fit([whole, *middle, *small, *tiny], encoder.name)
            return []
        retriever, reader, _ = whole
        rows = [
            row
            for group, some in asked.items()
            for row in on_bases(group, [(retriever, reader, some)])
        ]
        rows += on_bases(f"BioASQ, {MIDDLE:,} passages", middle)
        rows += on_bases(f"BioASQ, {SMALL} passages", small)
        rows += on_bases(f"BioASQ, {TINY} passages", tiny)
    return [*rows, *on_demo(everything[:300]), on_drugs(work / "drugs", encoder)]


def main() -> None:
    """Measure, print the table, and write the figures; or fit the weights."""
    parser = options(__doc__, "--data", "--cache", "--json")
    parser.add_argument("--encoder", default="e5", help="%(default)s")
    parser.add_argument(
        "--questions", type=int, default=800, help="of BioASQ and of PubMedQA: %(default)s"
    )
    parser.add_argument(
        "--distractors", type=int, default=9583, help="abstracts of other collections: %(default)s"
    )
    parser.add_argument("--fit", action="store_true", help="fit the weights and write them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="passages-") as folder:
        rows = measure(given, Path(folder))
    if not given.fit:
        show("Passages without a model", rows, {"passages": ".1f"})
        write(given.json, rows)


if __name__ == "__main__":
    main()
