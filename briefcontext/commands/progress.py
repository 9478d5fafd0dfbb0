"""Running a question from the command line, with live progress on standard error."""

from collections.abc import Mapping
from typing import Any, Self, cast

from rich.console import Console
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from briefcontext.commands.printable import printable, printable_line
from briefcontext.graphs.events import AnswerToken, Encoding, Event
from briefcontext.graphs.graph import graph
from briefcontext.graphs.settings import Settings

__all__ = ["ProgressLines", "event_words", "run"]


class ProgressLines:
    """Says on standard error what is going on, and shows the answer as it grows; nothing where that is no terminal.

    Args:
        console: another place to say it.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._live = self.console.is_terminal
        self._status = self.console.status("Opening the knowledge base…")
        self._answer = ""
        self._attempt = 0

    def __enter__(self) -> Self:
        if self._live:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, event: Event) -> None:
        """Tell of a step of the graph."""
        if not self._live:
            return
        if event["event"] == "answer_token":
            self._show_token(event)
            return
        if event["event"] == "encoding":
            self._status.update(_bar(event))
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
        # No more than fits: the status line is drawn anew each time, and what has left the screen cannot be.
        room = max(1, self.console.height - 4) * self.console.width // 2
        self._status.update(escape(printable(self._answer.strip()[-room:])))


def _bar(event: Encoding) -> Table:
    """Show how much of a document is encoded."""
    _, doing = event_words(event)
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=event["total"], completed=event["passages"], width=20), doing)
    return row


def event_words(event: Event) -> tuple[str, str]:
    """Say what is done, and what is being done now."""
    match event["event"]:
        case "encoding":
            return "", f"Encoding the document for all questions: {event['passages']} of {event['total']} passages"
        case "retrieved":
            return f"{event['documents']} documents retrieved", "Comparing the rankings…"
        case "route_decided":
            return f"{event['route']}: {event['reason']}", "Reading…"
        case "partition_started":
            return "", f"Reading {event['partitions']} partitions at once…"
        case "partition_done":
            found = (
                f"evidence, {event['quotes']} quotes" if event["status"] == "evidence" else "nothing on the question"
            )
            return f"partition {event['index'] + 1} of {event['partitions']}: {found}", ""
        case "partition_failed":
            return f"partition {event['index'] + 1} of {event['partitions']}: not read, {event['error']}", ""
        case "reducing":
            return "", f"Writing the answer from {event['evidence']} partitions…"
        case "answering":
            return "", f"Writing the answer from {event['documents']} documents…"
        case "answer_token" | "answered":
            return "", ""


def run(question: str, options: Mapping[str, str], settings: Settings, lines: ProgressLines) -> dict[str, Any]:
    """Run the graph, show its events, and return its final state.

    Raises:
        BriefContextError: the input, the set-up or a model call is at fault.
    """
    state: dict[str, Any] = {}
    given: Any = {"question": question, "options": dict(options)}
    for mode, part in graph.stream(given, context=settings, stream_mode=["custom", "updates"]):
        if mode == "custom":
            lines.show(cast(Event, part))
        else:
            for values in cast(dict[str, dict[str, Any]], part).values():
                state.update(values)
    return state
