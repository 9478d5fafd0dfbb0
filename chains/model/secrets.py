"""Keys of providers, which no message may repeat: servers echo them in errors."""

import re
from collections.abc import Iterable

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

MIN_KEY_CHARACTERS = 8
"""Shorter keys are placeholders, such as `none`, for servers without keys."""
_KEY = re.compile(
    r"(?<=bearer )\s*[^\s\"',;}\]]+|\b(?:sk|gsk|hf|nvapi|pplx|r8|xai)[-_][\w-]{8,}|\bAIza[\w-]{20,}",
    re.IGNORECASE,
)
"""Bearer tokens, and the keys of well-known providers."""


def keys_of(chat: BaseChatModel) -> list[str]:
    """Return the keys that a chat model was opened with."""
    secrets = [value for value in vars(chat).values() if isinstance(value, SecretStr)]
    keys = [secret.get_secret_value() for secret in secrets]
    return [key for key in keys if len(key) >= MIN_KEY_CHARACTERS]


def redacted(message: str, keys: Iterable[str] = ()) -> str:
    """Replace the keys, and everything with the form of a key, by `[key]`."""
    for key in keys:
        message = message.replace(key, "[key]")
    return _KEY.sub("[key]", message)
