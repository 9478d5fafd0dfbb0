"""NCBI's E-utilities on loopback: esearch and efetch over given records, with faults."""

import gzip
import re
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio.to_thread
from lxml import etree
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.loopback import serve_app

WORD = re.compile(r"[^\W_]+")
TEXTS = ("ArticleTitle", "VernacularTitle", "AbstractText")
HEAD = (
    b'<?xml version="1.0" ?>\n<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st '
    b'January 2025//EN" '
    b'"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n'
)


@dataclass
class Call:
    """A request as the server received it."""

    method: str
    utility: str
    address: str
    fields: dict[str, str]


@dataclass
class Fault:
    """What the server answers in place of what it should."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    """No answer until `over` is set."""
    drop: bool = False
    """The connection breaks within the answer."""


@dataclass
class Record:
    """A record's XML, and its words."""

    xml: bytes
    words: frozenset[str]


class EUtilsServer:
    """Answers POSTs to `esearch.fcgi` and `efetch.fcgi`, and remembers every call.

    A query is matched word by word: words side by side must all occur, `OR` joins alternatives in
    or without parentheses. The records with most of the query's words come first, then those added
    first. `faults` are answered first, one a call.
    """

    def __init__(self) -> None:
        self.url = ""
        self.records: dict[str, Record] = {}
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.over = threading.Event()

    def reset(self) -> None:
        """Forget all records, calls and faults."""
        self.records, self.calls, self.faults = {}, [], []
        self.over.clear()

    def add(self, xml: bytes) -> None:
        """Serve the citations in an XML document."""
        root = etree.fromstring(xml)
        for citation in root.iter("MedlineCitation"):
            citation.tail = None
            pmid = citation.findtext("PMID", "")
            text = " ".join("".join(map(str, part.itertext())) for part in citation.iter(*TEXTS))
            article = b"<PubmedArticle>" + etree.tostring(citation) + b"</PubmedArticle>"
            self.records[pmid] = Record(article, frozenset(WORD.findall(text.lower())))

    def add_file(self, path: Path) -> None:
        """Serve the citations in a file, plain or gzipped."""
        data = path.read_bytes()
        self.add(gzip.decompress(data) if path.suffix == ".gz" else data)

    def queries(self) -> list[str]:
        """The query of each search, in order."""
        return [call.fields["term"] for call in self.calls if call.utility == "esearch"]

    def fetched(self) -> list[list[str]]:
        """The PMIDs of each fetch, in order."""
        return [call.fields["id"].split(",") for call in self.calls if call.utility == "efetch"]

    async def answer(self, request: Request) -> Response:
        """Answer one call."""
        utility = request.path_params["utility"]
        fields = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        self.calls.append(Call(request.method, utility, str(request.url), fields))
        if self.faults:
            fault = self.faults.pop(0)
            if fault.hang:
                await anyio.to_thread.run_sync(self.over.wait)
            if fault.drop:
                return StreamingResponse(_broken(), headers={"Content-Length": "100"})
            return Response(fault.body, fault.status, fault.headers)
        if utility == "esearch":
            return JSONResponse(self._found(fields["term"], int(fields["retmax"])))
        records = [
            self.records[pmid].xml for pmid in fields["id"].split(",") if pmid in self.records
        ]
        return Response(_article_set(records), media_type="text/xml")

    def _found(self, query: str, most: int) -> dict[str, Any]:
        alternatives = [frozenset(WORD.findall(part.lower())) for part in query.split(" OR ")]
        wanted = frozenset().union(*alternatives)
        matches = {
            pmid: len(wanted & record.words)
            for pmid, record in self.records.items()
            if any(words <= record.words for words in alternatives)
        }
        pmids = sorted(matches, key=lambda pmid: -matches[pmid])[:most]
        result: dict[str, Any] = {
            "count": str(len(matches)),
            "retmax": str(len(pmids)),
            "retstart": "0",
            "idlist": pmids,
        }
        if not pmids:
            result["errorlist"] = {"phrasesnotfound": [query], "fieldsnotfound": []}
        return {"header": {"type": "esearch", "version": "0.3"}, "esearchresult": result}


async def _broken() -> AsyncIterator[bytes]:
    yield b"{"
    raise ConnectionAbortedError


def _article_set(articles: Iterable[bytes]) -> bytes:
    # PubMed does not keep to the order asked for, nor need it.
    return (
        HEAD + b"<PubmedArticleSet>" + b"\n".join(reversed(list(articles))) + b"</PubmedArticleSet>"
    )


@contextmanager
def serve() -> Iterator[EUtilsServer]:
    """Run a server on a free loopback port."""
    fake = EUtilsServer()
    route = Route("/entrez/eutils/{utility}.fcgi", fake.answer, methods=["GET", "POST"])
    with serve_app(Starlette(routes=[route])) as server:
        fake.url = f"{server.url}/entrez/eutils"
        try:
            yield fake
        finally:
            fake.over.set()
