"""The settings and the call budget of the run that a node belongs to."""

from langgraph.runtime import get_runtime

from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.limits import CallLimits
from briefcontext.graphs.settings import Settings

__all__ = ["current_settings", "open_budget"]


def current_settings() -> Settings:
    """Return the settings of the run that this is called in; without `context=`, or outside of a run, all defaults.

    As a part of another graph, this one is handed that graph's context: if it is no `Settings`, all defaults hold.
    """
    context: object = getattr(get_runtime(Settings), "context", None)
    return context if isinstance(context, Settings) else Settings()


def open_budget(started: float) -> CallBudget:
    """Open the budget of one node's model calls, in a run that began at `started` (seconds since the epoch)."""
    settings = current_settings()
    return CallBudget(
        timeout=settings.model_timeout,
        max_retries=settings.max_retries,
        retry_wait=settings.retry_wait,
        deadline=None if settings.total_timeout is None else started + settings.total_timeout,
        limits=CallLimits(
            max_concurrent_calls=settings.max_concurrent_calls,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        ),
        max_input_tokens=settings.max_input_tokens,
        min_quote_similarity=settings.min_quote_similarity,
        force_choice=settings.force_choice,
        reduce=settings.reduce,
        on_partition_failure=settings.on_partition_failure,
    )
