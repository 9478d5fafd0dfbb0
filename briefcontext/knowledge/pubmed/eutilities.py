"""NCBI's E-utilities for PubMed: PMIDs of a query, records of PMIDs.

Reference: NCBI Bookshelf NBK25497 and NBK25499.
"""

import io
import json
import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import sleep
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus
from weakref import finalize

from langchain_core.documents import Document
from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter
from tenacity import Retrying, wait_exponential

from briefcontext.errors import KnowledgeBaseError, retry_after
from briefcontext.knowledge.sources.source import Reject
from briefcontext.retries import PassingError, may_pass, retry_policy

logger = logging.getLogger(__name__)

DEFAULT_URL = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
URL_VARIABLE = "BRIEFCONTEXT_EUTILS_URL"
KEY_VARIABLE = "NCBI_API_KEY"
EMAIL_VARIABLE = "NCBI_EMAIL"
TOOL = "briefcontext"

PER_SECOND = 3
PER_SECOND_WITH_KEY = 10
"""Requests that NCBI allows (NBK25497)."""
MARGIN = 1.1
"""Requests do not arrive at even intervals."""
BATCH = 200
"""Records in one request."""
TRIES = 4
"""Tries of a request, after waits of 1, 2 and 4 seconds."""
LONGEST_PAUSE = 60.0
"""Seconds; a request whose server asks for a longer wait fails."""

_XML_ERROR = re.compile(rb"<ERROR>(.*?)</ERROR>", re.DOTALL)

_T = TypeVar("_T")
_rates: dict[tuple[str, str], InMemoryRateLimiter] = {}


class EUtilities:
    """A client of the E-utilities. Thread-safe.

    All clients in a process share a rate: 3 requests a second, or 10 with a key (NCBI_API_KEY).
    NCBI asks for an e-mail address (NCBI_EMAIL). Neither is logged or shown in an error.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        timeout: float = 30.0,
        rate: BaseRateLimiter | None = None,
    ) -> None:
        """Describe the client; `rate` spaces its requests.

        Raises KnowledgeBaseError if the address or the proxy cannot be used.
        """
        import httpx2

        address = base_url or os.environ.get(URL_VARIABLE, "").strip() or DEFAULT_URL
        url = httpx2.URL()
        with suppress(httpx2.InvalidURL):
            url = httpx2.URL(address.rstrip("/") + "/")
        if url.scheme not in ("http", "https") or not url.host:
            raise KnowledgeBaseError(
                f"{address!r} is not an address of the E-utilities: unset {URL_VARIABLE}, or give "
                f"one like {DEFAULT_URL}."
            )
        self._server = url.netloc.decode("ascii")
        self._api_key = os.environ.get(KEY_VARIABLE, "").strip()
        self._email = os.environ.get(EMAIL_VARIABLE, "").strip()
        self._timeout = timeout
        per_second = (PER_SECOND_WITH_KEY if self._api_key else PER_SECOND) / MARGIN
        shared = InMemoryRateLimiter(requests_per_second=per_second, check_every_n_seconds=0.01)
        self.rate = rate or _rates.setdefault((self._server, self._api_key), shared)
        try:
            self._client = httpx2.Client(
                base_url=url, timeout=timeout, headers={"User-Agent": TOOL}
            )
        except (ValueError, ImportError, httpx2.InvalidURL) as error:
            raise KnowledgeBaseError(
                f"The proxy in the environment (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY) cannot be used "
                f"for {self._server}: correct it, or unset it."
            ) from error
        # Called at the end of the process, at the latest.
        self.close = finalize(self, self._client.close)

    def search(self, query: str, most: int) -> list[str]:
        """Return the PMIDs that match a PubMed query, at most `most`, by relevance.

        Raises KnowledgeBaseError if NCBI does not answer.
        """
        fields = {"term": query, "retmode": "json", "retmax": str(most), "sort": "relevance"}
        return self._ask("esearch", fields, _pmids)

    def fetch(self, pmids: Sequence[str]) -> dict[str, Document]:
        """Return the records with these PMIDs, as `read_pubmed_xml` reads them.

        Missing records are logged. Raises KnowledgeBaseError if NCBI does not answer.
        """
        records: dict[str, Document] = {}
        for start in range(0, len(pmids), BATCH):
            ids = ",".join(pmids[start : start + BATCH])
            fields = {"id": ids, "retmode": "xml", "rettype": "abstract"}
            for entry in self._ask("efetch", fields, _entries):
                if isinstance(entry, Reject):
                    logger.warning("PubMed: %s left out: %s", entry.position, entry.reason)
                else:
                    records[str(entry.id)] = entry
        if missing := [pmid for pmid in pmids if pmid not in records]:
            logger.warning("PubMed: no readable record for PMID %s", ", ".join(missing))
        return records

    def _ask(self, utility: str, fields: dict[str, str], read: Callable[[bytes], _T]) -> _T:
        identity = {"tool": TOOL, "email": self._email, "api_key": self._api_key}
        known = {name: value for name, value in identity.items() if value}
        sent = {"db": "pubmed", **fields, **known}

        def attempt() -> _T:
            self.rate.acquire()
            return read(self._post(utility, sent))

        policy = retry_policy(TRIES, wait_exponential(multiplier=1))
        try:
            return Retrying(sleep=sleep, **policy)(attempt)
        except PassingError as error:
            raise KnowledgeBaseError(
                f"PubMed did not answer ({self._server}: {utility} failed {TRIES} times, with "
                f"{error}): check the network, try again later, or use --kb DIR."
            ) from error.__cause__

    def _post(self, utility: str, sent: dict[str, str]) -> bytes:
        import httpx2

        try:
            response = self._client.post(f"{utility}.fcgi", data=sent)
        except httpx2.TimeoutException as error:
            raise PassingError(f"no answer within {self._timeout:g} seconds") from error
        except httpx2.RequestError as error:
            raise PassingError(str(error) or type(error).__name__) from error
        complaint = self._without_secrets(_complaint(response.content))[:200]
        reason = f"HTTP {response.status_code}" + (f", {complaint!r}" if complaint else "")
        if may_pass(response.status_code):
            wait = retry_after(response.headers.get("Retry-After"))
            if wait is not None and wait > LONGEST_PAUSE:
                raise KnowledgeBaseError(
                    f"PubMed asks to wait {wait:.0f} seconds ({self._server}: {reason}). Wait, or "
                    "use --kb DIR."
                )
            raise PassingError(reason, wait)
        if self._api_key and "api key" in complaint.lower():
            raise KnowledgeBaseError(
                f"{self._server} refused the API key ({reason}): correct or unset {KEY_VARIABLE}."
            )
        if response.status_code != 200:
            raise KnowledgeBaseError(
                f"{self._server} did not accept the request ({utility}: {reason}): check "
                f"{URL_VARIABLE}, or use --kb DIR."
            )
        if complaint:  # "Search Backend failed", for example, may pass.
            raise PassingError(reason)
        return response.content

    def _without_secrets(self, text: str) -> str:
        for secret in filter(None, (self._api_key, self._email)):
            for form in (secret, quote(secret), quote_plus(secret)):
                text = text.replace(form, "***")
        return text


def _pmids(body: bytes) -> list[str]:
    pmids = _json(body)[1].get("idlist")
    if not isinstance(pmids, list) or not all(str(pmid).isdecimal() for pmid in pmids):
        raise PassingError("an answer that is not a list of PMIDs in JSON")
    return pmids


def _entries(body: bytes) -> list[Document | Reject]:
    from briefcontext.knowledge.sources.pubmed_xml import read_pubmed_xml

    entries = [
        entry for entry in read_pubmed_xml(io.BytesIO(body)) if isinstance(entry, Document | Reject)
    ]
    for entry in entries:
        # Other rejects than of a record mean that the rest of the answer is lost.
        if isinstance(entry, Reject) and not entry.position.startswith("record "):
            problem = f"an answer that is not PubMed XML ({entry.position}: {entry.reason})"
            raise PassingError(problem)
    return entries


def _complaint(body: bytes) -> str:
    """Return the error in an answer on one line, or ""."""
    answer, result = _json(body)
    texts = [match[1].decode("utf-8", "replace") for match in _XML_ERROR.finditer(body)]
    texts += [str(error) for error in (answer.get("error"), result.get("ERROR")) if error]
    return " ".join(" ".join(texts).split())


def _json(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a JSON answer and its search result; empty for anything else."""
    answer = None
    with suppress(ValueError):
        # Not strict: NCBI's error texts have raw line breaks inside strings.
        answer = json.loads(body, strict=False)
    answer = answer if isinstance(answer, dict) else {}
    result = answer.get("esearchresult")
    return answer, result if isinstance(result, dict) else {}
