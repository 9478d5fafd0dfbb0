"""Limits and usage of one node's model calls."""

import time
from dataclasses import dataclass, field
from typing import Literal

from briefcontext.chains.model.limits import CallLimits
from briefcontext.chains.model.usage import ModelCall
from briefcontext.errors import ModelCallError

__all__ = ["CallBudget"]


@dataclass
class CallBudget:
    """The limits of one node's model calls, and the calls made.

    The record is complete also when the reading ends in an error.
    """

    timeout: float = 120.0
    """Seconds for one call."""
    max_retries: int = 4
    """How often a call that failed is tried again."""
    retry_wait: float = 1.0
    """Seconds before the first retry, doubled for each further one; a reply's Retry-After counts more."""
    deadline: float | None = None
    """When the whole question has to be answered, in seconds since the epoch."""
    limits: CallLimits = field(default_factory=CallLimits)
    max_input_tokens: int | None = None
    """The model's input window; None for what the model itself says."""
    min_quote_similarity: float = 90.0
    """Least similarity, 0 to 100, at which differing words count as a quote."""
    force_choice: bool = False
    """Whether a multiple-choice question must be answered with a letter, evidence or not."""
    reduce: Literal["always", "auto"] = "always"
    """Whether a single partition's finding, cited and whole, is the answer without a further call (auto)."""
    on_partition_failure: Literal["report", "raise"] = "report"
    """Whether a part of an over-long partition that cannot be read is reported, or fails the whole of it."""
    calls: list[ModelCall] = field(default_factory=list)
    """The calls made so far."""

    def time_left(self, *, after: float = 0.0) -> float:
        """Return the seconds that a call may take that starts `after` seconds from now.

        Raises:
            ModelCallError: the deadline has passed by then.
        """
        left = self.time_to_deadline()
        if left is None:
            return self.timeout
        if left <= after:
            raise ModelCallError(
                "The deadline for the question leaves no time for a model call. "
                "Raise total_timeout, or ask for fewer documents."
            )
        return min(self.timeout, left - after)

    def time_to_deadline(self) -> float | None:
        """Return the seconds that the whole question still has; None without a deadline."""
        return None if self.deadline is None else self.deadline - time.time()
