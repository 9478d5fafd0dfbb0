"""Experiment `order`: chunks of one long document in its own order, or by rank, and how many of them?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, OnDocuments, Report
from briefcontext.evaluation.figures.plots import line_plot
from briefcontext.evaluation.methods.method import Reading
from briefcontext.evaluation.statistics.tables import answered
from briefcontext.knowledge.chunking import CHUNK_TOKENS

__all__ = ["Order"]

_EXACT = f"Chunks are cut after {CHUNK_TOKENS} tokens, also within a sentence, as in OP-RAG."
_WHOLE_SENTENCES = (
    f"Chunks end with the sentence nearest to {CHUNK_TOKENS} tokens; OP-RAG cuts after {CHUNK_TOKENS} exactly "
    "(--exact-chunks)."
)


class Order(OnDocuments):
    """OP-RAG against vanilla RAG over the number of chunks, with the whole document and Self-Route beside."""

    name = "order"
    title = "Order and number of chunks"
    question = (
        "Do chunks in the order of their document answer better than chunks by rank, and how many are best? "
        "(OP-RAG's inverted U.)"
    )
    methods = ("vanilla", "order_preserving", "self_route", "long_context")
    ks = (2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """One for each number of chunks."""
        return [{"chunks": k} for k in ks]

    def arrange(self, item: Item, condition: Condition) -> Reading:
        """Take the chunks nearest to the question; all of them where the document has fewer."""
        return replace(self.base_reading(item), documents=self.documents.ranking(item, condition["chunks"]))

    def report(self, report: Report) -> None:
        """Score by number of chunks and by input tokens."""
        exact = report.config["exact_chunks"]
        found = report.scores("by number of chunks")
        report.tests()
        report.remarks.append(_EXACT if exact else _WHOLE_SENTENCES)
        ranked = [row for row in answered(report.rows) if row["condition"]]
        whole = Counter(r["condition"]["chunks"] for r in ranked if len(r["documents"]) < r["condition"]["chunks"])
        if whole:
            every = dict.fromkeys(row["condition"]["chunks"] for row in ranked)
            words = ", ".join(f"{whole[chunks]} at {chunks}" for chunks in every if whole[chunks])
            report.remarks.append(
                f"Documents with fewer chunks than asked for are read whole; answers of which that is true: {words}."
            )
        label = f"Chunks of {'' if exact else 'about '}{CHUNK_TOKENS} tokens"
        report.draw(line_plot, found, x="chunks", x_label=label, x_ticks=report.config["ks"], logarithmic=True)
        used = [cell for cell in found if cell["input_tokens"]]
        label = "Input tokens for a question (mean)"
        report.draw(line_plot, used, suffix="-tokens", x="input_tokens", x_label=label, logarithmic=True)
