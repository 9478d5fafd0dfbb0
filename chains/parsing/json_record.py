"""Records as JSON: their schema for the model, and parsing of the one JSON object in a reply."""

import json
import re
from collections.abc import Iterator
from typing import Any

from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel

__all__ = ["json_schema", "read_record"]

_DECODER = json.JSONDecoder(strict=False)
"""Takes line breaks within strings, too."""
_BRACKET = re.compile(r"[{\[]")
_OBJECT_BEGINS = re.compile(r'\{\s*"|\[\s*\{')


def json_schema(record: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a record's class, all in one piece: not every server follows references."""
    schema = dereference_refs(record.model_json_schema())
    schema.pop("$defs", None)
    return dict(schema)


def read_record(text: str, field: str, *, cut_off: bool = False) -> dict[str, Any]:
    """Return the one JSON object of a text that has a field; it may stand in prose, a fence, a list or a wrapper.

    Of a text that was cut off only an object that is all of it counts: what stands before the cut may be an example,
    or the first of several.

    Raises:
        ValueError: there is none, there are several, or JSON is begun and not well formed.
    """
    found = [record for value in (_whole(text) if cut_off else _values(text)) for record in _records_in(value, field)]
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
            # A brace in prose is passed over; an object that does not end well must not be read by its parts.
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
        return [record for item in value if isinstance(item, dict) for record in _records_in(item, field)]
    if isinstance(value, dict) and field not in value and len(value) == 1:
        return _records_in(next(iter(value.values())), field)
    return [value] if isinstance(value, dict) and field in value else []
