"""Usage of model calls: tokens, attempts and times of one answer."""

from collections.abc import Iterable, Sequence
from typing import Literal

from typing_extensions import TypedDict

VERIFY = "verify"
"""The stage of the verification's calls, which every route would make."""


class ModelCall(TypedDict):
    """One attempt to call a language model."""

    stage: str
    """The node that made it: `extract`, `reduce`, `vanilla`, `order_preserving` or `verify`."""
    model: str
    status: Literal["ok", "failed", "cached"]
    """`cached`: the reply came from the cache, without a call."""
    attempt: int
    """Number of the attempt, from 1. Another form of output or a repair is another call."""
    input_characters: int
    input_tokens: int
    cached_input_tokens: int
    """Input tokens that the provider had in its prompt cache."""
    output_tokens: int
    """Tokens as reported by the provider; 0 if it reports none, and for a cached reply."""
    started: float
    ended: float
    """Seconds since the epoch."""


class UsageSum(TypedDict):
    """The sum of several calls."""

    calls: int
    """Calls that were sent, including those that failed."""
    failed_calls: int
    """Calls that failed."""
    retries: int
    """Calls that repeated one that had failed."""
    cache_hits: int
    """Replies from the cache; they are not calls and cost nothing."""
    input_tokens: int
    """Input tokens, as the provider counts them."""
    cached_input_tokens: int
    """Input tokens that the provider had in its prompt cache."""
    output_tokens: int
    """Output tokens, as the provider counts them."""
    seconds: float
    """Wall time from the start of the first call to the end of the last."""


class Usage(UsageSum):
    """All calls of one answer, with an estimate for one call over the same documents.

    The paper compares the tokens that the map and vanilla read and write (Zhang et al., npj Digital
    Medicine 2025, equations 4 and 5). The provider counts the calls that were made, including
    retries and repairs. The vanilla call, which was not made, is estimated.
    """

    stages: dict[str, UsageSum]
    """The sums by node: `extract`, `reduce`, `vanilla`, `order_preserving` or `verify`."""
    models: dict[str, UsageSum]
    """The sums by model."""
    vanilla_input_tokens: int | None
    """Estimated input tokens of one call over the same documents; null if unknown."""
    input_ratio: float | None
    """Input tokens without those of the verification, divided by `vanilla_input_tokens`."""
    vanilla_output_tokens: int | None
    """Estimated output tokens of that call: the tokens of the answer and, after a map, of a quote
    of each document with evidence; null if no answer was written.
    """
    output_ratio: float | None
    """Output tokens without those of the verification, divided by `vanilla_output_tokens`."""


def summarise(
    calls: Sequence[ModelCall],
    *,
    seconds: float,
    vanilla_input_tokens: int | None = None,
    vanilla_output_tokens: int | None = None,
) -> Usage:
    """Add up the calls of one answer: in all, by stage and by model."""
    total = _sum(calls)
    total["seconds"] = seconds
    compared = _sum([call for call in calls if call["stage"] != VERIFY])
    return Usage(
        **total,
        stages=_by((call["stage"], call) for call in calls),
        models=_by((call["model"], call) for call in calls),
        vanilla_input_tokens=vanilla_input_tokens,
        input_ratio=compared["input_tokens"] / vanilla_input_tokens
        if vanilla_input_tokens
        else None,
        vanilla_output_tokens=vanilla_output_tokens,
        output_ratio=compared["output_tokens"] / vanilla_output_tokens
        if vanilla_output_tokens
        else None,
    )


def _by(labelled: Iterable[tuple[str, ModelCall]]) -> dict[str, UsageSum]:
    groups: dict[str, list[ModelCall]] = {}
    for label, call in labelled:
        groups.setdefault(label, []).append(call)
    return {label: _sum(calls) for label, calls in groups.items()}


def _sum(calls: Sequence[ModelCall]) -> UsageSum:
    statuses = [call["status"] for call in calls]
    return UsageSum(
        calls=len(calls) - statuses.count("cached"),
        failed_calls=statuses.count("failed"),
        retries=sum(call["attempt"] > 1 and call["status"] != "cached" for call in calls),
        cache_hits=statuses.count("cached"),
        input_tokens=sum(call["input_tokens"] for call in calls),
        cached_input_tokens=sum(call["cached_input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        seconds=max(call["ended"] for call in calls) - min(call["started"] for call in calls)
        if calls
        else 0.0,
    )


def estimate_tokens(characters: int, calls: Sequence[ModelCall]) -> int | None:
    """Estimate the tokens of a prompt from the tokens per character of earlier calls.

    Returns:
        None if no call reported its tokens.
    """
    reported = [call for call in calls if call["input_tokens"]]
    seen = sum(call["input_characters"] for call in reported)
    return (
        round(characters * sum(call["input_tokens"] for call in reported) / seen) if seen else None
    )
