"""What a run asks: every question by every method under every condition."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from briefcontext.errors import InputError
from briefcontext.evaluation.experiment import Condition, Experiment, Materials
from briefcontext.evaluation.item import Item
from briefcontext.evaluation.methods import Method

__all__ = ["LeftOut", "Task", "plan", "usable"]

LeftOut = dict[str, int]
"""Why questions were left out, and how many."""


@dataclass(frozen=True)
class Task:
    """One answer that a run has to get."""

    item: Item
    method: Method
    condition: Condition | None
    """None for a method that sees no ranking."""

    @property
    def id(self) -> str:
        """Unique in the run."""
        label = "" if self.condition is None else self.condition.label
        return f"{self.item.id}|{self.method.name}|{label}"


def usable(
    experiment: Experiment, items: Iterable[Item], materials: Materials, *, oracle: bool
) -> tuple[list[Item], LeftOut]:
    """Return the questions that the experiment can use, and why it cannot use the others."""
    kept: list[Item] = []
    left_out: LeftOut = {}
    for item in items:
        reason = experiment.left_out(item, materials, oracle=oracle)
        if reason is None:
            kept.append(item)
        else:
            left_out[reason] = left_out.get(reason, 0) + 1
    if not kept:
        reasons = "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "there are none"
        raise InputError(f"The experiment {experiment.name} can use none of the questions: {reasons}.")
    return kept, left_out


def plan(
    experiment: Experiment, items: Sequence[Item], methods: Sequence[Method], conditions: Sequence[Condition]
) -> list[list[Task]]:
    """Return the tasks of each question, in order.

    The tasks of a question are done one after another, so that a request that two of them make is asked once.
    """
    return [
        [
            Task(item, method, condition)
            for method in methods
            for condition in ([None] if method.constant else conditions)
        ]
        for item in items
    ]
