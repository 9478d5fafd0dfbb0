"""The parts of an experiment: conditions, the documents of each, and the report of the rows."""

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
    SCORE_NAMES,
    Cell,
    Columns,
    Record,
    Row,
    Table,
    by_metric,
    cells,
    cells_tables,
    label_of,
    p_value,
    percent,
    pivoted,
    title_of,
    titled_by_metric,
    with_interval,
)

Condition = Mapping[str, Any]
"""One setting under which every question is asked, such as the number of documents."""


class Report:
    """The results of a run: the values for its summary, sentences, tables, figures and remarks.

    Args:
        rows: of items.jsonl.
        config: the run's, with its folder, prices, and `simulation`.
        title: of the experiment, for its figures.
        drawings: path of the figures without suffix; None for no figures.
    """

    def __init__(
        self, rows: Sequence[Row], config: Mapping[str, Any], title: str, drawings: Path | None
    ) -> None:
        self.rows, self.config, self.seed = rows, config, int(config["seed"])
        self._title, self._drawings = title, drawings
        self.summary: dict[str, Any] = {}
        self.sentences: list[str] = []
        """The findings, for the top of the report."""
        self.tables: list[Table] = []
        self.figures: list[Path] = []
        """Paths without a suffix."""
        self.remarks: list[str] = []

    def add(self, name: str, result: Any, tables: Iterable[Table]) -> None:
        """Keep values under a name, and show them in tables."""
        self.summary[name] = result
        self.tables += tables

    def show(
        self, name: str, result: Sequence[Record], title: str, columns: Columns, *notes: str
    ) -> None:
        """Keep records under a name, and show them in a table for each metric."""
        groups = titled_by_metric(title, result)
        self.add(
            name, result, (Table.from_records(head, some, columns, *notes) for head, some in groups)
        )

    def scores(self, title: str, name: str = "cells", by: Sequence[str] = ()) -> list[Cell]:
        """Score each method and condition, and return the scores; `by` is that of `cells`."""
        result = cells(self.rows, seed=self.seed, by=by)
        self.add(name, result, cells_tables(title, result))
        return result

    def tests(
        self, title: str = VERSUS_VANILLA, name: str = "comparisons", by: Sequence[str] = ()
    ) -> list[Comparison]:
        """Test each method against vanilla; `by` is that of `compare_methods`."""
        return self.compare(name, compare_methods(self.rows, seed=self.seed, by=by), title)

    def compare(
        self, name: str, results: list[Comparison], title: str = VERSUS_VANILLA
    ) -> list[Comparison]:
        """Keep comparisons under a name, show them in tables, and return them."""
        self.add(name, results, comparison_tables(results, title))
        return results

    def pivot(
        self,
        name: str,
        result: Sequence[Record],
        title: str,
        across: str,
        show: Callable[[Record], str],
        *notes: str,
    ) -> None:
        """Keep records under a name, and show them with a column for each value of a condition."""
        groups = titled_by_metric(title, result)
        tables = (pivoted(head, some, across, show, *notes) for head, some in groups)
        self.add(name, result, tables)

    def say_scores(self, result: Sequence[Cell]) -> None:
        """State the scores of cells as a sentence."""
        for metric, some in by_metric(one for one in result if "score" in one).items():
            shown = [f"{_named(one)} {percent(one['score'])}% (n = {one['n']})" for one in some]
            self.sentences.append(f"{SCORE_NAMES[metric]}: {', '.join(shown)}.")

    def say_differences(
        self, result: Sequence[Comparison], what: str = "minus vanilla RAG"
    ) -> None:
        """State differences with their intervals and corrected p-values."""
        shown = []
        for one in result:
            difference = with_interval(one["difference"], one["low"], one["high"], "+.1f")
            shown.append(f"{_named(one)} {difference} (p {p_value(one['p_holm'])} by Holm)")
        if shown:
            self.sentences.append(f"Percentage points, {what}: {', '.join(shown)}.")

    def draw(
        self, plot: Callable[..., list[Path]], data: Any, *, suffix: str = "", **style: Any
    ) -> None:
        """Draw data by one of the plots, unless no figures are wanted."""
        if self._drawings is not None:
            path = self._drawings.with_name(self._drawings.name + suffix)
            style = {"title": self._title, "simulated": self.config["simulation"], **style}
            self.figures += plot(data, path, **style)


def _named(one: Record) -> str:
    condition = label_of(one["condition"])
    return f"{title_of(one['method'])}{f' at {condition}' if condition else ''}"


class Experiment(ABC):
    """An experiment on a model. It defines what is asked; the runner asks."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]
    ks: ClassVar[tuple[int, ...]]
    needs_key: ClassVar[bool] = False
    """True if a question needs a key document in the corpus."""
    needs_answers: ClassVar[bool] = True
    """True if a question needs an answer key, because scores are compared."""
    real_rankings: ClassVar[bool] = False
    """True if the ranking is the corpus's own; then there is also a fused one."""
    force_choice: ClassVar[bool] = True
    per_class: ClassVar[int | None] = None
    """Questions of each answer that the paper draws; None for all questions."""
    repeatable: ClassVar[bool] = True
    """True if the results are scores, which can be averaged over repeats."""

    @abstractmethod
    def conditions(self, ks: Sequence[int]) -> list[Condition]:
        """Return the conditions for these numbers of documents."""

    @abstractmethod
    def arrange(self, item: Item, condition: Condition) -> Reading:
        """Return the documents that all methods read under a condition."""

    @abstractmethod
    def base_reading(self, item: Item) -> Reading:
        """Return the parts that do not depend on the condition: key documents, whole document."""

    @abstractmethod
    def report(self, report: Report) -> None:
        """Add the experiment's results to the report."""

    def applies(self, item: Item, condition: Condition) -> bool:
        """Return False for a condition that a question cannot be asked under."""
        return True

    def drawn(self, items: Sequence[Item], seed: int) -> tuple[list[Item], str | None]:
        """Draw the paper's sample, and describe it.

        Returns all questions if the paper draws none, an answer has too few questions, or there are
        questions without options.
        """
        if self.per_class is not None and all(item.options and item.answers for item in items):
            words = f"{self.per_class} questions of each answer, as in the paper"
            with suppress(InputError):
                return balanced_sample(items, self.per_class, seed), words
        return list(items), None

    def short(self, item: Item) -> bool:
        """Return True if an answer must be short, because it is compared word by word."""
        return bool(item.answers) and not item.options and not item.summary

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        """Return the reason why a question cannot be used, and what to do; None if it can."""
        if self.needs_answers and not item.answers:
            return f"has no answer key; the experiment {self.name} needs one. Add `answer`."
        return None


class OnCorpus(Experiment):
    """An experiment whose documents are the passages of a knowledge base."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus, self.seed = corpus, seed

    def base_reading(self, item: Item) -> Reading:
        return Reading(item, key_documents=self.corpus.key_documents(item))

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        reason = super().left_out(item, oracle=oracle)
        if reason is None and (self.needs_key or oracle) and not self.corpus.key_documents(item):
            return (
                "has no key document in the knowledge base. Add `gold_ids`: ids of its passages "
                "or sources."
            )
        return reason
