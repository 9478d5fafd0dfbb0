"""What a run takes: told on standard error as it goes, and estimated beforehand, without a model."""

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
"""About what usual tokenizers make of English medical text."""
ANSWER_TOKENS = 183
"""Output tokens of an answer: what BriefContext reports for vanilla RAG at k = 8."""

_SECONDS_BETWEEN_LINES = 5.0
_MILLION = 1_000_000


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens; None where they are not known. Raises InputError where only one is."""

    input: float | None = None
    output: float | None = None

    def __post_init__(self) -> None:
        if (self.input is None) != (self.output is None):
            raise InputError(
                "--input-price and --output-price belong together: give both, or the cost would be "
                "wrong."
            )

    def cost(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return what the tokens cost in US dollars; None without prices."""
        if self.input is None or self.output is None:
            return None
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION

    def words(self, input_tokens: float, output_tokens: float) -> str:
        """Return the cost, or the tokens where there are no prices."""
        cost = self.cost(input_tokens, output_tokens)
        return (
            f"{input_tokens:,.0f} + {output_tokens:,.0f} tokens"
            if cost is None
            else f"${cost:,.2f}"
        )


def progress_bar(what: str, total: int, *, done: int = 0, hidden: bool = False) -> Any:
    """Return a bar on standard error that counts `what`, of which some are done already.

    Where that is no terminal, it is a line every few seconds.
    """
    seconds = 0.1 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES
    return tqdm(
        total=total, initial=done, unit=f" {what}", mininterval=seconds, smoothing=0, disable=hidden
    )


class CountingModel(BaseChatModel):
    """Stands in for the model in a dry run: counts what it is asked, and answers nothing.

    Every partition is taken to have evidence, the first sentence of its first document, so that the
    figure for the reduce step is no more than about right.
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
            extraction = {
                "relevant": True,
                "quotes": quotes,
                "finding": sentence,
                "choice": None,
                "confidence": 0.8,
            }
            text = json.dumps(extraction)
            made = round(len(text) / CHARACTERS_PER_TOKEN)
        usage = UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))]
        )


def estimate_table(answers: Mapping[str, Sequence[CallTrace]], prices: Prices) -> Table:
    """Make a table of what a run is estimated to take, from the calls of each answer of each method."""

    def row(title: str, count: int, calls: Sequence[TracedCall]) -> list[str]:
        tokens = [
            sum(call.input_tokens for call in calls),
            sum(call.output_tokens for call in calls),
        ]
        return [
            title,
            *(f"{number:,}" for number in (count, len(calls), *tokens)),
            prices.words(*tokens),
        ]

    calls = {
        method: [call for trace in some for call in trace.calls] for method, some in answers.items()
    }
    every = {call.request_sha256: call for some in calls.values() for call in some}
    rows = [row(title_of(method), len(some), calls[method]) for method, some in answers.items()]
    rows.append(
        row(
            "To be asked, equal requests once",
            sum(map(len, answers.values())),
            list(every.values()),
        )
    )
    return Table(
        "What this run takes",
        ["Method", "Answers", "Calls", "Input tokens", "Output tokens", "Cost"],
        rows,
        f"Estimated without a call: {CHARACTERS_PER_TOKEN} characters a token, {ANSWER_TOKENS} "
        f"output tokens an "
        "answer, evidence in every partition; retries and Self-Route's second readings are not counted.",
    )
