"""Tables that describe a corpus: documents, tokens, lengths by source (BriefContext, Supplementary Tables 5 and 6)."""

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from briefcontext.evaluation.statistics.score_tables import Table

if TYPE_CHECKING:
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

__all__ = ["corpus_tables"]

_READ_AT_ONCE = 1_000
_QUANTILES = (0, 0.25, 0.5, 0.75, 1)


def corpus_tables(base: "KnowledgeBase") -> list[Table]:
    """Return a knowledge base's documents and tokens, and their lengths, by the kind of source.

    Tokens are those of the knowledge base's own encoder, without those that mark the ends of a text. A document's
    length is the sum of its passages'.
    """
    passages: dict[str, int] = defaultdict(int)
    lengths: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    ids = base.ids()
    for start in range(0, len(ids), _READ_AT_ONCE):
        for document in base.get(ids[start : start + _READ_AT_ONCE]):
            kind = str(document.metadata.get("kind") or "none stated")
            tokens = len(base.encoder.token_offsets(document.page_content))
            passages[kind] += 1
            lengths[kind][str(document.metadata["source_id"])] += tokens
    by_kind = {kind: np.array(list(of.values())) for kind, of in sorted(lengths.items())}
    totals = [[kind, f"{len(of):,}", f"{passages[kind]:,}", f"{int(of.sum()):,}"] for kind, of in by_kind.items()]
    every = np.concatenate(list(by_kind.values())) if by_kind else np.zeros(0, dtype=int)
    totals.append(["all", f"{len(every):,}", f"{sum(passages.values()):,}", f"{int(every.sum()):,}"])
    spans = [
        [kind, f"{of.mean():,.1f}", f"{of.std(ddof=1) if len(of) > 1 else 0:,.1f}",
         *(f"{value:,.0f}" for value in np.quantile(of, _QUANTILES))]
        for kind, of in [*by_kind.items(), *([("all", every)] if len(every) else [])]
    ]  # fmt: skip
    note = f"Tokens of the encoder {base.manifest.encoder.name}."
    return [
        Table("Documents and tokens by source", ["Source", "Documents", "Passages", "Tokens"], totals, note),
        Table(
            "Tokens of a document by source",
            ["Source", "Mean", "SD", "Least", "First quartile", "Median", "Third quartile", "Most"],
            spans,
            note,
        ),
    ]
