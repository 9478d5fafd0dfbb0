"""Live PubMed: queries, requests, records and their ranking, with a loopback server."""

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document
from langchain_core.rate_limiters import BaseRateLimiter

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders import Encoder
from briefcontext.knowledge.pubmed import eutilities
from briefcontext.knowledge.pubmed.eutilities import EUtilities
from briefcontext.knowledge.pubmed.live import LivePubMed, pubmed_filters, pubmed_queries
from briefcontext.knowledge.store.filters import Filters
from tests.eutils_server import EUtilsServer, Fault, serve
from tests.hashing_encoder import HashingEncoder

KEY, EMAIL = "0123456789abcdef", "someone+pubmed@example.org"
RETRACTED = (
    "<PublicationTypeList><PublicationType>Retracted Publication</PublicationType>"
    "</PublicationTypeList>"
)
ARTICLES = {
    "11": ("Aspirin after stroke.", "Aspirin lowers the risk of another stroke.", ""),
    "12": ("Aspirin in fever.", "Children with fever were given aspirin.", ""),
    "13": ("Gout.", "Colchicine was tried in gout.", ""),
    "14": ("Aspirin, stroke and bleeding.", "Bleeding was seen on aspirin.", RETRACTED),
}
QUESTION = "Does aspirin lower the risk of a stroke?"


def citation(pmid: str, title: str, text: str, more: str = "") -> str:
    abstract = f"<Abstract><AbstractText>{text}</AbstractText></Abstract>"
    article = f"<Article><ArticleTitle>{title}</ArticleTitle>{abstract}{more}</Article>"
    return f"<MedlineCitation><PMID>{pmid}</PMID>{article}</MedlineCitation>"


def article_set(*citations: str) -> bytes:
    return f"<PubmedArticleSet>{''.join(citations)}</PubmedArticleSet>".encode()


class CountingRate(BaseRateLimiter):
    """Lets every request pass, and counts them."""

    turns = 0

    def acquire(self, *, blocking: bool = True) -> bool:
        self.turns += 1
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return self.acquire()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NCBI_API_KEY", "NCBI_EMAIL", "BRIEFCONTEXT_EUTILS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before repeated requests, rounded; no time passes."""
    slept: list[float] = []
    monkeypatch.setattr(eutilities, "sleep", lambda seconds: slept.append(round(seconds, 2)))
    return slept


@pytest.fixture
def rate() -> CountingRate:
    return CountingRate()


@pytest.fixture(scope="module")
def running() -> Iterator[EUtilsServer]:
    with serve() as server:
        yield server


@pytest.fixture
def ncbi(running: EUtilsServer) -> Iterator[EUtilsServer]:
    """A server that holds ARTICLES and has not been asked anything."""
    running.reset()
    running.add(article_set(*(citation(pmid, *texts) for pmid, texts in ARTICLES.items())))
    yield running
    running.over.set()


Open = Callable[..., LivePubMed]


@pytest.fixture
def open_live(ncbi: EUtilsServer, rate: CountingRate) -> Iterator[Open]:
    """Opens live PubMed on the server of this test; closed at its end."""
    opened: list[LivePubMed] = []

    def open_one(
        encoder: Encoder | None = None,
        *,
        candidates: int = 100,
        url: str = ncbi.url,
        timeout: float = 20,
    ) -> LivePubMed:
        client = EUtilities(url, timeout=timeout, rate=rate)
        opened.append(
            LivePubMed(
                encoder or HashingEncoder(dimension=512), candidates=candidates, eutilities=client
            )
        )
        return opened[-1]

    yield open_one
    for live in opened:
        live.close()


@pytest.fixture
def live(open_live: Open) -> LivePubMed:
    return open_live()


def ids(documents: Sequence[Document]) -> list[str | None]:
    return [document.id for document in documents]


# Queries.


@pytest.mark.parametrize(
    ("question", "queries"),
    [
        (
            "Does aspirin help in gout?",
            [
                "aspirin help gout",
                "(aspirin help) OR (aspirin gout) OR (help gout)",
                "aspirin OR help OR gout",
            ],
        ),
        ("Aspirin and gout", ["aspirin gout", "aspirin OR gout"]),
        ("What is it, and why?", []),
        (
            'gout[ti] OR NOT (gout*) "AND" 2010:2020',
            [
                "gout ti 2010 2020",
                "(gout ti 2010) OR (gout ti 2020) OR (gout 2010 2020) OR (ti 2010 2020)",
                "gout OR ti OR 2010 OR 2020",
            ],
        ),
        ("IL-6 in Crohn’s", ["il-6 crohn's", "il-6 OR crohn's"]),
    ],
)
def test_each_query_asks_for_less_than_the_one_before(question: str, queries: list[str]) -> None:
    assert pubmed_queries(question) == queries


@given(st.text())
def test_a_question_adds_no_query_syntax(question: str) -> None:
    for query in pubmed_queries(question):
        assert not set(query) & set('[]*":/')
        assert not {"AND", "NOT"} & set(query.split())
        for clause in query.split(" OR "):
            inner = clause[1:-1] if clause.startswith("(") else clause
            assert inner.strip()
            assert not set(inner) & set("()")


@pytest.mark.parametrize(
    ("filters", "added"),
    [
        (Filters(), ""),
        (
            Filters(2015, None, ("Review", "Randomized Controlled Trial"), mesh=("Gout",)),
            '(2015:3000[dp]) AND ("Review"[pt] OR "Randomized Controlled Trial"[pt]) AND '
            '("Gout"[mh:noexp])',
        ),
        (
            Filters(journals=('BMJ"[ta] OR "a',), languages=("en",)),
            '("BMJ [ta] OR a"[ta]) AND ("eng"[la])',
        ),
    ],
)
def test_filters_are_clauses_of_a_query(filters: Filters, added: str) -> None:
    assert pubmed_filters(filters) == added


# Searching.


def test_search_returns_the_best_candidates_with_rank_and_score(live: LivePubMed) -> None:
    found = live.search(QUESTION, 2)
    assert ids(found) == ["11", "14"]
    assert [document.metadata["rank"] for document in found] == [1, 2]
    first, second = (document.metadata["score"] for document in found)
    assert 1 >= first > second > 0


def test_queries_are_relaxed_until_there_are_enough_candidates(
    ncbi: EUtilsServer, open_live: Open
) -> None:
    question = "aspirin stroke colchicine"
    relaxed = pubmed_queries(question)
    assert set(ids(open_live().search(question, 4))) == {"11", "12", "13", "14"}
    assert ncbi.queries() == relaxed
    ncbi.calls.clear()
    assert len(open_live(candidates=2).search(question, 1)) == 1
    assert ncbi.queries() == relaxed[:2]


# Requests.


@pytest.mark.parametrize("identified", [True, False])
def test_requests_carry_what_ncbi_asks_for(
    ncbi: EUtilsServer, open_live: Open, monkeypatch: pytest.MonkeyPatch, identified: bool
) -> None:
    identity = {"tool": "briefcontext"}
    if identified:
        monkeypatch.setenv("NCBI_API_KEY", f" {KEY}\n")
        monkeypatch.setenv("NCBI_EMAIL", EMAIL)
        identity |= {"api_key": KEY, "email": EMAIL}
    open_live(candidates=2).search("aspirin", 1)
    search, fetch = ncbi.calls
    fields = {
        "db": "pubmed",
        "term": "aspirin",
        "retmode": "json",
        "retmax": "2",
        "sort": "relevance",
    }
    assert search.fields == fields | identity
    fields = {"db": "pubmed", "id": "11,12", "retmode": "xml", "rettype": "abstract"}
    assert fetch.fields == fields | identity
    assert {(call.method, "?" in call.address) for call in ncbi.calls} == {("POST", False)}


def http_date(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


RATE_LIMIT = (
    b'{"error":"API rate limit exceeded","api-key":"%s","count":"4","limit":"3"}' % KEY.encode()
)
BACKEND = (
    b'{"esearchresult":{"ERROR":"Search Backend failed:\n Database is not supported: pubmed"}}'
)


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        (Fault(429, RATE_LIMIT, {"Retry-After": "5"}), 5),
        (Fault(200, BACKEND), 1),
        (Fault(200, b"<html>Maintenance</html>"), 1),
        (Fault(drop=True), 1),
    ],
)
@pytest.mark.parametrize("utility", ["esearch", "efetch"])
def test_transient_faults_are_retried(
    ncbi: EUtilsServer,
    open_live: Open,
    pauses: list[float],
    fault: Fault,
    pause: float | None,
    utility: str,
) -> None:
    live = open_live(candidates=1)
    if utility == "esearch":
        ncbi.faults.append(fault)
    else:
        ncbi.faults += [Fault(body=b'{"esearchresult": {"idlist": ["13"]}}'), fault]
    assert ids(live.search("gout", 1)) == ["13"]
    assert [call.utility for call in ncbi.calls].count(utility) == 2
    assert pauses == [0 if pause is None else pause]


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (
            400,
            b'{"error":"API key invalid","api-key":"%s","type":"invalid"}' % KEY.encode(),
            "NCBI_API_KEY",
        ),
        (
            400,
            b"<eFetchResult><ERROR>Bad request of "
            b"someone%2Bpubmed%40example.org</ERROR></eFetchResult>",
            r"did not accept the request.*HTTP 400, 'Bad request of \*\*\*'",
        ),
        (301, b"", "HTTP 301.*BRIEFCONTEXT_EUTILS_URL"),
    ],
)
def test_a_refusal_is_an_error_at_once(
    ncbi: EUtilsServer,
    open_live: Open,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: bytes,
    says: str,
) -> None:
    monkeypatch.setenv("NCBI_API_KEY", KEY)
    monkeypatch.setenv("NCBI_EMAIL", EMAIL)
    ncbi.faults.append(Fault(status, body, {"Location": "/elsewhere"} if status == 301 else {}))
    with pytest.raises(KnowledgeBaseError, match=says):
        open_live().search("gout", 1)
    assert len(ncbi.calls) == 1


def test_key_and_email_show_up_in_no_error_and_no_log(
    ncbi: EUtilsServer,
    open_live: Open,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("NCBI_API_KEY", KEY)
    monkeypatch.setenv("NCBI_EMAIL", EMAIL)
    caplog.set_level(logging.DEBUG)
    live = open_live()
    live.search("gout", 1)
    ncbi.faults += [Fault(429, b'{"error":"%s by %s"}' % (KEY.encode(), EMAIL.encode()))] * 4
    with pytest.raises(KnowledgeBaseError) as raised:
        live.search("aspirin", 1)
    shown = caplog.text + repr(live) + "".join(traceback.format_exception(raised.value))
    assert KEY not in shown
    assert EMAIL not in shown
