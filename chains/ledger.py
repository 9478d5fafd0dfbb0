"""The ledger: what the model calls for one answer used."""

from collections.abc import Iterable, Sequence
from typing import Literal

from typing_extensions import TypedDict

__all__ = ["ModelCall", "Usage", "UsageSum", "estimate_tokens", "summarise"]


class ModelCall(TypedDict):
    """One attempt to call a language model."""

    stage: str
    """The node that made it: `extract`, `reduce`, `vanilla` or `order_preserving`."""
    model: str
    status: Literal["ok", "failed", "cached"]
    """`cached`: the reply came from the cache, and no call went out."""
    input_characters: int
    input_tokens: int
    cached_input_tokens: int
    """Those of the input tokens that the provider had in its own prompt cache."""
    output_tokens: int
    """Tokens as the provider reports them; 0 where it reports none, and for a cached reply."""
    started: float
    ended: float
    """Seconds since the epoch."""


class UsageSum(TypedDict):
    """Several calls, added up."""

    calls: int
    """Calls that went out, those that failed included."""
    failed_calls: int
    cache_hits: int
    """Replies from the cache; they count as no call and cost nothing."""
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    seconds: float
    """Wall time from the start of the first to the end of the last."""


class Usage(UsageSum):
    """All calls of one answer, added up; `seconds` is from question to answer."""

    stages: dict[str, UsageSum]
    models: dict[str, UsageSum]
    vanilla_input_tokens: int | None
    """Estimate of what one call over the same documents would have read; None without a model."""
    input_ratio: float | None
    """Input tokens over `vanilla_input_tokens`: what the map cost against one call."""


def summarise(calls: Sequence[ModelCall], *, seconds: float, vanilla_input_tokens: int | None) -> Usage:
    """Add up the calls of one answer: in all, by stage and by model."""
    total = _sum(calls)
    total["seconds"] = seconds
    return Usage(
        **total,
        stages=_by((call["stage"], call) for call in calls),
        models=_by((call["model"], call) for call in calls),
        vanilla_input_tokens=vanilla_input_tokens,
        input_ratio=total["input_tokens"] / vanilla_input_tokens if vanilla_input_tokens else None,
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
        cache_hits=statuses.count("cached"),
        input_tokens=sum(call["input_tokens"] for call in calls),
        cached_input_tokens=sum(call["cached_input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        seconds=max(call["ended"] for call in calls) - min(call["started"] for call in calls) if calls else 0.0,
    )


def estimate_tokens(characters: int, calls: Sequence[ModelCall]) -> int | None:
    """Estimate the tokens of a prompt from the tokens per character of the calls that were made.

    Returns:
        None when no call reported its tokens.
    """
    reported = [call for call in calls if call["input_tokens"]]
    seen = sum(call["input_characters"] for call in reported)
    return round(characters * sum(call["input_tokens"] for call in reported) / seen) if seen else None
