"""What an experiment is: conditions, the documents of each, and the tables that come of the rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, balanced_sample
from briefcontext.evaluation.experiments.corpus import Corpus
from briefcontext.evaluation.methods.method import Reading
from briefcontext.evaluation.statistics.comparison import (
    VERSUS_VANILLA,
    Comparison,
    compare_methods,
    comparison_tables,
)
from briefcontext.evaluation.statistics.tables import (
    Cell,
    Columns,
    Record,
    Row,
    Table,
    cells,
    cells_tables,
    titled_by_metric,
)

Condition = Mapping[str, Any]
"""One setting under which every question is asked, such as the number of documents."""


class Report:
    """The figures of a run: what its summary keeps, and the tables, drawings and remarks that show it.

    Args:
        rows: of items.jsonl.
        config: the run's, with its folder, prices, and whether it is a simulation.
        drawings: what names a drawing's files, without their suffix; None where none is to be made.
    """

    def __init__(
        self, rows: Sequence[Row], config: Mapping[str, Any], drawings: Path | None
    ) -> None:
        self.rows, self.config, self.seed, self._drawings = (
            rows,
            config,
            int(config["seed"]),
            drawings,
        )
        self.summary: dict[str, Any] = {}
        self.tables: list[Table] = []
        self.figures: list[Path] = []
        """Their paths, without a suffix."""
        self.remarks: list[str] = []

    def add(self, name: str, found: Any, tables: Iterable[Table]) -> None:
        """Keep figures under a name, and show them in tables."""
        self.summary[name] = found
        self.tables += tables

    def show(
        self, name: str, found: Sequence[Record], title: str, columns: Columns, note: str
    ) -> None:
        """Keep figures under a name, and show them, if there are any, in a table, or in one for each metric."""
        groups = titled_by_metric(title, found)
        self.add(name, found, (Table.of(heading, some, columns, note) for heading, some in groups))

    def scores(self, title: str, name: str = "cells", by: Sequence[str] = ()) -> list[Cell]:
        """Score each method and condition, and return the scores; `by` is that of `cells`."""
        found = cells(self.rows, seed=self.seed, by=by)
        self.add(name, found, cells_tables(title, found))
        return found

    def tests(
        self, title: str = VERSUS_VANILLA, name: str = "comparisons", by: Sequence[str] = ()
    ) -> None:
        """Test each method against vanilla; `by` is that of `compare_methods`."""
        self.compare(name, compare_methods(self.rows, seed=self.seed, by=by), title)

    def compare(self, name: str, found: Sequence[Comparison], title: str = VERSUS_VANILLA) -> None:
        """Keep comparisons under a name, and show them in tables."""
        self.add(name, found, comparison_tables(found, title))

    def draw(
        self, plot: Callable[..., list[Path]], data: Any, *, suffix: str = "", **style: Any
    ) -> None:
        """Draw data by one of the plots, unless no figures are wanted."""
        if self._drawings is not None:
            path = self._drawings.with_name(self._drawings.name + suffix)
            self.figures += plot(data, path, simulated=self.config["simulation"], **style)


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
    def arrange(self, item: Item, condition: Condition) -> Reading:
        """Return the documents that all methods read under a condition."""

    @abstractmethod
    def base_reading(self, item: Item) -> Reading:
        """Return what does not depend on the condition: the key documents, or the whole document."""

    @abstractmethod
    def report(self, report: Report) -> None:
        """Add to the report what the experiment makes of the rows."""

    def drawn(self, items: Sequence[Item], seed: int) -> tuple[list[Item], str | None]:
        """Draw the questions that the paper would, and say how; all of them where the paper draws none.

        All are taken, too, where an answer of a data set has fewer questions than the paper draws,
        or there are questions without options.
        """
        if self.per_class is not None and all(item.options and item.answers for item in items):
            words = f"{self.per_class} questions of each answer, as in the paper"
            with suppress(InputError):  # an answer has fewer
                return balanced_sample(items, self.per_class, seed), words
        return list(items), None

    def short(self, item: Item) -> bool:
        """Return whether an answer has to be short, because it is compared with others word by word."""
        return bool(item.answers) and not item.options and not item.summary

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        """Say why a question cannot be used; None when it can."""
        return "has no answer key" if self.needs_answers and not item.answers else None


class OnCorpus(Experiment):
    """An experiment whose documents are the passages of a knowledge base.

    Args:
        seed: of what is drawn at random.
    """

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus, self.seed = corpus, seed

    def base_reading(self, item: Item) -> Reading:
        return Reading(item, key_documents=self.corpus.key_documents(item))

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        reason = super().left_out(item, oracle=oracle)
        if reason is None and (self.needs_key or oracle) and not self.corpus.key_documents(item):
            return "has no key document in the knowledge base"
        return reason
