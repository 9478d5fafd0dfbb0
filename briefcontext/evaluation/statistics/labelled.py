"""Questions with their two rankings and the rank of their key document."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.steps import more_to_ask, without_retracted
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.rankings import (
    SPOTLIGHT,
    TwoRankings,
    clear_top,
    intersection_over_union,
    measure,
)

KINDS = {
    "ranked_below": ("ranked_below",),
    "not_retrieved": ("not_retrieved",),
    "misplaced": ("ranked_below", "not_retrieved"),
}
"""The kinds of misplaced key documents that count as positive, by name."""


def gold_rank(documents: Sequence[Document], gold_ids: Collection[str]) -> int | None:
    """Return the rank, from 1, of the first document with a gold id or `source_id`, if any."""
    for rank, document in enumerate(documents, start=1):
        if {document.id, str(document.metadata.get("source_id"))} & set(gold_ids):
            return rank
    return None


class Labelled(NamedTuple):
    """A question with its two rankings and the rank of its best gold document, if retrieved."""

    item: Item
    rankings: TwoRankings
    rank: int | None

    @property
    def kind(self) -> str:
        """The label: placed (among the first three), ranked_below or not_retrieved."""
        below = "placed" if (self.rank or 0) <= SPOTLIGHT else "ranked_below"
        return "not_retrieved" if self.rank is None else below

    def iou(self, n: int) -> float:
        """Return the overlap of the two top n; 0 if BM25 has no clear top n."""
        bm25_top = clear_top(self.rankings.bm25.tolist(), n)
        return intersection_over_union(range(min(n, len(self.rankings.dense))), bm25_top)


@dataclass(frozen=True)
class LabelledQuestions:
    """Questions (n) labelled over one knowledge base at one k, and the ids that cannot be used."""

    questions: list[Labelled]
    k: int
    missing_gold_ids: list[str]
    left_out: list[str]

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind (n,) of each question."""
        return np.array([question.kind for question in self.questions], dtype=str)

    @property
    def misplaced(self) -> NDArray[np.bool_]:
        """The labels (n,): below rank 3, or not retrieved (BriefContext)."""
        return np.asarray(self.kinds != "placed")

    def counted(self, positive: str) -> NDArray[np.bool_]:
        """Return the questions (n,) that are placed or of the kinds of a key of `KINDS`."""
        return np.isin(self.kinds, ["placed", *KINDS[positive]])

    @cached_property
    def signals(self) -> NDArray[np.float64]:
        """The questions' signals (n, len(SIGNALS))."""
        return np.array([list(measure(question.rankings).values()) for question in self.questions])

    def iou(self, n: int) -> NDArray[np.float64]:
        """Return the overlap (n,) of the two top n for each question."""
        return np.array([question.iou(n) for question in self.questions])


def label_questions(
    base: KnowledgeBase,
    items: Sequence[Item],
    ks: Sequence[int],
    progress: Callable[[int], object] = lambda done: None,
) -> dict[int, LabelledQuestions]:
    """Retrieve each question's documents once, as `ask` does, and label it at every k.

    `progress` is called with the number of further questions done. Raises InputError if no
    question has gold ids, or the knowledge base has none of them.
    """
    wanted = sorted({id for item in items for id in item.gold_ids})
    named = base.by_names(wanted)
    ids = {name for result in named for name in (result.id, str(result.metadata["source_id"]))}
    missing = sorted(set(wanted) - ids)
    if len(missing) == len(wanted):
        raise InputError(
            f"The knowledge base {base.path} has none of the {len(wanted):,} gold ids "
            f"{wanted[:3]}. Give `gold_ids`: ids of its passages or sources."
        )
    labelled: dict[int, list[Labelled]] = {k: [] for k in ks}
    left_out = []
    settings = Settings(top_k=max(ks))
    for item in items:
        progress(1)
        documents: list[Document] = []
        asked = max(ks) if item.gold_ids else 0
        while asked:
            documents = base.search(item.question, asked)
            asked = more_to_ask(documents, asked, settings)
        documents = without_retracted(documents, settings)[0]
        if not documents:
            left_out.append(item.id)
            continue
        rank = gold_rank(documents, item.gold_ids)
        for k in ks:
            rankings = TwoRankings.from_documents(
                item.question, documents[:k], base.term_statistics
            )
            labelled[k].append(Labelled(item, rankings, rank if rank and rank <= k else None))
    return {k: LabelledQuestions(some, k, missing, left_out) for k, some in labelled.items()}
