"""The progress of a run on standard error, and the estimate of its calls without a model."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from tqdm import tqdm  # type: ignore[import-untyped]

from briefcontext.errors import InputError
from briefcontext.evaluation.methods.models import DOCUMENT, CallTrace, TracedCall
from briefcontext.evaluation.statistics.tables import Table, title_of

CHARACTERS_PER_TOKEN = 4
"""Approximate, for English medical text."""
ANSWER_TOKENS = 183
"""Output tokens of an answer: BriefContext's figure for vanilla RAG at k = 8."""
_MILLION = 1_000_000


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens; None if unknown. Raises InputError if only one is given."""

    input: float | None = None
    output: float | None = None

    def __post_init__(self) -> None:
        if (self.input is None) != (self.output is None):
            raise InputError("--input-price and --output-price belong together: give both.")

    @property
    def known(self) -> bool:
        """True if there are prices."""
        return self.input is not None

    def cost(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return the cost in US dollars; None without prices."""
        if self.input is None or self.output is None:
            return None
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION

    def words(self, input_tokens: float, output_tokens: float) -> str:
        """Return the cost, or the tokens without prices."""
        cost = self.cost(input_tokens, output_tokens)
        tokens = f"{input_tokens:,.0f} + {output_tokens:,.0f} tokens"
        return tokens if cost is None else f"${cost:,.2f}"


def progress_bar(what: str, total: int, *, done: int = 0, hidden: bool = False) -> Any:
    """Return a bar on standard error that counts `what`; without a terminal a line now and then."""
    seconds = 0.1 if sys.stderr.isatty() else 5.0
    return tqdm(
        total=total, initial=done, unit=f" {what}", mininterval=seconds, smoothing=0, disable=hidden
    )


class CountingModel(BaseChatModel):
    """A model for a dry run that counts its input."""

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = "\n".join(message.text for message in messages)
        given, text, made = round(len(prompt) / CHARACTERS_PER_TOKEN), "Choice: A", ANSWER_TOKENS
        document = DOCUMENT.search(prompt) if "JSON" in messages[0].text else None
        if document:
            sentence = document[2].split("\n")[-1].split(". ")[0]
            quotes = [{"key": document[1], "quote": sentence}]
            result = {"relevant": True, "quotes": quotes, "finding": sentence, "confidence": 0.8}
            text = json.dumps(result)
            made = round(len(text) / CHARACTERS_PER_TOKEN)
        usage = UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
        message = AIMessage(text, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def estimate_table(answers: Mapping[str, Sequence[CallTrace]], prices: Prices) -> Table:
    """Make a table of the estimated calls and tokens, from the calls of each method's answers."""

    def row(title: str, count: int, calls: Sequence[TracedCall]) -> list[str]:
        given, made = (
            sum(getattr(call, name) for call in calls) for name in ("input_tokens", "output_tokens")
        )
        numbers = (f"{number:,}" for number in (count, len(calls), given, made))
        return [title, *numbers, prices.words(given, made)]

    rows: list[list[str]] = []
    every: dict[str, TracedCall] = {}
    for method, traces in answers.items():
        calls = [call for trace in traces for call in trace.calls]
        every |= {call.request_sha256: call for call in calls}
        rows.append(row(title_of(method), len(traces), calls))
    total = sum(map(len, answers.values()))
    rows.append(row("To be asked, equal requests once", total, list(every.values())))
    note = (
        f"Estimated without a call: {CHARACTERS_PER_TOKEN} characters a token, {ANSWER_TOKENS} "
        "output tokens an answer, evidence in every partition; without retries and Self-Route's "
        "second readings."
    )
    heads = ["Method", "Answers", "Calls", "Input tokens", "Output tokens", "Cost"]
    return Table("What this run takes", heads, rows, [note])
