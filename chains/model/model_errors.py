"""Classification of providers' exceptions: retry, fall back, or give up."""

import re
from typing import Any, Literal

from langchain_core import exceptions as langchain_errors

from briefcontext.errors import retry_after

__all__ = ["Failure", "asked_wait", "what_failed"]

Failure = Literal["retry", "refused", "final", "setup", "quota"]
"""What helps.

`retry`: making the call again; `refused`: perhaps asking in another form; `final`: nothing, for this one request;
`setup`: another key, model or address; `quota`: paying.
"""

_RETRIED = frozenset({408, 409, 425, 429})
_REFUSED = frozenset({400, 415, 422})
_SETUP = frozenset({401, 404})
_SETUP_ERRORS = (langchain_errors.ModelAuthenticationError, langchain_errors.ModelNotFoundError)
_OUT_OF_QUOTA = frozenset({"insufficient_quota", "credit_balance_exhausted"})
"""OpenAI's codes. Its words do not tell: other providers use the same ones of a limit per minute."""
# A refusal with status 403 is about what was sent (OpenRouter: "your input was flagged") or about who sends it
# (Anthropic: permission_error; OpenAI: unsupported_country_region_territory; Gemini: PERMISSION_DENIED).
_ABOUT_CONTENT = re.compile(r"flagged|moderat|content|polic(?:y|ies)|safety|guardrail", re.IGNORECASE)
_ABOUT_ACCESS = re.compile(
    r"permission|\bkeys?\b|api_key|credential|authori[sz]|authenticat|access|country|region|territory|billing|balance"
    r"|subscription|organi[sz]ation|project|not enabled",
    re.IGNORECASE,
)


def what_failed(error: Exception) -> Failure:
    """Tell what kind of failure an exception of a provider's client is.

    LangChain's typed errors say so themselves; for other clients the HTTP status does. What has neither is retried:
    a broken connection, or a reply that the client cannot make sense of, whatever exception it then ends in.
    """
    if isinstance(error, langchain_errors.ContextOverflowError):
        return "final"
    if isinstance(error, _SETUP_ERRORS):
        return "setup"
    status = getattr(error, "status_code", None)
    if status == 403 or isinstance(error, langchain_errors.ModelPermissionDeniedError):
        said = _said(error)
        return "setup" if _ABOUT_ACCESS.search(said) and not _ABOUT_CONTENT.search(said) else "final"
    if status == 402 or (status == 429 and not _OUT_OF_QUOTA.isdisjoint(_codes(error))):
        return "quota"
    if isinstance(status, int):
        if status in _SETUP:
            return "setup"
        if status in _REFUSED:
            return "refused"
        return "retry" if status in _RETRIED or status >= 500 else "final"
    if isinstance(error, langchain_errors.ModelError) and not error.is_retryable:
        return "refused"
    unsupported = isinstance(error, NotImplementedError) or "unexpected keyword argument" in str(error)
    return "refused" if unsupported else "retry"


def _error_fields(error: Exception) -> dict[str, Any]:
    """Return what a provider says of an error, where its client hands that on; OpenAI's does so without the wrapper."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    fields = inner if isinstance(inner, dict) else body
    return fields if isinstance(fields, dict) else {}


def _codes(error: Exception) -> set[str]:
    fields = _error_fields(error)
    return {str(fields.get(name)) for name in ("code", "type")}


def _said(error: Exception) -> str:
    """Return the provider's own words, without what it repeats of the request."""
    fields = _error_fields(error)
    said = [str(fields[name]) for name in ("message", "code", "type", "status") if fields.get(name)]
    return " ".join(said) or str(error)


def asked_wait(error: Exception) -> float | None:
    """Return the seconds that the provider asks to wait, by its reply's header, or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    return None if headers is None else retry_after(headers.get("retry-after"))
