"""The papers' controlled experiments: the key document among others, and chunks of a document."""

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
from briefcontext.evaluation.methods.method import VANILLA, Reading
from briefcontext.evaluation.runs.published import published_curves
from briefcontext.evaluation.statistics.comparison import (
    DIFFERENCES_NOTE,
    compare_conditions,
    compare_methods,
    correct,
)
from briefcontext.evaluation.statistics.inference import spread, spread_test
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    P_VALUES,
    Columns,
    N,
    Row,
    by_method,
    cells,
    grouped,
    interval_of,
    p_value,
    percent,
    percent_of,
    scored,
    title_of,
    with_interval,
)
from briefcontext.knowledge.chunking import CHUNK_TOKENS

PERCENTILES = (0, 25, 50, 75, 100)
"""Positions of the key document (BriefContext, controlled experiment)."""
COMPANIES = ("neighbours", "random")
_SPREADS: Columns = {
    **METHOD,
    "k": itemgetter("k"),
    **N,
    "Spread": percent_of("spread"),
    "Best / worst": lambda one: f"{one['best']} / {one['worst']}",
    **P_VALUES,
}
_SPREADS_NOTE = (
    "Spread: best position minus worst, in percentage points, over questions answered at all "
    "positions; it is never negative. p: permutation test that shuffles each question's scores "
    "over the positions."
)


def key_place(percentile: int, k: int) -> int:
    """Return the place, from 0, of a percentile of `k` places; halves go to the even neighbour."""
    return round(percentile / 100 * (k - 1))


class Controlled(OnCorpus):
    """The first key document of a question among others that are not key documents."""

    ks: ClassVar[tuple[int, ...]] = (8, 16)
    needs_key: ClassVar[bool] = True
    per_class: ClassVar[int | None] = PER_CLASS

    def placed(self, item: Item, percentile: int, others: Sequence[Document]) -> Reading:
        """Return the others in their order, with the key document at a percentile of the places."""
        reading, place = self.base_reading(item), key_place(percentile, len(others) + 1)
        key = reading.key_documents[0]
        documents = [*others[:place], key, *others[place:]]
        return replace(reading, documents=documents, key_documents=[key])


class Position(Controlled):
    """The key document at five places of the same ranking, for every method."""

    name = "position"
    title = "Position of the key document"
    question = "How does accuracy change with the place of the key document among k documents?"
    methods: ClassVar[tuple[str, ...]] = (VANILLA, "map_reduce", "briefcontext")

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        if min(ks) < len(PERCENTILES):
            raise InputError(
                f"Among {min(ks)} documents there are fewer than {len(PERCENTILES)} different "
                f"places for the key document. Give --k {len(PERCENTILES)} or more."
            )
        return [{"k": k, "position": position} for k in ks for position in PERCENTILES]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        others = self.corpus.neighbours(item, condition["k"] - 1)
        return self.placed(item, condition["position"], others)

    def report(self, report: Report) -> None:
        means = report.scores("on average over the positions", "means", by=("k",))
        result = cells(report.rows, seed=report.seed)
        title = "Accuracy by position of the key document"
        report.pivot("cells", result, title, "position", interval_of("score"))
        far = spreads(report.rows, seed=report.seed)
        report.show("spread", far, "Spread over positions", _SPREADS, _SPREADS_NOTE)
        heading = "Against vanilla RAG, mean over the positions"
        differences = report.tests(heading, "mean_comparisons", by=("k",))
        compared = compare_methods(report.rows, seed=report.seed)
        title, note = "Against vanilla RAG by position", "In brackets: p by Holm over all these."
        report.pivot(
            "comparisons", compared, title, "position", _difference, DIFFERENCES_NOTE, note
        )
        longest = {"k": max(report.config["ks"])}
        report.say_scores([one for one in means if one["condition"] in (longest, {})])
        report.say_differences([one for one in differences if one["condition"] == longest])
        shown = [
            f"{title_of(one['method'])} {percent(one['spread'])} (p {p_value(one['p_holm'])})"
            for one in far
            if one["k"] == longest["k"]
        ]
        if shown:
            words = "Percentage points between the best and the worst position"
            report.sentences.append(f"{words}: {', '.join(shown)}.")
        curves = published_curves(self.name)
        report.draw(
            line_plot,
            result,
            x="position",
            panel="k",
            x_label="Position of the key document (percentile)",
            published=[curve for curve in curves if curve.position.isdigit()],
        )


def _difference(one: Any) -> str:
    difference = with_interval(one["difference"], one["low"], one["high"], "+.1f")
    return f"{difference} ({p_value(one['p_holm'])})"


class ContextLength(Controlled):
    """The key document at five places among more and more of the question's nearest neighbours."""

    name = "context_length"
    title = "Length of the context"
    question = (
        "How does accuracy change with the number of documents, the key document always among them?"
    )
    methods = ("closed_book", "oracle", VANILLA, "map_reduce", "briefcontext")
    ks = (2, 4, 8, 16, 32, 64)

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        conditions: list[Condition] = []
        for k in ks:
            places = {key_place(position, k): position for position in PERCENTILES[::-1]}
            conditions += [{"documents": k, "position": p} for p in sorted(places.values())]
        return conditions

    def arrange(self, item: Item, condition: Condition) -> Reading:
        others = self.corpus.neighbours(item, condition["documents"] - 1)
        return self.placed(item, condition["position"], others)

    def base_reading(self, item: Item) -> Reading:
        reading = super().base_reading(item)
        return replace(reading, key_documents=reading.key_documents[:1])

    def report(self, report: Report) -> None:
        shortest, *longer = report.config["ks"]
        result = report.scores("by number of documents", by=("documents",))
        compared = report.tests(by=("documents",))
        lengths = [
            ({"documents": k, "against": shortest}, {"documents": k}, {"documents": shortest})
            for k in longer
        ]
        effects = compare_conditions(report.rows, lengths, seed=report.seed)
        report.compare("effects", effects, "More documents against the fewest")
        longest = {"documents": max(report.config["ks"])}
        report.say_scores([one for one in result if one["condition"] in (longest, {})])
        report.say_differences([one for one in compared if one["condition"] == longest])
        at_longest = [one for one in effects if longest.items() <= one["condition"].items()]
        report.say_differences(at_longest, "more documents minus the fewest")
        report.draw(line_plot, result, x="documents", x_label="Documents in the context")


class AttentionBias(Controlled):
    """The key document in the middle, among its nearest neighbours or among random documents."""

    name = "attention_bias"
    title = "Neighbours against random documents"
    question = (
        "With the key document in the middle, do retrieved neighbours distract more than random "
        "documents?"
    )
    methods = (VANILLA, "map_reduce")

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        if min(ks) < 3:
            raise InputError("With fewer than 3 documents there is no middle. Give --k 3 or more.")
        return [{"k": k, "others": company} for k in ks for company in COMPANIES]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        count = condition["k"] - 1
        if condition["others"] == "neighbours":
            return self.placed(item, 50, self.corpus.neighbours(item, count))
        return self.placed(item, 50, self.corpus.random(item, count, self.seed))

    def report(self, report: Report) -> None:
        ks, (near, far) = report.config["ks"], COMPANIES
        result = report.scores("among neighbours and among random documents")
        companies = [({"k": k}, {"k": k, "others": far}, {"k": k, "others": near}) for k in ks]
        effects = compare_conditions(report.rows, companies, seed=report.seed)
        report.compare("effects", effects, "Random documents minus neighbours")
        compared = report.tests()
        groups = {
            f"k = {k}\n{company}": [
                one for one in result if one["condition"] in ({"k": k, "others": company}, {})
            ]
            for k in ks
            for company in COMPANIES
        }
        report.say_scores([one for one in result if one["condition"].get("k", max(ks)) == max(ks)])
        report.say_differences(effects, "random documents minus neighbours")
        report.say_differences([one for one in compared if one["condition"].get("k") == max(ks)])
        report.draw(bar_plot, groups)


class Order(Experiment):
    """OP-RAG against vanilla RAG, the whole document and Self-Route by number of chunks."""

    name = "order"
    title = "Order and number of chunks"
    question = (
        "Do chunks in the order of their document answer better than chunks by rank, and how many "
        "are best? (OP-RAG's inverted U.)"
    )
    methods = (VANILLA, "order_preserving", "self_route", "long_context")
    ks = (2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)

    def __init__(self, documents: LongDocuments) -> None:
        self.documents = documents

    def base_reading(self, item: Item) -> Reading:
        return Reading(item, whole=[self.documents.whole(item)])

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        reason = super().left_out(item, oracle=oracle)
        if reason is None and not item.document:
            return (
                "names no long document; the experiment order needs one. Add `document`, the name "
                "of a file next to the questions."
            )
        return reason

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        return [{"chunks": k} for k in ks]

    def applies(self, item: Item, condition: Condition) -> bool:
        return self.documents.chunks(item) >= int(condition["chunks"])

    def arrange(self, item: Item, condition: Condition) -> Reading:
        documents = self.documents.ranking(item, condition["chunks"])
        return replace(self.base_reading(item), documents=documents)

    def report(self, report: Report) -> None:
        exact = report.config["exact_chunks"]
        report.rows = sorted(report.rows, key=lambda row: row["condition"].get("chunks", 10**6))
        result = report.scores("by number of chunks")
        compared = report.tests()
        report.remarks.append(
            f"Chunks end {'after' if exact else 'with the sentence nearest to'} {CHUNK_TOKENS} "
            f"tokens{' exactly, as in OP-RAG' if exact else ' (OP-RAG: --exact-chunks)'}."
        )
        items = {row["item"] for row in report.rows}
        asked = grouped(report.rows, lambda row: row["condition"].get("chunks"))
        fewer = {
            k: len(items - {row["item"] for row in asked.get(k, ())}) for k in report.config["ks"]
        }
        shown = ", ".join(f"{count} at {chunks}" for chunks, count in fewer.items() if count)
        if shown:
            report.remarks.append(
                f"Left out, as the document has fewer chunks, of {len(items)} questions: {shown}."
            )
        most = {"chunks": max((k for k, count in fewer.items() if not count), default=0)}
        report.say_scores([one for one in result if one["condition"] in (most, {})])
        report.say_differences([one for one in compared if one["condition"] == most])
        counts = ", ".join(str(chunks) for chunks in asked if chunks)
        report.sentences.append(f"Numbers of chunks that were asked: {counts or 'none'}.")
        label = f"Chunks of {'' if exact else 'about '}{CHUNK_TOKENS} tokens"
        curves = [curve for curve in published_curves(self.name) if curve.k]
        report.draw(line_plot, result, x="chunks", x_label=label, published=curves)
        with_tokens = [cell for cell in result if cell.get("input_tokens")]
        label = "Input tokens for a question (mean)"
        report.draw(line_plot, with_tokens, suffix="-tokens", x="input_tokens", x_label=label)


def spreads(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the spread, best mean minus worst, of each method's scores over the positions.

    At each k and by each metric, over the questions with a key that were answered at all positions.
    Holm corrects the p-values.
    """
    results = []
    for head, some in by_method(scored(rows), ("k",)):
        answers = grouped(some, lambda row: (row["condition"].get("position"), row["item"]))
        scores = {key: fmean(float(row["score"]) for row in own) for key, own in answers.items()}
        positions = sorted({position for position, _ in scores if position is not None})
        items = [
            item
            for item in grouped(some, itemgetter("item"))
            if all((position, item) in scores for position in positions)
        ]
        if not items or len(positions) < 2:
            continue
        matrix = np.array([[scores[position, item] for item in items] for position in positions])
        means = matrix.mean(axis=1)
        results.append(
            {
                "metric": head["metric"],
                "method": head["method"],
                "k": head["condition"].get("k"),
                "n": len(items),
                "spread": spread(matrix),
                "best": positions[means.argmax()],
                "worst": positions[means.argmin()],
                "p": spread_test(matrix, seed=seed),
            }
        )
    correct(results)
    return results
