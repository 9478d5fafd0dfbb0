"""Questions with their rankings and labels, on which a check is fitted and measured, and counts of its decisions."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.files import sha256
from briefcontext.graphs.documents import more_to_ask, without_retracted
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers.rankings import (
    SIGNALS,
    SPOTLIGHT,
    TwoRankings,
    clear_top,
    intersection_over_union,
    measure,
)

_ENCODED_AT_ONCE = 64

Kind = Literal["placed", "ranked_below", "not_retrieved"]
KINDS: dict[str, tuple[Kind, ...]] = {
    "ranked_below": ("ranked_below",),
    "not_retrieved": ("not_retrieved",),
    "misplaced": ("ranked_below", "not_retrieved"),
}
"""What may count as positive: each kind of misplaced key document by itself, and both."""
TITLED = "pubmedqa"
"""A data set whose questions are the titles of their papers, whatever the knowledge base holds as title."""


def gold_rank(documents: Sequence[Document], gold_ids: Collection[str]) -> int | None:
    """Return the rank, from 1, of the first document whose id or `source_id` is a gold one; None when none is."""
    gold = set(gold_ids)
    names = ({document.id, str(document.metadata.get("source_id"))} for document in documents)
    return next((rank for rank, own in enumerate(names, start=1) if own & gold), None)


@dataclass(frozen=True)
class Labelled:
    """One question, as the preflight check meets it."""

    item: Item
    rankings: TwoRankings
    rank: int | None
    """Of the best-ranked gold document, from 1; None when none was retrieved."""
    has_gold: bool
    """Whether one of its gold documents is in the knowledge base."""
    is_title: bool
    """Whether its wording is the title of its key paper, which makes it easy to retrieve."""

    @property
    def kind(self) -> Kind:
        """Where the key document stands: among the first three, below them (a map can repair that), or nowhere."""
        if self.rank is None:
            return "not_retrieved"
        return "placed" if self.rank <= SPOTLIGHT else "ranked_below"

    @property
    def misplaced(self) -> bool:
        """The label: the key document is below rank 3, or was not retrieved (BriefContext)."""
        return self.kind != "placed"

    def iou(self, n: int) -> float:
        """The overlap of the two top n; 0, which leads to the map, where BM25's scores do not tell its top n."""
        return intersection_over_union(
            range(min(n, len(self.rankings.dense))), clear_top(self.rankings.bm25.tolist(), n)
        )


@dataclass(frozen=True)
class LabelledQuestions:
    """Questions labelled over one knowledge base at one k."""

    questions: list[Labelled]
    k: int
    missing_gold_ids: list[str]
    """Gold ids that the knowledge base does not hold, sorted."""
    left_out: list[str]
    """Ids of questions without gold ids, or for which nothing was retrieved."""

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind (n,) of each question."""
        return np.array([question.kind for question in self.questions], dtype=str)

    @property
    def misplaced(self) -> NDArray[np.bool_]:
        """The labels (n,)."""
        return np.asarray(self.kinds != "placed")

    def counted(self, positive: str) -> NDArray[np.bool_]:
        """Which questions (n,) count where a key of `KINDS` is positive: those, and the placed ones."""
        return np.isin(self.kinds, ["placed", *KINDS[positive]])

    @cached_property
    def titled(self) -> NDArray[np.bool_]:
        """Which questions (n,) are the title of their key paper."""
        return np.array([question.is_title for question in self.questions], dtype=bool)

    @cached_property
    def signals(self) -> NDArray[np.float64]:
        """The questions' signals (n, len(SIGNALS))."""
        rows = [list(measure(question.rankings).values()) for question in self.questions]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(SIGNALS))

    def iou(self, n: int) -> NDArray[np.float64]:
        """The overlap (n,) of the two top n for each question."""
        return np.array([question.iou(n) for question in self.questions])

    @cached_property
    def sha256(self) -> str:
        """Of the questions, as `questions_sha256` makes it."""
        return questions_sha256([question.item for question in self.questions])


def questions_sha256(items: Sequence[Item]) -> str:
    """Return the SHA-256 of questions in their order: ids, texts and gold ids."""
    rows = [[item.id, item.question, list(item.gold_ids)] for item in items]
    return sha256(json.dumps(rows))


def label_questions(
    base: KnowledgeBase,
    items: Sequence[Item],
    ks: Sequence[int],
    progress: Callable[[int], object] = lambda done: None,
) -> dict[int, LabelledQuestions]:
    """Retrieve each question's documents, as `ask` does, and label it, at every k.

    The documents are retrieved once, at the greatest k, and cut for the others; retracted ones are
    left out. `progress` is called with how many more questions are done.

    Raises:
        InputError: there is no question with gold ids, or the knowledge base holds none of them.
    """
    asked = [item for item in items if item.gold_ids]
    if not asked:
        raise InputError(
            "No question has gold_ids, which say where its answer stands: add them to the rows."
        )
    held = _held(base, {id for item in asked for id in item.gold_ids})
    missing = sorted({id for item in asked for id in item.gold_ids} - set(held))
    if not held:
        raise InputError(
            f"The knowledge base {base.path} holds none of the questions' gold ids ({len(missing):,}), such as "
            f"{missing[0]!r}: gold_ids are ids of its passages or of their sources (see "
            f"`briefcontext kb search`)."
        )
    statistics = base.term_statistics
    found: dict[int, list[Labelled]] = {k: [] for k in ks}
    left_out = [item.id for item in items if not item.gold_ids]
    progress(len(left_out))
    for item, documents in _retrieved(base, asked, max(ks)):
        progress(1)
        if not documents:
            left_out.append(item.id)
            continue
        rank, has_gold = (
            gold_rank(documents, item.gold_ids),
            any(id in held for id in item.gold_ids),
        )
        titles = {_words(held[id]) for id in item.gold_ids if id in held}
        is_title = TITLED in item.group.lower() or _words(item.question) in titles
        for k in ks:
            rankings = TwoRankings.of(item.question, documents[:k], statistics)
            found[k].append(
                Labelled(item, rankings, rank if rank and rank <= k else None, has_gold, is_title)
            )
    return {k: LabelledQuestions(questions, k, missing, left_out) for k, questions in found.items()}


def _held(base: KnowledgeBase, ids: set[str]) -> dict[str, str]:
    """Return the titles by those ids that are a passage's or a source's."""
    return {
        name: str(document.metadata.get("title") or "")
        for document in base.named(sorted(ids))
        for name in (str(document.id), str(document.metadata["source_id"]))
        if name in ids
    }


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _retrieved(
    base: KnowledgeBase, items: Sequence[Item], k: int
) -> Iterator[tuple[Item, list[Document]]]:
    settings = Settings(top_k=k)
    for start in range(0, len(items), _ENCODED_AT_ONCE):
        some = items[start : start + _ENCODED_AT_ONCE]
        vectors = base.encoder.encode_queries([item.question for item in some])
        for item, vector in zip(some, vectors, strict=True):
            found: list[Document] = []
            wanted = k
            while wanted:
                found = base.search_by_vector(vector, wanted)
                wanted = more_to_ask(found, wanted, settings)
            yield item, without_retracted(found, settings)[0]


def count_decisions(
    misplaced: Sequence[bool] | NDArray[np.bool_], mapped: Sequence[bool] | NDArray[np.bool_]
) -> dict[str, Any]:
    """Compare the labels of questions with which of them a check sends to the map; positive means misplaced, and sent.

    Returns `tp`, `fp`, `fn`, `tn`; `precision`, `recall`, `specificity`, `f1` and `skip_share`, the
    share of the questions that skip the map; and Wilson's 95% intervals of the first three, such as
    `recall_interval`. A share is None where there is nothing to divide by, and so is its interval.
    """
    truth, sent = np.asarray(misplaced, dtype=bool), np.asarray(mapped, dtype=bool)
    tp, fp, fn, tn = (
        int(some.sum()) for some in (truth & sent, ~truth & sent, truth & ~sent, ~truth & ~sent)
    )
    parts = {"precision": (tp, tp + fp), "recall": (tp, tp + fn), "specificity": (tn, tn + fp)}
    every = {**parts, "f1": (2 * tp, 2 * tp + fp + fn), "skip_share": (tn + fn, len(truth))}
    shares = {name: part / whole if whole else None for name, (part, whole) in every.items()}
    intervals = {
        f"{name}_interval": wilson(*part) if part[1] else None for name, part in parts.items()
    }
    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn, **shares, **intervals}
