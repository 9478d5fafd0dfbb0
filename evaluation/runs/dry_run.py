"""Estimation of a run's calls and tokens, without a model."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from briefcontext.evaluation.methods.call_trace import DOCUMENT, CallTrace, TracedCall
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.statistics.tables import Table, title_of

__all__ = ["CountingModel", "estimate_table"]

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


def estimate_table(answers: Mapping[str, Sequence[tuple[str, CallTrace]]], prices: Prices) -> Table:
    """Make a table of what a run is estimated to take, from the answers of each method with their calls."""

    def row(title: str, count: int, calls: Sequence[TracedCall]) -> list[str]:
        tokens = [sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)]
        return [title, *(f"{number:,}" for number in (count, len(calls), *tokens)), prices.words(*tokens)]

    calls = {method: [call for _, trace in some for call in trace.calls] for method, some in answers.items()}
    # Equal requests are asked once.
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
