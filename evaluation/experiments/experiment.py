"""What an experiment is: conditions, the documents of each, and the tables that come of the rows."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.data_sets.sampling import balanced_sample
from briefcontext.evaluation.experiments.corpus import Corpus, LongDocuments
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.statistics.score_tables import Row, Table

__all__ = ["EXPERIMENTS", "Condition", "Experiment", "Materials", "Report", "experiment", "place_key"]


@dataclass(frozen=True)
class Condition:
    """One setting under which every question is asked."""

    values: Mapping[str, int | str]

    @property
    def label(self) -> str:
        """The values in one line."""
        return ", ".join(f"{name} {value}" for name, value in self.values.items())


@dataclass(frozen=True)
class Materials:
    """The sources of an experiment's documents."""

    corpus: Corpus | None = None
    long: LongDocuments | None = None
    seed: int = 0
    fused: bool = False
    """Whether a method needs the fused ranking."""

    @property
    def base(self) -> Corpus:
        """The knowledge base.

        Raises:
            InputError: there is none.
        """
        if self.corpus is None:
            raise InputError("This experiment takes its documents from a knowledge base: name it with --kb DIR.")
        return self.corpus

    @property
    def documents(self) -> LongDocuments:
        """The long documents.

        Raises:
            InputError: there are none.
        """
        if self.long is None:
            raise InputError(
                "This experiment asks on long documents, and the data set has none. Take one of long documents, "
                "for example infinitebench-qa:FILE or evidence-inference:DIR."
            )
        return self.long


@dataclass
class Report:
    """The tables and notes of an experiment."""

    summary: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Experiment(ABC):
    """An experiment on a model. It says what is asked; the runner asks."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    """What it is to find out, in one sentence."""
    methods: ClassVar[tuple[str, ...]]
    """Those that are compared unless told otherwise."""
    ks: ClassVar[tuple[int, ...]]
    """Numbers of documents unless told otherwise."""
    source: ClassVar[Literal["corpus", "document"]] = "corpus"
    needs_key: ClassVar[bool] = False
    """Whether it can only take questions whose key documents are in the corpus."""
    needs_answers: ClassVar[bool] = True
    """Whether it can only take questions with an answer key, because it compares scores."""
    real_rankings: ClassVar[bool] = False
    """Whether the ranking is the corpus's own, so that there is a fused one beside it."""
    force_choice: ClassVar[bool] = True
    per_class: ClassVar[int | None] = None
    """Questions of each answer that the paper draws; None for all questions."""
    repeatable: ClassVar[bool] = True
    """Whether its figures are scores, which can be averaged over repeats."""

    @abstractmethod
    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """Return the conditions for these numbers of documents."""

    @abstractmethod
    def arrange(self, item: Item, condition: Condition, materials: Materials) -> Reading:
        """Return the documents that all methods read under a condition."""

    @abstractmethod
    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Make tables of the rows, and figures in the folder `out` if there is one."""

    def base_reading(self, item: Item, materials: Materials) -> Reading:
        """Return what does not depend on the condition: the key documents, or the whole document."""
        short = bool(item.answers) and not item.options and not item.summary
        if self.source == "document":
            return Reading(item, whole=materials.documents.whole(item), short=short)
        return Reading(item, key_documents=materials.base.key_documents(item), short=short)

    def drawn(self, items: Sequence[Item], seed: int) -> tuple[list[Item], str | None]:
        """Draw the questions that the paper would, and say how; all of them where the paper draws none.

        All are taken, too, where an answer of a data set has fewer questions than the paper draws, or there are
        questions without options.
        """
        if self.per_class is None or not all(item.options and item.answers for item in items):
            return list(items), None
        classes = Counter((item.group, item.answers[0]) for item in items)
        if min(classes.values()) < self.per_class:
            return list(items), None
        words = f"{self.per_class} questions of each answer, as in the paper"
        return balanced_sample(items, self.per_class, seed), words

    def left_out(self, item: Item, materials: Materials, *, oracle: bool) -> str | None:
        """Say why a question cannot be used; None when it can."""
        if self.needs_answers and not item.answers:
            return "has no answer key"
        if self.source == "document":
            return None if item.document else "is not asked on a long document"
        if (self.needs_key or oracle) and not materials.base.key_documents(item):
            return "has no key document in the knowledge base"
        return None


def place_key(key: Document, others: Sequence[Document], place: int) -> list[Document]:
    """Return a ranking of the others, in their order, with the key document at `place` (from 0)."""
    if not 0 <= place <= len(others):
        raise InputError(f"There is no place {place} among {len(others) + 1} documents.")
    return [*others[:place], key, *others[place:]]


EXPERIMENTS = {
    "position": "Position",
    "integration": "Integration",
    "conflict": "Conflict",
    "context_length": "ContextLength",
    "attention_bias": "AttentionBias",
    "order": "Order",
    "open_ended": "OpenEnded",
    "cost": "Cost",
}
"""Module and class of each experiment that asks a model."""


def experiment(name: str, rankings: Literal["synthetic", "real"] = "synthetic") -> Experiment:
    """Return an experiment by its name; `conflict` on the papers' synthetic rankings or on the corpus's real ones.

    Raises:
        InputError: there is none of that name.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"There is no experiment {name!r}. There are: {', '.join([*EXPERIMENTS, 'preflight'])}.")
    kind = "ConflictOnRealRankings" if (name, rankings) == ("conflict", "real") else EXPERIMENTS[name]
    found: Experiment = getattr(import_module(f"briefcontext.evaluation.experiments.{name}"), kind)()
    return found
