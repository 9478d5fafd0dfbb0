"""The papers' controlled experiments: the key document among documents that are chosen, and chunks of a document."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import PER_CLASS, Item
from briefcontext.evaluation.experiments.corpus import LongDocuments
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, OnCorpus, Report
from briefcontext.evaluation.figures.plots import bar_plot, line_plot
from briefcontext.evaluation.methods.method import Reading
from briefcontext.evaluation.statistics.comparison import compare_conditions, correct
from briefcontext.evaluation.statistics.inference import bootstrap_spread, spread, spread_test
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    P_VALUES,
    Columns,
    N,
    Row,
    answered,
    by_method,
    grouped,
    interval_of,
    scored,
)
from briefcontext.knowledge.chunking import CHUNK_TOKENS

PERCENTILES = (0, 25, 50, 75, 100)
"""Where the key document is put (BriefContext, controlled experiment)."""
COMPANIES = ("neighbours", "random")
_SPREADS: Columns = {
    **METHOD,
    "k": itemgetter("k"),
    **N,
    "Spread [95% CI]": interval_of("spread"),
    "Best / worst": lambda one: f"{one['best']} / {one['worst']}",
    **P_VALUES,
}
_SPREADS_NOTE = (
    "Best position minus worst, in percentage points, over questions answered at all positions. A "
    "largest "
    "difference of noisy means is never negative, and the interval is that of the bootstrap's largest sampling "
    "error, and none (–) where no score differs; where it holds 0 the positions may be alike. p: "
    "how often "
    "shuffling each question's scores over the positions spreads them as far."
)


def key_place(percentile: int, k: int) -> int:
    """Return the place, from 0, of a percentile of `k` places; halves go to the even neighbour."""
    return round(percentile / 100 * (k - 1))


class Controlled(OnCorpus):
    """The first key document of a question at a place among others that are no key documents."""

    ks: ClassVar[tuple[int, ...]] = (8, 16)
    needs_key: ClassVar[bool] = True
    per_class: ClassVar[int | None] = PER_CLASS

    def placed(self, item: Item, percentile: int, others: Sequence[Document]) -> Reading:
        """Return the others, in their order, with the key document at a percentile of the places."""
        reading, place = self.base_reading(item), key_place(percentile, len(others) + 1)
        key = reading.key_documents[0]
        return replace(
            reading, documents=[*others[:place], key, *others[place:]], key_documents=[key]
        )


class Position(Controlled):
    """The key document at five places of the same ranking, for every method alike."""

    name = "position"
    title = "Position of the key document"
    question = "How does accuracy change with the place of the key document among k documents?"
    methods: ClassVar[tuple[str, ...]] = ("vanilla", "map_reduce", "briefcontext")

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """Five places for each k."""
        if min(ks) < len(PERCENTILES):
            raise InputError(
                f"Among {min(ks)} documents there are no {len(PERCENTILES)} different places for "
                f"the key document, so "
                f"that its positions cannot be told apart. Give --k {len(PERCENTILES)} or more."
            )
        return [{"k": k, "position": position} for k in ks for position in PERCENTILES]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        return self.placed(
            item, condition["position"], self.corpus.neighbours(item, condition["k"] - 1)
        )

    def report(self, report: Report) -> None:
        """Score by position and on average, which is the papers' headline, spread, and tests against vanilla."""
        found = report.scores("by position of the key document")
        far = spreads(report.rows, seed=report.seed)
        report.show("spread", far, "Spread over positions", _SPREADS, _SPREADS_NOTE)
        report.scores("on average over the positions", "means", by=("k",))
        report.tests("Against vanilla RAG, mean over the positions", "mean_comparisons", by=("k",))
        report.tests()
        label = "Position of the key document (percentile)"
        report.draw(line_plot, found, x="position", panel="k", x_label=label, x_ticks=PERCENTILES)


class ContextLength(Controlled):
    """The key document at five places among more and more of the question's nearest neighbours."""

    name = "context_length"
    title = "Length of the context"
    question = (
        "How does accuracy change with the number of documents, the key document always among them?"
    )
    methods = ("closed_book", "oracle", "vanilla", "map_reduce", "briefcontext")
    ks = (2, 4, 8, 16, 32, 64)

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """The five places for each number of documents; fewer than five documents have fewer places."""
        return [
            {"documents": k, "position": position}
            for k in ks
            for position in sorted(
                {key_place(position, k): position for position in PERCENTILES[::-1]}.values()
            )
        ]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        return self.placed(
            item, condition["position"], self.corpus.neighbours(item, condition["documents"] - 1)
        )

    def base_reading(self, item: Item) -> Reading:
        """Take the first key document, for the oracle, too."""
        reading = super().base_reading(item)
        return replace(reading, key_documents=reading.key_documents[:1])

    def report(self, report: Report) -> None:
        """Score by number of documents, over the places on average, with closed book and oracle as bounds."""
        shortest, *longer = report.config["ks"]
        found = report.scores("by number of documents", by=("documents",))
        report.tests(by=("documents",))
        lengths = [
            ({"documents": k, "against": shortest}, {"documents": k}, {"documents": shortest})
            for k in longer
        ]
        effects = compare_conditions(report.rows, lengths, seed=report.seed)
        report.compare("effects", effects, "More documents against the fewest")
        report.draw(
            line_plot,
            found,
            x="documents",
            x_label="Documents in the context",
            x_ticks=report.config["ks"],
            logarithmic=True,
        )


class AttentionBias(Controlled):
    """The key document in the middle, among its question's nearest neighbours or among random documents."""

    name = "attention_bias"
    title = "Neighbours against random documents"
    question = "With the key document in the middle, do retrieved neighbours distract more than random documents?"
    methods = ("vanilla", "map_reduce")

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """Both companies for each k."""
        if min(ks) < 3:
            raise InputError("With fewer than 3 documents there is no middle. Give --k 3 or more.")
        return [{"k": k, "others": company} for k in ks for company in COMPANIES]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        count, near = condition["k"] - 1, condition["others"] == "neighbours"
        others = (
            self.corpus.neighbours(item, count)
            if near
            else self.corpus.random(item, count, self.seed)
        )
        return self.placed(item, 50, others)

    def report(self, report: Report) -> None:
        """Score among neighbours and among random documents, and test the one against the other."""
        ks, (near, far) = report.config["ks"], COMPANIES
        found = report.scores("among neighbours and among random documents")
        companies = [({"k": k}, {"k": k, "others": far}, {"k": k, "others": near}) for k in ks]
        effects = compare_conditions(report.rows, companies, seed=report.seed)
        report.compare("effects", effects, "Random documents minus neighbours")
        report.tests()
        groups = {
            f"k = {k}\n{company}": [
                c for c in found if c["condition"] in ({"k": k, "others": company}, {})
            ]
            for k in ks
            for company in COMPANIES
        }
        report.draw(bar_plot, groups)


_EXACT = f"Chunks are cut after {CHUNK_TOKENS} tokens, also within a sentence, as in OP-RAG."
_WHOLE_SENTENCES = (
    f"Chunks end with the sentence nearest to {CHUNK_TOKENS} tokens; OP-RAG cuts after "
    f"{CHUNK_TOKENS} exactly "
    "(--exact-chunks)."
)


class Order(Experiment):
    """OP-RAG against vanilla RAG over the number of chunks, with the whole document and Self-Route beside.

    Questions are asked on the long documents of their data set.
    """

    name = "order"
    title = "Order and number of chunks"
    question = (
        "Do chunks in the order of their document answer better than chunks by rank, and how many "
        "are best? "
        "(OP-RAG's inverted U.)"
    )
    methods = ("vanilla", "order_preserving", "self_route", "long_context")
    ks = (2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)

    def __init__(self, documents: LongDocuments) -> None:
        self.documents = documents

    def base_reading(self, item: Item) -> Reading:
        return Reading(item, whole=[self.documents.whole(item)])

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        reason = super().left_out(item, oracle=oracle)
        return "is not asked on a long document" if reason is None and not item.document else reason

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """One for each number of chunks."""
        return [{"chunks": k} for k in ks]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        """Take the chunks nearest to the question; all of them where the document has fewer."""
        return replace(
            self.base_reading(item), documents=self.documents.ranking(item, condition["chunks"])
        )

    def report(self, report: Report) -> None:
        """Score by number of chunks and by input tokens."""
        exact = report.config["exact_chunks"]
        found = report.scores("by number of chunks")
        report.tests()
        report.remarks.append(_EXACT if exact else _WHOLE_SENTENCES)
        ranked = [row for row in answered(report.rows) if row["condition"]]
        whole = Counter(
            r["condition"]["chunks"]
            for r in ranked
            if len(r["documents"]) < r["condition"]["chunks"]
        )
        if whole:
            every = dict.fromkeys(row["condition"]["chunks"] for row in ranked)
            words = ", ".join(f"{whole[chunks]} at {chunks}" for chunks in every if whole[chunks])
            report.remarks.append(
                f"Documents with fewer chunks than asked for are read whole; answers of which that "
                f"is true: {words}."
            )
        label = f"Chunks of {'' if exact else 'about '}{CHUNK_TOKENS} tokens"
        report.draw(
            line_plot,
            found,
            x="chunks",
            x_label=label,
            x_ticks=report.config["ks"],
            logarithmic=True,
        )
        used = [cell for cell in found if cell.get("input_tokens")]
        label = "Input tokens for a question (mean)"
        report.draw(
            line_plot, used, suffix="-tokens", x="input_tokens", x_label=label, logarithmic=True
        )


def spreads(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the spread, best mean minus worst, of each method's scores over the positions, at each k.

    Over the questions with a key that were answered at all positions, each metric by itself.
    p-values are corrected by Holm. The interval, by bootstrap, is None if no position's scores
    differ.
    """
    found = []
    for head, some in by_method(scored(rows), ("k",)):
        answers = grouped(some, lambda row: (row["condition"].get("position"), row["item"]))
        scores = {key: fmean(float(row["score"]) for row in own) for key, own in answers.items()}
        positions = sorted({position for position, _ in scores if position is not None})
        items = [
            item
            for item in grouped(some, itemgetter("item"))
            if all((p, item) in scores for p in positions)
        ]
        if not items or len(positions) < 2:
            continue
        matrix = np.array([[scores[position, item] for item in items] for position in positions])
        means = matrix.mean(axis=1)
        low, high = bootstrap_spread(matrix, seed=seed)
        found.append(
            {
                "metric": head["metric"],
                "method": head["method"],
                "k": head["condition"].get("k"),
                "n": len(items),
                "spread": spread(matrix),
                "low": low,
                "high": high,
                "best": positions[means.argmax()],
                "worst": positions[means.argmin()],
                "p": spread_test(matrix, seed=seed),
            }
        )
    correct(found)
    return found
