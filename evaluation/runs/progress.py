"""What a run takes: told on standard error as it goes, and estimated beforehand, without a model."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TextIO

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from briefcontext.evaluation.methods.models import DOCUMENT, CallTrace, TracedCall
from briefcontext.evaluation.statistics.tables import Table, title_of

CHARACTERS_PER_TOKEN = 4
"""About what usual tokenizers make of English medical text."""
ANSWER_TOKENS = 183
"""Output tokens of an answer: what BriefContext reports for vanilla RAG at k = 8."""

_SECONDS_BETWEEN_LINES = 5.0
_MILLION = 1_000_000
_TELLING = 5
"""How many have to be done before the rate tells the time left: the first one also opens the model and the base."""


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens; None where they are not known."""

    input: float | None = None
    output: float | None = None

    def cost(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return what the tokens cost in US dollars; None without prices."""
        if self.input is None and self.output is None:
            return None
        return (input_tokens * (self.input or 0) + output_tokens * (self.output or 0)) / _MILLION

    def words(self, input_tokens: float, output_tokens: float) -> str:
        """Return the cost, or the tokens where there are no prices."""
        cost = self.cost(input_tokens, output_tokens)
        return f"{input_tokens:,.0f} + {output_tokens:,.0f} tokens" if cost is None else f"${cost:,.2f}"


class CountedProgress:
    """Counts what is done, `what` in the plural; one line that is renewed on a terminal, else one every few seconds.

    `total` is 0 while it is not known, `done` are there already, and `stream` is standard error by default.
    """

    def __init__(self, what: str, total: int = 0, *, done: int = 0, stream: TextIO | None = None) -> None:
        self._what, self._total, self._done, self._already = what, total, done, done
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._started = self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._already:
            self._write(f"{self._already} of {self._total} {self._what} are there already.")
        return self

    def __exit__(self, *_: object) -> None:
        if self._total:
            self._write(self.line())

    def reach(self, done: int, total: int) -> None:
        """Say how many are done, and of how many."""
        self._done, self._total = done, total
        now = time.monotonic()
        if self._live or now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            self._write(self.line(), end="" if self._live else "\n")

    def line(self) -> str:
        """Return how far the run is."""
        made = self._done - self._already
        rate = made / max(time.monotonic() - self._started, 1e-9)
        line = f"{self._done} of {self._total} {self._what}, {rate:.1f}/s"
        if made < _TELLING or self._done == self._total:
            return line
        return f"{line}, {timedelta(seconds=round((self._total - self._done) / rate))} left"

    def _write(self, line: str, end: str = "\n") -> None:
        start = "\r\x1b[2K" if self._live else ""
        self._stream.write(f"{start}{line}{end}")
        self._stream.flush()


class RunProgress(CountedProgress):
    """Counts the answers of a run, with their calls and what those cost so far."""

    def __init__(self, total: int, prices: Prices, *, done: int = 0, stream: TextIO | None = None) -> None:
        super().__init__("answers", total, done=done, stream=stream)
        self._prices = prices
        self._failed = self._calls = self._given = self._made = 0

    def add(self, *, failed: bool, calls: int, input_tokens: int, output_tokens: int) -> None:
        """Count an answer, and the calls and tokens that were paid for it."""
        self._failed += failed
        self._calls += calls
        self._given += input_tokens
        self._made += output_tokens
        self.reach(self._done + 1, self._total)

    def line(self) -> str:
        """Return how far the run is, and what it cost."""
        failed = f", {self._failed} failed" if self._failed else ""
        calls = f"{self._calls} {'call' if self._calls == 1 else 'calls'}"
        return f"{super().line()}, {calls}, {self._prices.words(self._given, self._made)}{failed}"


class CountingModel(BaseChatModel):
    """Stands in for the model in a dry run: counts what it is asked, and answers nothing.

    Every partition is taken to have evidence, the first sentence of its first document, so that the figure for the
    reduce step is no more than about right.
    """

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = "\n".join(message.text for message in messages)
        given, text, made = round(len(prompt) / CHARACTERS_PER_TOKEN), "Choice: A", ANSWER_TOKENS
        if "JSON" in messages[0].text and (found := DOCUMENT.search(prompt)):
            sentence = found[2].split("\n")[-1].split(". ")[0]
            quotes = [{"key": found[1], "quote": sentence}]
            extraction = {"relevant": True, "quotes": quotes, "finding": sentence, "choice": None, "confidence": 0.8}
            text = json.dumps(extraction)
            made = round(len(text) / CHARACTERS_PER_TOKEN)
        usage = UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))])


def estimate_table(answers: Mapping[str, Sequence[CallTrace]], prices: Prices) -> Table:
    """Make a table of what a run is estimated to take, from the calls of each answer of each method."""

    def row(title: str, count: int, calls: Sequence[TracedCall]) -> list[str]:
        tokens = [sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)]
        return [title, *(f"{number:,}" for number in (count, len(calls), *tokens)), prices.words(*tokens)]

    calls = {method: [call for trace in some for call in trace.calls] for method, some in answers.items()}
    every = {call.request_sha256: call for some in calls.values() for call in some}
    rows = [row(title_of(method), len(some), calls[method]) for method, some in answers.items()]
    rows.append(row("To be asked, equal requests once", sum(map(len, answers.values())), list(every.values())))
    return Table(
        "What this run takes",
        ["Method", "Answers", "Calls", "Input tokens", "Output tokens", "Cost"],
        rows,
        f"Estimated without a call: {CHARACTERS_PER_TOKEN} characters a token, {ANSWER_TOKENS} output tokens an "
        "answer, evidence in every partition; retries and Self-Route's second readings are not counted.",
    )
