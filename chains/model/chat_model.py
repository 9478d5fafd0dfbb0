"""What differs between chat models: how each is opened, what it is called, and what its errors mean."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core import exceptions as langchain_errors
from langchain_core.language_models import BaseChatModel

from briefcontext.chains.model.secrets import redacted
from briefcontext.errors import (
    MissingExtraError,
    ModelCallError,
    ModelError,
    ModelSetupError,
    one_line,
    retry_after,
)

_MOST_TOKENS = {"ollama": "num_predict"}
"""What integrations call the most tokens of a reply, where that is not LangChain's standard, max_tokens."""
_ADDRESS_FIELD = re.compile(r"(?:_url|_base|endpoint)$")
"""The names that LangChain's integrations give to the address: base_url, anthropic_api_url, groq_api_base, endpoint."""


def open_chat_model(
    name: str,
    *,
    cache: str | Path | None = None,
    max_output_tokens: int | None = None,
    **kwargs: Any,
) -> BaseChatModel:
    """Open a chat model by its LangChain name, `provider:model`, for example `openai:gpt-4o-mini`.

    Args:
        name: provider and model.
        cache: SQLite file that keeps replies, so that the same call is never paid for twice.
        max_output_tokens: the most tokens of one reply; None: the provider's own.
        kwargs: what the provider's class takes besides.

    Raises:
        ModelSetupError: the provider is unknown, or its key is missing.
        MissingExtraError: the provider's integration package is not installed.
        InputError: the cache cannot be opened.
    """
    from langchain.chat_models import init_chat_model

    provider, _, model = str(name).partition(":")
    if not provider or not model:
        raise ModelSetupError(
            f"Model {name!r} does not name its provider. "
            "Write provider:model, for example openai:gpt-4o-mini or ollama:llama3.1."
        )
    if (
        provider == "ollama" and find_spec("langchain_ollama") is None
    ):  # LangChain tries a package that has it no more.
        raise MissingExtraError(
            f"Model {name!r} needs a package that is not installed: pip install langchain-ollama"
        )
    if max_output_tokens is not None:
        kwargs[_MOST_TOKENS.get(provider, "max_tokens")] = max_output_tokens
    try:
        chat: BaseChatModel = init_chat_model(model, model_provider=provider, **kwargs)
        if "max_retries" in type(chat).model_fields:
            # Retries are made, counted and shown by the caller; a client that made its own would
            # hide them.
            chat = init_chat_model(model, model_provider=provider, **{"max_retries": 0, **kwargs})
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
    """Return a model that reports the tokens also of streamed replies, unless it was told to do otherwise.

    With a base URL of the user's own, an OpenAI client does so only when asked to.
    """
    undecided = (
        "stream_usage" in type(chat).model_fields and getattr(chat, "stream_usage", None) is None
    )
    return chat.model_copy(update={"stream_usage": True}) if undecided else chat


def without_streaming(chat: BaseChatModel) -> BaseChatModel:
    """Return a model that never streams: the same one where it cannot, so that it may keep state of its own."""
    kind = type(chat)
    streams = (
        kind._stream is not BaseChatModel._stream or kind._astream is not BaseChatModel._astream
    )
    return chat.model_copy(update={"disable_streaming": True}) if streams else chat


def model_name(chat: BaseChatModel) -> str:
    """Return what the provider calls the model."""
    return str(
        getattr(chat, "model_name", None) or getattr(chat, "model", None) or type(chat).__name__
    )


def model_key(chat: BaseChatModel) -> str:
    """Return what tells this model at its address from others, also where the environment sets the address."""
    return f"{type(chat).__name__} {model_name(chat)} {address(chat)}"


def address(chat: BaseChatModel) -> str:
    """Return the base URL that a model's calls go to; empty where that is not known."""
    # OpenAI's client and Ollama's know their address best; other integrations have it in a field.
    private = (chat.__pydantic_private__ or {}).get("_client")
    clients = (
        getattr(chat, "root_client", None),
        getattr(chat, "root_async_client", None),
        private,
    )
    inner = getattr(private, "_client", None)
    known = [getattr(client, "base_url", None) for client in (*clients, inner)]
    known += [
        getattr(chat, name, None)
        for name in sorted(type(chat).model_fields)
        if _ADDRESS_FIELD.search(name)
    ]
    return " ".join(dict.fromkeys(str(each) for each in known if each))


class RefusedError(ModelCallError):
    """The provider does not accept the request as it is, and perhaps in another form."""


Failure = tuple[type[ModelError], str]
"""What a failure raises that making the call again does not mend, and its words."""

_SETUP: Failure = (
    ModelSetupError,
    "The provider of {model} refuses the call: {error} Check the model's name, its key and its base URL.",
)
_QUOTA: Failure = (
    ModelSetupError,
    "The account at the provider of {model} has no credit left: {error} Check its plan and "
    "billing, or use "
    "another key.",
)
_TOO_LONG: Failure = (
    ModelCallError,
    "{model} finds the request too long: {error} Set max_input_tokens to its window, so that more "
    "is read in "
    "parts, or lower top_k or partition_size.",
)
_REFUSED: Failure = (RefusedError, "{model} does not accept the request: {error}")
_FINAL: Failure = (ModelCallError, "{model} does not accept the request: {error}")
_BY_STATUS: dict[int, Failure | None] = {
    **{400: _REFUSED, 415: _REFUSED, 422: _REFUSED, 401: _SETUP, 404: _SETUP, 402: _QUOTA},
    **dict.fromkeys((408, 409, 425, 429)),
}
_SETUP_ERRORS = (langchain_errors.ModelAuthenticationError, langchain_errors.ModelNotFoundError)
_SAYS_TOO_LONG = re.compile(
    r"context.?(?:length|window)|(?:prompt|input|request) (?:is )?too (?:long|large)|too many "
    r"(?:input )?tokens",
    re.IGNORECASE,
)
_OUT_OF_QUOTA = ("insufficient_quota", "credit_balance_exhausted")
"""OpenAI's codes. Its words do not tell: other providers use the same ones of a limit per minute."""
# A refusal with status 403 is about what was sent (OpenRouter: "your input was flagged") or about
# who sends it (Anthropic: permission_error; OpenAI: unsupported_country_region_territory; Gemini:
# PERMISSION_DENIED).
_ABOUT_CONTENT = re.compile(
    r"flagged|moderat|content|polic(?:y|ies)|safety|guardrail", re.IGNORECASE
)
_ABOUT_ACCESS = re.compile(
    r"permission|\bkeys?\b|api_key|credential|authori[sz]|authenticat|access|country|region|territory|billing|balance"
    r"|subscription|organi[sz]ation|project|not enabled",
    re.IGNORECASE,
)


def what_failed(error: Exception) -> Failure | None:
    """Return what an exception of a provider's client means; None where making the call again may help.

    LangChain's typed errors say so themselves; for other clients the HTTP status does. What has
    neither is retried: a broken connection, or a reply that the client cannot make sense of,
    whatever exception it then ends in.
    """
    status, fields = getattr(error, "status_code", None), _error_fields(error)
    overflow = isinstance(error, langchain_errors.ContextOverflowError)
    if overflow or status == 413 or (status == 400 and _SAYS_TOO_LONG.search(str(error))):
        return _TOO_LONG
    if isinstance(error, _SETUP_ERRORS):
        return _SETUP
    if status == 403 or isinstance(error, langchain_errors.ModelPermissionDeniedError):
        # The provider's own words, without what it repeats of the request.
        words = (
            str(fields[name]) for name in ("message", "code", "type", "status") if fields.get(name)
        )
        said = " ".join(words) or str(error)
        return _SETUP if _ABOUT_ACCESS.search(said) and not _ABOUT_CONTENT.search(said) else _FINAL
    if status == 429 and any(fields.get(name) in _OUT_OF_QUOTA for name in ("code", "type")):
        return _QUOTA
    if isinstance(status, int):
        return _BY_STATUS.get(status, None if status >= 500 else _FINAL)
    if isinstance(error, langchain_errors.ModelError) and not error.is_retryable:
        return _REFUSED
    unsupported = isinstance(error, NotImplementedError) or "unexpected keyword argument" in str(
        error
    )
    return _REFUSED if unsupported else None


def _error_fields(error: Exception) -> dict[str, Any]:
    """Return what a provider says of an error, where its client hands that on; OpenAI's does so without the wrapper."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    fields = inner if isinstance(inner, dict) else body
    return fields if isinstance(fields, dict) else {}


def asked_wait(error: Exception) -> float | None:
    """Return the seconds that the provider asks to wait, by its reply's header, or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    return None if headers is None else retry_after(headers.get("retry-after"))
