"""Running a question from the command line, with live progress on standard error."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult
from rich.console import Console
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.reply_cache import from_cache
from briefcontext.commands.terminal import Interrupted, counted, printable, printable_line
from briefcontext.errors import ModelCallError
from briefcontext.graphs.events import AnswerToken, AnswerTokens, Event
from briefcontext.graphs.graph import graph
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Input


class ProgressLines:
    """Says on standard error what is going on, and shows the answer as it grows; nothing where that is no terminal.

    Args:
        console: another place to say it.
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
        """Tell of a step of the graph, or show a piece of its answer."""
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
        """Show the answer as it grows, in place of what is being done; it goes when the checked answer is printed."""
        if event["attempt"] != self._attempt:
            self._answer, self._attempt = "", event["attempt"]
        self._answer += event["text"]
        # No more than fits: the status line is drawn anew each time, and what has left the screen
        # cannot be.
        room = max(1, self.console.height - 4) * self.console.width // 2
        self._status.update(escape(printable(self._answer.strip()[-room:])))


def event_words(event: Event) -> tuple[str, str]:
    """Say what is done, and what is being done now."""
    match event["event"]:
        case "encoding":
            return (
                "",
                f"Encoding the document for all questions: {event['passages']} of {event['total']} passages",
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
            quotes = counted(event["quotes"], "quote")
            found = (
                f"evidence, {quotes}"
                if event["status"] == "evidence"
                else "nothing on the question"
            )
            return f"partition {event['index'] + 1} of {event['partitions']}: {found}", ""
        case "partition_failed":
            return (
                f"partition {event['index'] + 1} of {event['partitions']}: not read, {event['error']}",
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


class SoFar(BaseCallbackHandler):
    """Keeps what was done and what it cost, for whoever ends a run before its answer is there."""

    run_inline = True
    """Calls are counted as they start, and not when a thread is free for it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._done: dict[str, str] = {}
        self._read = 0
        self._calls: dict[Any, Mapping[str, Any] | None] = {}

    def show(self, event: Event) -> None:
        """Note a step of the graph."""
        match event["event"]:
            case "retrieved" | "route_decided":
                self._done[event["event"]] = event_words(event)[0]
            case "partition_started" | "partition_done" | "partition_failed":
                self._read += event["event"] != "partition_started"
                self._done["partitions"] = f"{self._read} of {event['partitions']} partitions read"

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **_: Any) -> None:
        """Note a model call."""
        self._calls[run_id] = None

    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        """Note what it used."""
        message = (
            getattr(response.generations[0][0], "message", None) if response.generations else None
        )
        if message is not None and from_cache(message):
            del self._calls[run_id]
        else:
            self._calls[run_id] = getattr(message, "usage_metadata", None) or {}

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """Note that a provider refused it; one that was given up is still counted as dropped."""
        if isinstance(error, Exception):
            self._calls[run_id] = {}

    def __str__(self) -> str:
        done = f"Done: {'; '.join(self._done.values())}." if self._done else "Nothing was done yet."
        return f"Interrupted after {time.monotonic() - self._began:.1f} s. {done} {self._cost()}"

    def _cost(self) -> str:
        calls = list(self._calls.values())
        if not calls:
            return "No model was called."
        tokens = [
            sum(usage.get(name, 0) for usage in calls if usage)
            for name in ("input_tokens", "output_tokens")
        ]
        dropped = calls.count(None)
        return (
            f"Model calls: {len(calls)}, {dropped} of them dropped; {tokens[0]:,} input and "
            f"{tokens[1]:,} output "
            f"tokens were reported{', and a provider may count dropped calls, too' if dropped else ''}."
        )


def run(given: Input, settings: Settings) -> dict[str, Any]:
    """Run the graph, show its progress, and return its `answer` and the `ranking` that it was read from.

    Raises:
        BriefContextError: the input, the set-up or a model call is at fault. Interrupted: Ctrl-C;
            the calls in flight are dropped, and it says what was done and what it cost.
    """
    so_far = SoFar()
    try:
        with ProgressLines() as lines:
            # Not by the graph's synchronous side, which would wait for the threads that read the
            # partitions.
            return wait_for(_run(given, settings, lines, so_far))
    except KeyboardInterrupt:
        raise Interrupted(str(so_far)) from None


def run_all(
    questions: Sequence[Input],
    settings: Settings,
    *,
    at_once: int,
    show: Callable[[int, dict[str, Any] | ModelCallError], None],
) -> None:
    """Run the graph on several questions side by side.

    Args:
        questions: the graph's inputs.
        settings: the settings of all of them.
        at_once: how many run at the same time.
        show: called with the place and the state of each question, or the error of its model
            calls, in the order of the questions.

    Raises:
        BriefContextError: a question or the set-up cannot be used.
        Interrupted: Ctrl-C; the calls in flight are dropped.
    """
    so_far = SoFar()
    console = Console(stderr=True, highlight=False)
    try:
        with console.status(f"Asking {len(questions)} questions…") as status:

            def show_next(place: int, outcome: dict[str, Any] | ModelCallError) -> None:
                show(place, outcome)
                status.update(f"{place + 1} of {len(questions)} questions answered…")

            wait_for(_run_all(questions, settings, at_once, show_next, so_far))
    except KeyboardInterrupt:
        raise Interrupted(str(so_far)) from None


async def _run_all(
    questions: Sequence[Input],
    settings: Settings,
    at_once: int,
    show: Callable[[int, dict[str, Any] | ModelCallError], None],
    so_far: SoFar,
) -> None:
    slots = asyncio.Semaphore(at_once)
    silent = ProgressLines(Console(quiet=True, stderr=True))

    async def answer(question: Input) -> dict[str, Any] | ModelCallError:
        async with slots:
            try:
                return await _run(question, settings, silent, so_far)
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
    given: Input, settings: Settings, lines: ProgressLines, so_far: SoFar
) -> dict[str, Any]:
    state: dict[str, Any] = {}
    # Where nobody sees the answer grow, no model is asked to stream it.
    modes = ["custom", "values", *(["messages"] if lines.live else [])]
    tokens = AnswerTokens()
    options: Any = {"context": settings, "stream_mode": modes, "output_keys": ["answer", "ranking"]}
    async for mode, part in graph.astream(given, {"callbacks": [so_far]}, **options):
        if mode == "messages":
            for token in tokens.of(part):
                lines.show(token)
        elif mode == "custom":
            so_far.show(part)
            lines.show(part)
        else:
            state = part
    return state
