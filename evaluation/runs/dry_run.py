"""Estimation of a run's calls and tokens, without a model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from briefcontext.evaluation.methods.call_trace import DOCUMENT
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.statistics.score_tables import Table, title_of

__all__ = ["CountingModel", "Estimate", "estimate_table"]

CHARACTERS_PER_TOKEN = 4
"""About what usual tokenizers make of English medical text."""
ANSWER_TOKENS = 183
"""Output tokens of an answer: what BriefContext reports for vanilla RAG at k = 8."""


class CountingModel(BaseChatModel):
    """Stands in for the model in a dry run: counts what it is asked, and answers nothing.

    Every partition is taken to have evidence: the first sentence of its first document. So the figure for the reduce
    step is no more than about right, and the one for the extractions is exact but for the tokenizer.
    """

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = "\n".join(message.text for message in messages)
        extraction = "JSON" in messages[0].text
        text = self._extraction(prompt) if extraction else "Choice: A"
        given = round(len(prompt) / CHARACTERS_PER_TOKEN)
        made = round(len(text) / CHARACTERS_PER_TOKEN) if extraction else ANSWER_TOKENS
        usage = UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))])

    @staticmethod
    def _extraction(prompt: str) -> str:
        found = DOCUMENT.search(prompt)
        if found is None:
            return json.dumps({"relevant": False})
        sentence = found[2].split("\n")[-1].split(". ")[0]
        quotes = [{"key": found[1], "quote": sentence}]
        return json.dumps({"relevant": True, "quotes": quotes, "finding": sentence, "choice": None, "confidence": 0.8})


@dataclass
class Estimate:
    """What a run is estimated to take, by method."""

    answers: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    input_tokens: dict[str, int] = field(default_factory=dict)
    output_tokens: dict[str, int] = field(default_factory=dict)
    requests: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Input and output tokens by request: equal ones are asked once."""

    def add(self, method: str, calls: Sequence[Any]) -> None:
        """Count an answer."""
        for counted, amount in (
            (self.answers, 1),
            (self.calls, len(calls)),
            (self.input_tokens, sum(call.input_tokens for call in calls)),
            (self.output_tokens, sum(call.output_tokens for call in calls)),
        ):
            counted[method] = counted.get(method, 0) + amount
        self.requests.update((call.request, (call.input_tokens, call.output_tokens)) for call in calls)


def estimate_table(estimate: Estimate, prices: Prices) -> Table:
    """Make a table of an estimate."""
    rows = [
        [
            title_of(name),
            *(f"{counted[name]:,}" for counted in (
                estimate.answers, estimate.calls, estimate.input_tokens, estimate.output_tokens
            )),
            prices.words(estimate.input_tokens[name], estimate.output_tokens[name]),
        ]
        for name in estimate.answers
    ]  # fmt: skip
    given, made = (sum(tokens[side] for tokens in estimate.requests.values()) for side in (0, 1))
    rows.append(
        [
            "To be asked, equal requests once",
            f"{sum(estimate.answers.values()):,}",
            f"{len(estimate.requests):,}",
            f"{given:,}",
            f"{made:,}",
            prices.words(given, made),
        ]
    )
    return Table(
        "What this run takes",
        ["Method", "Answers", "Calls", "Input tokens", "Output tokens", "Cost"],
        rows,
        f"Estimated without a call: {CHARACTERS_PER_TOKEN} characters a token, {ANSWER_TOKENS} output tokens an "
        "answer, evidence in every partition; retries and Self-Route's second readings are not counted.",
    )
