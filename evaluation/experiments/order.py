"""Experiment `order`: chunks of one long document in its own order, or by rank, and how many of them?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, Experiment, Materials, Report
from briefcontext.evaluation.figures.plots import line_plot, token_plot
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.comparison import compare_methods, comparison_tables
from briefcontext.evaluation.statistics.score_tables import Row, cells, cells_tables
from briefcontext.knowledge.chunking import CHUNK_TOKENS

__all__ = ["Order"]

_EXACT = f"Chunks are cut after {CHUNK_TOKENS} tokens, also within a sentence, as in OP-RAG."
_WHOLE_SENTENCES = (
    f"Chunks end with the sentence nearest to {CHUNK_TOKENS} tokens; OP-RAG cuts after {CHUNK_TOKENS} exactly "
    "(--exact-chunks)."
)


class Order(Experiment):
    """OP-RAG against vanilla RAG over the number of chunks, with the whole document and Self-Route beside."""

    name = "order"
    title = "Order and number of chunks"
    question = (
        "Do chunks in the order of their document answer better than chunks by rank, and how many are best? "
        "(OP-RAG's inverted U.)"
    )
    methods = ("vanilla", "order_preserving", "self_route", "long_context")
    ks = (2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)
    source: ClassVar[Literal["corpus", "document"]] = "document"

    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """One for each number of chunks."""
        return [Condition({"chunks": k}) for k in ks]

    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Take the chunks nearest to the question; all of them where the document has fewer."""
        chunks = materials.documents.ranking(item, int(condition.values["chunks"]))
        return replace(self.base_reading(item, materials), documents=chunks)

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Score by number of chunks and by input tokens."""
        found = cells(rows, seed=config["seed"])
        comparisons = compare_methods(rows, seed=config["seed"])
        report = Report(
            summary={"cells": found, "comparisons": comparisons},
            tables=[*cells_tables("by number of chunks", found), *comparison_tables(comparisons)],
            remarks=[_EXACT if config["exact_chunks"] else _WHOLE_SENTENCES],
        )
        whole = {row["condition"]["chunks"]: 0 for row in rows if row["condition"] and row["status"] == "ok"}
        for row in rows:
            if row["status"] == "ok" and row["condition"] and len(row["documents"]) < row["condition"]["chunks"]:
                whole[row["condition"]["chunks"]] += 1
        if any(whole.values()):
            words = ", ".join(f"{count} at {chunks}" for chunks, count in whole.items() if count)
            report.remarks.append(
                f"Documents with fewer chunks than asked for are read whole; answers of which that is true: {words}."
            )
        if out is not None:
            names = list(dict.fromkeys(row["method"] for row in rows))
            ranked = [name for name in names if any(row["condition"] for row in rows if row["method"] == name)]
            report.figures += line_plot(
                found,
                out / self.name,
                x="chunks",
                methods=ranked,
                x_label=f"Chunks of {'' if config['exact_chunks'] else 'about '}{CHUNK_TOKENS} tokens",
                logarithmic=True,
                simulated=config["simulation"],
            )
            report.figures += token_plot(
                found,
                out / f"{self.name}-tokens",
                methods=names,
                simulated=config["simulation"],
            )
        return report
