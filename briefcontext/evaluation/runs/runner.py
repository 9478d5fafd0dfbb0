"""The runner: asks every question by every method under every condition."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any

from langchain_core.runnables import RunnableLambda

from briefcontext.chains.model.event_loop import together
from briefcontext.errors import ModelCallError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Condition, Experiment
from briefcontext.evaluation.methods.method import Method, Outcome, Reading
from briefcontext.evaluation.methods.models import CallTrace, RunModels
from briefcontext.evaluation.statistics.scoring import mirage_choice, score_answer
from briefcontext.evaluation.statistics.tables import Row, grouped, label_of
from briefcontext.graphs.settings import Settings


@dataclass(frozen=True)
class Task:
    """One answer that a run has to get."""

    item: Item
    method: Method
    condition: Condition
    """Empty for a method that sees no ranking."""
    repeat: int = 0

    @property
    def id(self) -> str:
        """Unique in the run."""
        repeat = f"|repeat {self.repeat}" if self.repeat else ""
        return f"{self.item.id}|{self.method.name}|{label_of(self.condition)}{repeat}"


def plan(
    items: Sequence[Item],
    methods: Sequence[Method],
    experiment: Experiment,
    ks: Sequence[int],
    *,
    repeats: int = 1,
) -> list[list[Task]]:
    """Return the tasks of each question, in order.

    The tasks of a question are done one after another, so that equal requests are asked once.
    """
    conditions = experiment.conditions(ks)
    tasks = (
        Task(item, method, condition, repeat)
        for item in items
        for method in methods
        for condition in ([{}] if method.constant else conditions)
        for repeat in range(repeats)
        if not condition or experiment.applies(item, condition)
    )
    return list(grouped(tasks, lambda task: task.item.question).values())


@dataclass
class Runner:
    """Asks the questions of a plan, several at once."""

    experiment: Experiment
    models: Sequence[RunModels]
    settings: Settings

    async def run(
        self,
        plan: Sequence[Sequence[Task]],
        done: Collection[str],
        keep: Callable[[Row, CallTrace], None],
    ) -> int:
        """Get the missing answers; return the number that wait for a reply of a batch.

        After an error that concerns the whole run no other task begins, and those under way finish.

        Args:
            plan: the tasks of each question.
            done: the ids of tasks that have an answer.
            keep: called with each row and its calls, in one thread.

        Raises:
            ModelSetupError: the provider refuses all calls.
        """
        questions = iter([[task for task in tasks if task.id not in done] for tasks in plan])
        waiting, stopped = 0, False

        async def work() -> None:
            nonlocal waiting, stopped
            for task in chain.from_iterable(questions):
                if stopped:
                    return
                try:
                    row, trace = await self._answer(task)
                    if row is None:
                        waiting += 1
                    else:
                        keep(row, trace)
                except BaseException:
                    stopped = True
                    raise

        # Workers are not cancelled: a thread within native code would abort the process at exit.
        await together(work() for _ in range(self.settings.max_concurrent_calls))
        return waiting

    async def _answer(self, task: Task) -> tuple[Row | None, CallTrace]:
        arrange = partial(self.experiment.arrange, condition=task.condition)
        reading = await asyncio.to_thread(
            arrange if task.condition else self.experiment.base_reading, task.item
        )
        trace = CallTrace(task.repeat)

        async def run(reading: Reading) -> Outcome:
            return await task.method.run(reading, self.models[task.repeat], self.settings)

        try:
            outcome = await RunnableLambda(run).ainvoke(reading, {"callbacks": [trace]})
        except ModelCallError as error:
            failed = _row(task, trace, status="failed", error=str(error))
            return None if trace.wanted else failed, trace
        documents = [str(document.id) for document in reading.documents]
        keys = {str(document.id) for document in reading.key_documents}
        places = [place for place, id in enumerate(documents) if id in keys]
        seen = {"documents": documents, "key_places": places} if task.condition else {}
        return _row(task, trace, status="ok", **seen, **_scored(task.item, outcome, trace)), trace


def _row(task: Task, trace: CallTrace, **values: Any) -> Row:
    calls = trace.ordered()
    return {
        "id": task.id,
        "item": task.item.id,
        "group": task.item.group,
        "question": task.item.question,
        "method": task.method.name,
        "condition": dict(task.condition),
        "repeat": task.repeat,
        "metric": "none" if not task.item.answers else "accuracy" if task.item.options else "f1",
        **values,
        "usage": {
            "calls": len(calls),
            "input_tokens": sum(call.input_tokens for call in calls),
            "output_tokens": sum(call.output_tokens for call in calls),
            "kept_replies": sum(call.kept for call in calls),
        },
        "calls": [
            {name: value for name, value in asdict(call).items() if name != "kept"}
            for call in calls
        ],
    }


def _scored(item: Item, outcome: Outcome, trace: CallTrace) -> Mapping[str, Any]:
    """Return an answer's values with its score, if its question has a key."""
    values = asdict(outcome)
    choice, abstained = values.pop("choice"), values.pop("abstained")
    if not item.options:
        if not item.answers:
            return {**values, "outcome": "abstained" if abstained else "answered"}
        scored = score_answer("" if abstained else outcome.text, item.answers)
        word = "abstained" if abstained else "right" if scored.exact_match else "scored"
        return {**values, "score": scored.f1, "exact_match": scored.exact_match, "outcome": word}
    values["choice"] = choice
    if choice is None:
        word = "abstained" if abstained else "unparsed"
    elif not item.answers:
        word = "answered"
    else:
        word = "right" if choice in item.answers else "wrong"
    if item.answers:
        reply = trace.calls[-1].output if trace.calls else ""
        mirage = mirage_choice(reply, item.options, choice)
        values["score"] = float(word == "right")
        values["mirage_score"] = float(mirage in item.answers)
    return {**values, "outcome": word}
