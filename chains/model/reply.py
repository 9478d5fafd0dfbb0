"""How a reply is read: whether it was cut off, without the thoughts before it, and as a record of JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage

Cut = Literal["the token limit", "a content filter", "a broken connection"]
"""What cut a reply off."""

_REASON_FIELDS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""OpenAI, Gemini, Mistral and Cohere; Anthropic; Bedrock; Ollama."""
# Searched for, and not compared: the pieces of a stream that each carry the reason are put together
# as one word.
_LIMIT = re.compile(r"length|max_?(?:output_?|new_?)?tokens|context_window", re.IGNORECASE)
_FILTER = re.compile(
    r"content_?filter|safety|recitation|blocklist|prohibited|spii|model_armor|guardrail|refusal|toxic",
    re.IGNORECASE,
)

_MENDING: dict[Cut, str] = {
    "the token limit": "Open the model with a higher limit of output tokens (max_tokens; num_predict and num_ctx in "
    "Ollama), or use one that writes less.",
    "a content filter": "Ask in other words, or use a model without that filter.",
    "a broken connection": "Ask again.",
}


def cut_off(message: BaseMessage) -> Cut | None:
    """Return what cut a reply off, by the reason that its provider gives; None for a whole one.

    The last piece that OpenAI's protocol streams says why the reply ends.
    """
    given = message.response_metadata
    details = given.get("incomplete_details")
    reasons = [given.get(name) for name in _REASON_FIELDS] + [
        details.get("reason") if isinstance(details, dict) else None
    ]
    reason = " ".join(
        str(getattr(reason, "name", reason)) for reason in reasons if reason is not None
    )
    if given == {"model_provider": "openai"}:
        return "a broken connection"
    return (
        "the token limit"
        if _LIMIT.search(reason)
        else "a content filter"
        if _FILTER.search(reason)
        else None
    )


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
    text = (
        (completion.choices[0].message.content or "") if completion and completion.choices else ""
    )
    message = AIMessage(text, response_metadata={"finish_reason": reason})
    if completion and (usage := completion.usage):
        details = usage.prompt_tokens_details
        message.usage_metadata = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "input_token_details": {
                "cache_read": (details.cached_tokens if details else None) or 0
            },
        }
    return message


_THOUGHTS = ("think", "thinking", "thought", "reasoning")
_TAG = re.compile(rf"<(?P<closing>/?)(?P<name>{'|'.join(_THOUGHTS)})>", re.IGNORECASE)
_TAGS = tuple(f"<{closing}{name}>" for name in _THOUGHTS for closing in ("", "/"))


def without_reasoning(text: str, *, unfinished: bool = False) -> str:
    """Return a reply without the reasoning before it; empty where it is nothing but an unfinished thought.

    Tags count where models write them: at the beginning. Further on they may be words of a document
    that are quoted. Only a closing tag without an opening one ends what the chat template has
    begun, unless the reply begins as JSON: then all that stands before it was a thought.

    Args:
        text: the reply, or as much of it as is there. unfinished: whether there is more to come, so
            that what may be the beginning of a tag is held back.
    """
    if unfinished and any(
        tag.startswith(text[(last := text.rfind("<")) :].lower()) for tag in _TAGS
    ):
        text = text[:last]
    begin, within, opened = 0, "", 0
    for tag in _TAG.finditer(text):
        name, closing, said = (
            tag["name"].lower(),
            bool(tag["closing"]),
            text[begin : tag.start()].lstrip(),
        )
        if within:
            ends_thought = closing and name == within
        elif not said and not closing:
            within, ends_thought = name, False
        else:
            ends_thought = closing and not opened and said[:1] not in ("{", "[", "`")
            opened = max(0, opened + (-1 if closing else 1))
        if ends_thought:
            begin, within, opened = tag.end(), "", 0
    return "" if within else text[begin:].lstrip() if begin else text


def reply_words(message: AIMessage) -> str:
    """Return the arguments of the functions that a reply calls, else its text without reasoning, else its refusal.

    Empty if all are blank.
    """
    calls = [json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls]
    calls += [call["args"] or "" for call in message.invalid_tool_calls]
    said = "\n".join(calls)
    if not said.strip():
        said = without_reasoning(message.text)
    if not said.strip():
        # OpenAI's field beside an empty content.
        refusal = str(message.additional_kwargs.get("refusal") or "")
        said = f"NO ANSWER: {refusal}" if refusal.strip() else ""
    return said if said.strip() else ""


_DECODER = json.JSONDecoder(strict=False)
"""Takes line breaks within strings, too."""
_BRACKET = re.compile(r"[{\[]")
_OBJECT_BEGINS = re.compile(r'\{\s*"|\[\s*\{')


def read_record(text: str, field: str, *, cut_off: bool = False) -> dict[str, Any]:
    """Return the one JSON object of a text that has a field; it may stand in prose, a fence, a list or a wrapper.

    Of a text that was cut off only an object that is all of it counts: what stands before the cut
    may be an example, or the first of several.

    Raises:
        ValueError: there is none, there are several, or JSON is begun and not well formed.
    """
    found = [
        record
        for value in (_whole(text) if cut_off else _values(text))
        for record in _records_in(value, field)
    ]
    if not found:
        raise ValueError(f'the reply has no JSON object with the field "{field}"')
    if len(found) > 1:
        raise ValueError(f"the reply has {len(found)} JSON objects in place of one")
    return found[0]


def _whole(text: str) -> Iterator[Any]:
    text = text.strip()
    value, end = _decode(text, 0)
    if end == len(text):
        yield value


def _values(text: str) -> Iterator[Any]:
    """Yield the outermost objects and lists of a text."""
    at = 0
    while bracket := _BRACKET.search(text, at):
        try:
            value, at = _decode(text, bracket.start())
        except ValueError:
            # A brace in prose is passed over; an object that does not end well must not be read by
            # its parts.
            if _OBJECT_BEGINS.match(text, bracket.start()):
                raise
            at = bracket.end()
        else:
            yield value


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _records_in(value: Any, field: str) -> list[dict[str, Any]]:
    """Return the objects with the field: the value itself, what it lists, or the one thing that it wraps."""
    if isinstance(value, list):
        return [
            record
            for item in value
            if isinstance(item, dict)
            for record in _records_in(item, field)
        ]
    if isinstance(value, dict) and field not in value and len(value) == 1:
        return _records_in(next(iter(value.values())), field)
    return [value] if isinstance(value, dict) and field in value else []
