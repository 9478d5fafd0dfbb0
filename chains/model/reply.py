"""Reading a reply: cut-offs, reasoning, and JSON records."""

import json
import re
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage

Cut = Literal["the token limit", "a content filter", "a broken connection"]
"""The reason why a reply was cut off."""

_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "incomplete_details")
"""Names of the finish reason: the usual one, Anthropic's, Bedrock's, Ollama's, and that of OpenAI's
Responses API.
"""
_LIMITS = ("length", "tokens", "context_window")
_FILTERS = ("filter", "safety", "prohibited", "guardrail", "refusal", "toxic")

_ADVICE: dict[Cut, str] = {
    "the token limit": "Open the model with a higher limit of output tokens (max_tokens; "
    "num_predict and num_ctx in Ollama), or use one that writes less.",
    "a content filter": "Ask in other words, or use a model without that filter.",
    "a broken connection": "Ask again.",
}


def cut_off(message: BaseMessage) -> Cut | None:
    """Return why a reply was cut off, by its provider's finish reason; None for a whole one."""
    metadata = message.response_metadata
    if metadata == {"model_provider": "openai"}:
        # The last chunk of a stream has the reason.
        return "a broken connection"
    # A stream may repeat the reason, and LangChain joins the repetitions.
    reason = " ".join(str(metadata.get(name, "")) for name in _REASONS).lower()
    if any(word in reason for word in _LIMITS):
        return "the token limit"
    if any(word in reason for word in _FILTERS):
        return "a content filter"
    return None


def cut_warning(cut: Cut, what: str) -> str:
    """Return the message on a cut reply, with the remedy."""
    return f"{what} was cut off by {cut}, so that its end is missing. {_ADVICE[cut]}"


def cut_message(error: Exception) -> AIMessage | None:
    """Return the cut reply that OpenAI's client raises as an error; None for any other error."""
    from openai import ContentFilterFinishReasonError, LengthFinishReasonError

    if not isinstance(error, ContentFilterFinishReasonError | LengthFinishReasonError):
        return None
    reason = "length" if isinstance(error, LengthFinishReasonError) else "content_filter"
    message = AIMessage("", response_metadata={"finish_reason": reason})
    if error.completion and error.completion.choices:
        message.content = error.completion.choices[0].message.content or ""
    if error.completion and (usage := error.completion.usage):
        details = usage.prompt_tokens_details
        message.usage_metadata = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "input_token_details": {"cache_read": (details and details.cached_tokens) or 0},
        }
    return message


_OPENING, _CLOSING = "<think>", "</think>"
_TAG = re.compile(f"{_OPENING}|{_CLOSING}")


def without_reasoning(text: str, *, unfinished: bool = False) -> str:
    """Return a reply without the reasoning at its beginning; nothing if that has no end.

    Later tags may be words of a quoted document. A closing tag without an opening one ends
    reasoning that the chat template began, unless the reply begins as JSON. An unfinished text also
    loses a tag that has only begun.
    """
    if unfinished:
        begun = text.rfind("<")
        if any(tag.startswith(text[begun:]) for tag in (_OPENING, _CLOSING)):
            text = text[:begun]
    words = text.lstrip()
    if not words.startswith(_OPENING):
        thought, closing, rest = words.partition(_CLOSING)
        if not closing or _OPENING in thought or thought.startswith(("{", "[", "```")):
            return text
        words = rest.lstrip()
    while words.startswith(_OPENING):
        words = words[_end_of_thought(words) :].lstrip()
    return words


def _end_of_thought(words: str) -> int:
    """Return the end of the reasoning that begins a text, or the end of the text."""
    depth, last = 0, len(words)
    for tag in _TAG.finditer(words):
        depth += 1 if tag[0] == _OPENING else -1
        last = tag.end() if tag[0] == _CLOSING else last
        if depth == 0:
            return tag.end()
    return last


def reply_words(message: AIMessage) -> str:
    """Return the arguments of function calls, else the text without reasoning, else the refusal."""
    calls = [json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls]
    calls += [call["args"] or "" for call in message.invalid_tool_calls]
    said = "\n".join(calls)
    if not said.strip():
        said = without_reasoning(message.text)
    if not said.strip():
        # OpenAI's field next to an empty content.
        refusal = str(message.additional_kwargs.get("refusal") or "")
        said = f"NO ANSWER: {refusal}" if refusal.strip() else ""
    return said if said.strip() else ""


_DECODER = json.JSONDecoder(strict=False)
"""Also accepts line breaks within strings."""
_OBJECT_BEGINS = re.compile(r'\{\s*"')


def read_record(text: str, field: str, *, cut_off: bool = False) -> dict[str, Any]:
    """Return the one JSON object of a text that has a field, also from prose or a wrapper.

    A text that was cut off counts only if all of it is one object: an object before the cut may be
    an example, or the first of several. Raises ValueError if there is not exactly one object.
    """
    records, place = [], 0
    try:
        if cut_off:
            _DECODER.decode(text)
        while begun := _OBJECT_BEGINS.search(text, place):
            value, place = _DECODER.raw_decode(text, begun.start())
            while isinstance(value, dict) and field not in value and len(value) == 1:
                (value,) = value.values()
            if isinstance(value, dict) and field in value:
                records.append(value)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not records:
        raise ValueError(f'the reply has no JSON object with the field "{field}"')
    if len(records) > 1:
        raise ValueError(f"the reply has {len(records)} JSON objects in place of one")
    return records[0]
