"""What a node finds in the run that it belongs to: its settings, and the bounds of its model calls."""

from langgraph.runtime import get_runtime

from briefcontext.chains.account import Account
from briefcontext.chains.limits import CallLimits
from briefcontext.graphs.events import AnswerToken, emit
from briefcontext.graphs.retrieval import encodable
from briefcontext.graphs.settings import Settings

__all__ = ["current_settings", "open_account"]


def current_settings() -> Settings:
    """Return the settings of the run that this is called in; without `context=`, or outside of a run, all defaults.

    As a part of another graph, this one is handed that graph's context: if it is no `Settings`, all defaults hold.
    """
    context: object = getattr(get_runtime(Settings), "context", None)
    return context if isinstance(context, Settings) else Settings()


def open_account(started: float) -> Account:
    """Open the account of one node's model calls, in a run that began at `started` (seconds since the epoch)."""
    settings = current_settings()
    return Account(
        timeout=settings.call_timeout,
        max_retries=settings.max_retries,
        retry_wait=settings.retry_wait,
        deadline=None if settings.deadline is None else started + settings.deadline,
        limits=CallLimits(
            max_in_flight=settings.max_in_flight,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        ),
        max_input_tokens=settings.max_input_tokens,
        quote_similarity=settings.quote_similarity,
        force_choice=settings.force_choice,
        on_partition_failure=settings.on_partition_failure,
        tell=_tell,
    )


def _tell(text: str, attempt: int) -> None:
    emit(AnswerToken(event="answer_token", text=encodable(text), attempt=attempt))
