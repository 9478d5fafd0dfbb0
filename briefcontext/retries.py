"""Retries of requests: temporary failures, and the waits between attempts."""

from typing import Any

from tenacity import RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_base


class PassingError(Exception):
    """A temporary failure of a request, with the wait that the server asks for, in seconds."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.wait = wait


def may_pass(status: int) -> bool:
    """Return whether a request with this HTTP status may succeed on a retry."""
    return status in (408, 409, 429) or status >= 500


def retry_policy(tries: int, backoff: wait_base) -> dict[str, Any]:
    """Return tenacity's options that repeat a request after a `PassingError`.

    Args:
        tries: Number of attempts.
        backoff: The wait if the server asks for none.
    """

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        wanted = error.wait if isinstance(error, PassingError) else None
        return backoff(state) if wanted is None else wanted

    return {
        "retry": retry_if_exception_type(PassingError),
        "stop": stop_after_attempt(tries),
        "wait": wait,
        "reraise": True,
    }
