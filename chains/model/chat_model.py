"""Differences between chat models: how to open them, their names, keys and errors."""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core import exceptions as langchain_errors
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from briefcontext.errors import (
    MissingExtraError,
    ModelCallError,
    ModelError,
    ModelSetupError,
    one_line,
    retry_after,
)
from briefcontext.retries import PassingError, may_pass

_MIN_KEY_CHARACTERS = 8
"""Shorter keys are placeholders, such as `none`, for servers without keys."""
_KEY = re.compile(
    r"(?<=bearer )\s*[^\s\"',;}\]]+|\b(?:sk|gsk|hf|nvapi|pplx|r8|xai)[-_][\w-]{8,}"
    r"|\bAIza[\w-]{20,}",
    re.IGNORECASE,
)
"""Bearer tokens, and the keys of well-known providers."""
_ADDRESS_ENDINGS = ("_url", "_base", "endpoint")
"""Fields of LangChain's integrations with the address: base_url, groq_api_base, endpoint."""


def open_chat_model(
    name: str,
    *,
    cache: str | Path | None = None,
    max_output_tokens: int | None = None,
    **kwargs: Any,
) -> BaseChatModel:
    """Open a chat model by its LangChain name, `provider:model`, such as `openai:gpt-4o-mini`.

    Args:
        name: Provider and model.
        cache: SQLite file that keeps replies, so that a call is paid for once.
        max_output_tokens: Limit of reply tokens. Default: the provider's own.
        kwargs: Other arguments of the provider's class.

    Raises:
        ModelSetupError: The provider is unknown, or its key is missing.
        MissingExtraError: The provider's integration package is not installed.
        InputError: The cache cannot be opened.
    """
    from langchain.chat_models import init_chat_model

    provider, _, model = str(name).partition(":")
    if not provider or not model:
        raise ModelSetupError(
            f"Model {name!r} does not name its provider. "
            "Write provider:model, for example openai:gpt-4o-mini or ollama:llama3.1."
        )
    # LangChain would import another package, which no longer has the class.
    if provider == "ollama" and find_spec("langchain_ollama") is None:
        raise MissingExtraError(
            f"Model {name!r} needs a package that is not installed: pip install langchain-ollama"
        )
    # BriefContext makes and counts retries itself.
    kwargs.setdefault("max_retries", 0)
    if max_output_tokens is not None:
        kwargs["num_predict" if provider == "ollama" else "max_tokens"] = max_output_tokens
    try:
        chat: BaseChatModel = init_chat_model(model, model_provider=provider, **kwargs)
    except ImportError as error:
        raise MissingExtraError(
            f"Model {name!r} needs a package that is not installed: {one_line(error)}"
        ) from error
    except Exception as error:  # noqa: BLE001 - its cause may quote the key
        advice = (
            f"Set {provider.upper()}_API_KEY."
            if "key" in str(error)
            else "Check the provider's name and package."
        )
        problem = redacted(one_line(error))
        raise ModelSetupError(f"Model {name!r} cannot be opened: {problem} {advice}") from None
    if cache is not None:
        from briefcontext.chains.model.reply_cache import ReplyCache

        chat.cache = ReplyCache(cache, model_key(chat))
    return chat


def counting_streamed_tokens(chat: BaseChatModel) -> BaseChatModel:
    """Return a model that reports the tokens of streamed replies, unless set otherwise.

    With a base URL, OpenAI's client reports them only on request.
    """
    undecided = getattr(chat, "stream_usage", False) is None
    return chat.model_copy(update={"stream_usage": True}) if undecided else chat


def without_streaming(chat: BaseChatModel) -> BaseChatModel:
    """Return a model that never streams; the same object if it cannot stream."""
    kind, base = type(chat), BaseChatModel
    streams = kind._stream is not base._stream or kind._astream is not base._astream
    return chat.model_copy(update={"disable_streaming": True}) if streams else chat


def model_name(chat: BaseChatModel) -> str:
    """Return the provider's name of the model."""
    name = getattr(chat, "model_name", None) or getattr(chat, "model", None)
    return str(name or type(chat).__name__)


def model_key(chat: BaseChatModel) -> str:
    """Return a key for the model and its base URL."""
    return f"{type(chat).__name__} {model_name(chat)} {address(chat)}"


def address(chat: BaseChatModel) -> str:
    """Return the base URL of a model; empty if unknown."""
    # OpenAI's client also knows the address from the environment; others have it in a field.
    fields = sorted(name for name in type(chat).model_fields if name.endswith(_ADDRESS_ENDINGS))
    known = [getattr(getattr(chat, "root_client", None), "base_url", None)]
    known += [getattr(chat, name, None) for name in fields]
    return " ".join(dict.fromkeys(str(each) for each in known if each))


def keys_of(chat: BaseChatModel) -> list[str]:
    """Return the keys that a chat model was opened with."""
    secrets = [value for value in vars(chat).values() if isinstance(value, SecretStr)]
    keys = [secret.get_secret_value() for secret in secrets]
    return [key for key in keys if len(key) >= _MIN_KEY_CHARACTERS]


def redacted(message: str, keys: Iterable[str] = ()) -> str:
    """Replace keys by `[key]`, as servers repeat them in errors."""
    for key in keys:
        message = message.replace(key, "[key]")
    return _KEY.sub("[key]", message)


class RefusedError(ModelCallError):
    """The provider refuses the form of a request and may accept another one."""


_SETUP_ERRORS = (langchain_errors.ModelAuthenticationError, langchain_errors.ModelNotFoundError)
_FORM_ERRORS = (NotImplementedError, langchain_errors.ModelInvalidRequestError)


def failure(error: Exception, model: str) -> PassingError | ModelError:
    """Convert an exception of a provider's client, with the provider's own message.

    An error without an HTTP status is a broken connection or an unreadable reply, which may pass,
    unless LangChain's typed error denies it.
    """
    status = getattr(error, "status_code", None)
    words = one_line(error)
    if isinstance(error, langchain_errors.ContextOverflowError) or status == 413:
        return ModelCallError(
            f"{model} finds the request too long: {words} Set max_input_tokens to its window, or "
            "lower top_k or partition_size."
        )
    if isinstance(error, _SETUP_ERRORS) or status in (401, 402, 404):
        return ModelSetupError(
            f"The provider of {model} refuses the call: {words} Check the model's name, its key, "
            "its account and its base URL."
        )
    if isinstance(error, _FORM_ERRORS) or status in (400, 415, 422):
        return RefusedError(f"{model} does not accept the request: {words}")
    passing = getattr(error, "is_retryable", True) if status is None else may_pass(status)
    if not passing:
        return ModelCallError(f"{model} does not accept the request: {words}")
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    return PassingError(f"{type(error).__name__}: {words}", retry_after(headers.get("retry-after")))
