"""Finish reasons: whether a reply ended on its own, or was cut off."""

import re
from typing import Literal

from langchain_core.messages import AIMessage, BaseMessage

__all__ = ["Cut", "cut_message", "cut_off", "cut_warning"]

Cut = Literal["the token limit", "a content filter"]
"""What cut a reply off."""

_NAMES = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""OpenAI, Gemini, Mistral and Cohere; Anthropic; Bedrock; Ollama."""
# Searched for, and not compared: the pieces of a stream that each carry the reason are put together as one word.
_LIMIT = re.compile(r"length|max_?(?:output_?|new_?)?tokens|context_window", re.IGNORECASE)
_FILTER = re.compile(
    r"content_?filter|safety|recitation|blocklist|prohibited|spii|model_armor|guardrail|refusal|toxic", re.IGNORECASE
)

_MENDING: dict[Cut, str] = {
    "the token limit": "Open the model with a higher limit of output tokens (max_tokens; num_predict and num_ctx in "
    "Ollama), or use one that writes less.",
    "a content filter": "Ask in other words, or use a model without that filter.",
}


def cut_off(message: BaseMessage) -> Cut | None:
    """Return what cut a reply off, by the reason that its provider gives; None for a whole one."""
    given = message.response_metadata
    details = given.get("incomplete_details")
    reasons = [given.get(name) for name in _NAMES] + [details.get("reason") if isinstance(details, dict) else None]
    reason = " ".join(str(getattr(reason, "name", reason)) for reason in reasons if reason is not None)
    return "the token limit" if _LIMIT.search(reason) else "a content filter" if _FILTER.search(reason) else None


def cut_warning(cut: Cut, what: str) -> str:
    """Say that something was cut off, and how to mend it."""
    return f"{what} was cut off by {cut}, so that its end is missing. {_MENDING[cut]}"


def cut_message(error: Exception) -> AIMessage | None:
    """Return the reply that OpenAI's client threw away because it was cut off; None for any other error."""
    from openai import ContentFilterFinishReasonError, LengthFinishReasonError

    if not isinstance(error, ContentFilterFinishReasonError | LengthFinishReasonError):
        return None
    reason = "length" if isinstance(error, LengthFinishReasonError) else "content_filter"
    completion = error.completion
    text = (completion.choices[0].message.content or "") if completion and completion.choices else ""
    message = AIMessage(text, response_metadata={"finish_reason": reason})
    if completion and (usage := completion.usage):
        details = usage.prompt_tokens_details
        message.usage_metadata = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "input_token_details": {"cache_read": (details.cached_tokens if details else None) or 0},
        }
    return message
