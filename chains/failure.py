"""What an exception of a model call means: try again, try otherwise, or give up."""

from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import Literal

from langchain_core import exceptions as langchain_errors

__all__ = ["Failure", "one_line", "retry_after", "what_failed"]

Failure = Literal["retry", "refused", "final", "setup"]
"""What helps.

`retry`: making the call again; `refused`: perhaps asking in another form; `final`: nothing; `setup`: another key,
model or address.
"""

_RETRIED = frozenset({408, 409, 425, 429})
_REFUSED = frozenset({400, 415, 422})
_SETUP = frozenset({401, 402, 403, 404})
_SETUP_ERRORS = (
    langchain_errors.ModelAuthenticationError,
    langchain_errors.ModelPermissionDeniedError,
    langchain_errors.ModelNotFoundError,
)


def what_failed(error: Exception) -> Failure:
    """Tell what kind of failure an exception of a provider's client is.

    LangChain's typed errors say so themselves; for other clients the HTTP status does. What has neither is retried:
    a broken connection, or a reply that the client cannot make sense of, whatever exception it then ends in.
    """
    if isinstance(error, langchain_errors.ContextOverflowError) or _cut_short(error):
        return "final"
    if isinstance(error, _SETUP_ERRORS):
        return "setup"
    status = getattr(error, "status_code", None)
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


def _cut_short(error: Exception) -> bool:
    """Return whether OpenAI's client threw a reply away that ended at a length limit or a content filter."""
    from openai import ContentFilterFinishReasonError, LengthFinishReasonError

    return isinstance(error, ContentFilterFinishReasonError | LengthFinishReasonError)


def retry_after(error: Exception) -> float | None:
    """Return the seconds that the provider asks to wait, by the reply's Retry-After header (RFC 9110), or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except ValueError:
            return None
    return max(0.0, seconds) if isfinite(seconds) else None


def one_line(error: BaseException) -> str:
    """Return an exception's message as one line that ends like a sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."
