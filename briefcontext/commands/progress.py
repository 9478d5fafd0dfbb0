"""Running questions from the command line, with progress on standard error."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult
from rich.console import Console
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.reply_cache import from_cache
from briefcontext.commands.terminal import Interrupted, printable, printable_line
from briefcontext.errors import ModelCallError, counted
from briefcontext.graphs.events import AnswerToken, AnswerTokens, Event
from briefcontext.graphs.graph import graph
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Input


class ProgressLines:
    """Shows the progress and the growing answer on standard error, if it is a terminal.

    Args:
        console: Another console.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.live = self.console.is_terminal
        self._status = self.console.status("Opening the knowledge base…")
        self._answer = ""
        self._attempt = 0

    def __enter__(self) -> Self:
        if self.live:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, event: Event | AnswerToken) -> None:
        """Show a step of the graph, or a piece of its answer."""
        if not self.live:
            return
        if event["event"] == "answer_token":
            self._show_token(event)
            return
        if event["event"] == "encoding":
            row = Table.grid(padding=(0, 1))
            row.add_row(
                ProgressBar(total=event["total"], completed=event["passages"], width=20),
                event_words(event)[1],
            )
            self._status.update(row)
            return
        done, doing = event_words(event)
        if done:
            self.console.print(f"[dim]{escape(printable_line(done))}[/dim]")
        if doing:
            self._status.update(escape(printable_line(doing)))

    def _show_token(self, event: AnswerToken) -> None:
        """Show the growing answer, which the checked answer replaces."""
        if event["attempt"] != self._attempt:
            self._answer, self._attempt = "", event["attempt"]
        self._answer += event["text"]
        # The status line is drawn again each time, which works only for text on the screen.
        room = max(1, self.console.height - 4) * self.console.width // 2
        self._status.update(escape(printable(self._answer.strip()[-room:])))


def event_words(event: Event) -> tuple[str, str]:
    """Return the words for the finished step and for the current one."""
    match event["event"]:
        case "encoding":
            return (
                "",
                f"Encoding the document: {event['passages']} of {event['total']} passages",
            )
        case "rewritten":
            return f"asked as: {event['question']}", "Retrieving…"
        case "retrieved":
            return f"{counted(event['documents'], 'document')} retrieved", "Comparing the rankings…"
        case "route_decided":
            return f"{event['route']}: {event['reason']}", "Reading…"
        case "partition_started":
            return "", f"Reading {counted(event['partitions'], 'partition')}…"
        case "partition_done":
            result = "nothing on the question"
            if event["status"] == "evidence":
                result = f"evidence, {counted(event['quotes'], 'quote')}"
            return f"partition {event['index'] + 1} of {event['partitions']}: {result}", ""
        case "partition_failed":
            return (
                f"partition {event['index'] + 1} of {event['partitions']}: "
                f"not read, {event['error']}",
                "",
            )
        case "reducing":
            return "", f"Writing the answer from {counted(event['evidence'], 'partition')}…"
        case "answering":
            return "", f"Writing the answer from {counted(event['documents'], 'document')}…"
        case "verifying":
            return "", f"Verifying {counted(event['sentences'], 'sentence')}…"
        case "verified":
            return (
                f"{event['supported']} of {counted(event['sentences'], 'sentence')} supported",
                "",
            )
        case "answered":
            return "", ""


class RunCost(BaseCallbackHandler):
    """Counts the steps and the model calls of a run, for the message on an interruption."""

    run_inline = True
    """Count calls when they start, not when a thread is free."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._steps: dict[str, str] = {}
        self._partitions = 0
        self._usage: dict[UUID, Mapping[str, Any] | None] = {}

    def show(self, event: Event) -> None:
        """Record a step of the graph."""
        match event["event"]:
            case "retrieved" | "route_decided":
                self._steps[event["event"]] = event_words(event)[0]
            case "partition_started" | "partition_done" | "partition_failed":
                self._partitions += event["event"] != "partition_started"
                count = f"{self._partitions} of {event['partitions']}"
                self._steps["partitions"] = f"{count} partitions read"

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **_: Any
    ) -> None:
        """Record a model call."""
        self._usage[run_id] = None

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Record the tokens of a call. A reply from the cache is not a call."""
        message = getattr(response.generations[0][0], "message", AIMessage(""))
        self._usage[run_id] = message.usage_metadata or {}
        if from_cache(message):
            del self._usage[run_id]

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record a failed call. A cancelled one counts as dropped."""
        if isinstance(error, Exception):
            self._usage[run_id] = {}

    def __str__(self) -> str:
        steps = f"Done: {'; '.join(self._steps.values())}." if self._steps else "Nothing was done."
        return f"Interrupted after {time.monotonic() - self._began:.1f} s. {steps} {self._calls()}"

    def _calls(self) -> str:
        usages = [usage for usage in self._usage.values() if usage is not None]
        dropped = len(self._usage) - len(usages)
        if not self._usage:
            return "No model was called."
        tokens = " and ".join(
            f"{sum(usage.get(f'{kind}_tokens', 0) for usage in usages):,} {kind}"
            for kind in ("input", "output")
        )
        note = ", and a provider may count dropped calls, too" if dropped else ""
        return (
            f"Model calls: {len(self._usage)}, {dropped} of them dropped; {tokens} tokens were "
            f"reported{note}."
        )


def run(question: Input, settings: Settings) -> dict[str, Any]:
    """Run the graph with progress; return its `answer` and `ranking`.

    Raises:
        BriefContextError: Bad input or set-up, or a failed model call.
        Interrupted: Ctrl-C. The message has the steps and the dropped calls.
    """
    cost = RunCost()
    try:
        with ProgressLines() as lines:
            # The graph's synchronous side would wait for the threads of the extractions.
            return wait_for(_run(question, settings, lines, cost))
    except KeyboardInterrupt:
        raise Interrupted(str(cost)) from None


def run_all(
    questions: Sequence[Input],
    settings: Settings,
    *,
    at_once: int,
    show: Callable[[int, dict[str, Any] | ModelCallError], None],
) -> None:
    """Run the graph on several questions at a time.

    Args:
        questions: Inputs of the graph.
        settings: Settings of all questions.
        at_once: Number of concurrent questions.
        show: Called in the order of the questions with the place and the state of each, or the
            error of its model calls.

    Raises:
        BriefContextError: A question or the set-up cannot be used.
        Interrupted: Ctrl-C. The calls in flight are dropped.
    """
    cost = RunCost()
    console = Console(stderr=True, highlight=False)
    try:
        with console.status(f"Asking {len(questions)} questions…") as status:

            def show_next(place: int, outcome: dict[str, Any] | ModelCallError) -> None:
                show(place, outcome)
                status.update(f"{place + 1} of {len(questions)} questions answered…")

            wait_for(_run_all(questions, settings, at_once, show_next, cost))
    except KeyboardInterrupt:
        raise Interrupted(str(cost)) from None


async def _run_all(
    questions: Sequence[Input],
    settings: Settings,
    at_once: int,
    show: Callable[[int, dict[str, Any] | ModelCallError], None],
    cost: RunCost,
) -> None:
    slots = asyncio.Semaphore(at_once)
    silent = ProgressLines(Console(quiet=True, stderr=True))

    async def answer(question: Input) -> dict[str, Any] | ModelCallError:
        async with slots:
            try:
                return await _run(question, settings, silent, cost)
            except ModelCallError as error:
                return error

    tasks = [asyncio.create_task(answer(question)) for question in questions]
    try:
        for place, task in enumerate(tasks):
            show(place, await task)
    finally:
        for task in tasks:
            task.cancel()


async def _run(
    question: Input, settings: Settings, lines: ProgressLines, cost: RunCost
) -> dict[str, Any]:
    state: dict[str, Any] = {}
    # Models stream the answer only to a terminal.
    modes = ["custom", "values", *(["messages"] if lines.live else [])]
    tokens = AnswerTokens()
    options: Any = {"context": settings, "stream_mode": modes, "output_keys": ["answer", "ranking"]}
    async for mode, part in graph.astream(question, {"callbacks": [cost]}, **options):
        if mode == "messages":
            for token in tokens.read(part):
                lines.show(token)
        elif mode == "custom":
            cost.show(part)
            lines.show(part)
        else:
            state = part
    return state
