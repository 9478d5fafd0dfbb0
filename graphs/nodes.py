"""What the graph's nodes do."""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langgraph.runtime import get_runtime
from langgraph.types import Overwrite

from briefcontext.chains.account import Account
from briefcontext.chains.answer import Preflight, Route, compose
from briefcontext.chains.citation import assign_keys
from briefcontext.chains.extraction import Extraction, extraction_without_evidence
from briefcontext.chains.ledger import ModelCall, Usage, estimate_tokens, summarise
from briefcontext.chains.limits import CallLimits
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Draft, Reader
from briefcontext.errors import ModelCallError
from briefcontext.graphs import resources
from briefcontext.graphs.events import (
    Answered,
    PartitionDone,
    PartitionFailed,
    PartitionStarted,
    Reducing,
    Retrieved,
    RouteDecided,
    emit,
)
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Partition, State
from briefcontext.knowledge.bm25_index import TermStatistics
from briefcontext.retrievers.bm25 import rank_by_bm25
from briefcontext.retrievers.consistency import consistency
from briefcontext.retrievers.order import order_preserving
from briefcontext.retrievers.ranking_retriever import RankingRetriever

__all__ = ["Nodes"]

Update = dict[str, Any]

_SURROGATE = re.compile("[\ud800-\udfff]")

NOTHING_RETRIEVED = "No document was retrieved for this question, so there is nothing to answer from."
NOTHING_RELEVANT = "The documents were read, and none of them contains evidence on this question."


class Nodes:
    """The nodes of one graph.

    Those that retrieve or read have a synchronous and an asynchronous side, as LangChain's runnables do;
    the two differ only in how they wait.

    Args:
        reader, retriever: None leaves them to each run's settings.
    """

    def __init__(self, reader: Reader | None, retriever: RankingRetriever | None) -> None:
        self._given_reader = reader
        self._given_retriever = retriever
        self.retrieve = RunnableLambda(self._retrieve, self._aretrieve)
        self.extract = RunnableLambda(self._extract, self._aextract)
        self.reduce = RunnableLambda(self._reduce, self._areduce)
        self.vanilla = RunnableLambda(self._vanilla, self._avanilla)
        self.order_preserving = RunnableLambda(self._order_preserving, self._aorder_preserving)

    def _reader(self) -> Reader:
        given = self._given_reader
        return given if given is not None else resources.reader(_settings(), self._given_retriever)

    async def _areader(self) -> Reader:
        given = self._given_reader
        return given if given is not None else await asyncio.to_thread(self._reader)

    def _retriever(self) -> RankingRetriever:
        given = self._given_retriever
        return given if given is not None else resources.retriever(_settings())

    def _retrieve(self, state: State) -> Update:
        """Check the question, and retrieve k documents in the dense ranking's order."""
        asked = check_question(state.get("question"), state.get("options"))
        self._reader()  # A model that cannot be opened is reported before anything is retrieved.
        retriever, k = self._retriever(), _settings().top_k
        wanted, found = k, retriever.invoke(asked["text"], k=k)
        while wanted_more := _more_to_ask(found, wanted, k):
            wanted, found = wanted_more, retriever.invoke(asked["text"], k=wanted_more)
        return _retrieved(asked, *_without_retracted(found, k))

    async def _aretrieve(self, state: State) -> Update:
        asked = check_question(state.get("question"), state.get("options"))
        await self._areader()
        retriever = await asyncio.to_thread(self._retriever)
        k = _settings().top_k
        wanted, found = k, await retriever.ainvoke(asked["text"], k=k)
        while wanted_more := _more_to_ask(found, wanted, k):
            wanted, found = wanted_more, await retriever.ainvoke(asked["text"], k=wanted_more)
        return _retrieved(asked, *_without_retracted(found, k))

    def preflight(self, state: State) -> Update:
        """Compare the dense ranking of the documents with BM25's, and decide the route."""
        settings = _settings()
        preflight = _compare(state["asked"], state["documents"], settings, self._retriever().term_statistics)
        route, reason = _decide(preflight, settings)
        emit(RouteDecided(event="route_decided", route=route, reason=reason, iou=preflight["iou"]))
        return {"preflight": {**preflight, "reason": reason}, "route": route}

    @staticmethod
    def map_fanout(state: State) -> Update:
        """Cut the documents, in order, into partitions (ContextMap); only the last may be smaller."""
        size, documents = _settings().partition_size, state["documents"]
        return {"partitions": [documents[i : i + size] for i in range(0, len(documents), size)]}

    def _extract(self, branch: Partition) -> Update:
        """Extract from one partition; a failed call becomes a failed extraction, and the others go on."""
        account = _account(branch["started"])
        _started(branch)
        try:
            extraction = self._reader().extract(branch["asked"], branch["documents"], branch["index"], account)
        except ModelCallError as error:
            extraction = _failed(branch, error)
        return _extracted(branch, extraction, account)

    async def _aextract(self, branch: Partition) -> Update:
        account = _account(branch["started"])
        reader = await self._areader()
        _started(branch)
        try:
            extraction = await reader.aextract(branch["asked"], branch["documents"], branch["index"], account)
        except ModelCallError as error:
            extraction = _failed(branch, error)
        return _extracted(branch, extraction, account)

    def _reduce(self, state: State) -> Update:
        """Answer from the partitions that have evidence (ContextReduce), or abstain when none has."""
        reader, account = self._reader(), _account(state["started"])
        if not _worth_reducing(state):
            return _abstained(state, NOTHING_RELEVANT, account, reader)
        draft = reader.reduce(state["asked"], state["documents"], state["extractions"], account)
        return _answered(state, draft, account, reader)

    async def _areduce(self, state: State) -> Update:
        reader, account = await self._areader(), _account(state["started"])
        if not _worth_reducing(state):
            return _abstained(state, NOTHING_RELEVANT, account, reader)
        draft = await reader.areduce(state["asked"], state["documents"], state["extractions"], account)
        return _answered(state, draft, account, reader)

    def _vanilla(self, state: State) -> Update:
        """Answer in one call over the documents in rank order."""
        reader, account = self._reader(), _account(state["started"])
        draft = reader.answer(state["asked"], state["documents"], "vanilla", account)
        return _answered(state, draft, account, reader)

    async def _avanilla(self, state: State) -> Update:
        reader, account = await self._areader(), _account(state["started"])
        draft = await reader.aanswer(state["asked"], state["documents"], "vanilla", account)
        return _answered(state, draft, account, reader)

    def _order_preserving(self, state: State) -> Update:
        """Answer in one call over the documents put back in the order of their source (OP-RAG)."""
        reader, account = self._reader(), _account(state["started"])
        documents = order_preserving(state["documents"])
        draft = reader.answer(state["asked"], documents, "order_preserving", account)
        return _answered(state, draft, account, reader)

    async def _aorder_preserving(self, state: State) -> Update:
        reader, account = await self._areader(), _account(state["started"])
        documents = order_preserving(state["documents"])
        draft = await reader.aanswer(state["asked"], documents, "order_preserving", account)
        return _answered(state, draft, account, reader)

    def abstain(self, state: State) -> Update:
        """Say that nothing was retrieved."""
        return _abstained(state, NOTHING_RETRIEVED, _account(state["started"]), self._reader())


def _settings() -> Settings:
    return get_runtime(Settings).context or Settings()


def _account(started: float) -> Account:
    """Open the account of one node's model calls."""
    settings = _settings()
    return Account(
        timeout=settings.call_timeout,
        max_retries=settings.max_retries,
        retry_wait=settings.retry_wait,
        deadline=None if settings.deadline is None else started + settings.deadline,
        limits=CallLimits(
            max_in_flight=settings.max_in_flight,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        ),
        max_input_tokens=settings.max_input_tokens,
        quote_similarity=settings.quote_similarity,
        force_choice=settings.force_choice,
    )


def _more_to_ask(found: Sequence[Document], wanted: int, k: int) -> int | None:
    """Return how many documents to ask for next, when retracted ones leave fewer than k; None when it is enough."""
    kept, left_out = _without_retracted(found, k)
    return 2 * wanted if left_out and len(kept) < k and len(found) >= wanted else None


def _without_retracted(found: Sequence[Document], k: int) -> tuple[list[Document], list[str]]:
    """Return the first k documents that may be used, and the source ids of the retracted ones among them."""
    if _settings().keep_retracted:
        return list(found[:k]), []
    kept: list[Document] = []
    retracted: dict[str, None] = {}
    for document in found:
        if len(kept) == k:
            break
        if document.metadata.get("retracted"):
            retracted[str(document.metadata.get("source_id", document.id))] = None
        else:
            kept.append(document)
    return kept, list(retracted)


def _retrieved(asked: Question, documents: Sequence[Document], retracted: Sequence[str]) -> Update:
    emit(Retrieved(event="retrieved", documents=len(documents)))
    # A thread keeps its state between runs, and the reducers would go on adding to it.
    return {
        "asked": asked,
        "started": time.time(),
        "documents": assign_keys(asked["text"], [_encodable_document(document) for document in documents]),
        "retracted": list(retracted),
        "extractions": Overwrite([]),
        "calls": Overwrite([]),
    }


def _encodable(text: str) -> str:
    """Replace lone surrogates, one for one: a text with one could not be sent, stored or printed."""
    return _SURROGATE.sub("\ufffd", text)


def _encodable_document(document: Document) -> Document:
    metadata = {
        name: _encodable(value) if isinstance(value, str) else value for name, value in document.metadata.items()
    }
    return document.model_copy(update={"page_content": _encodable(document.page_content), "metadata": metadata})


def _compare(
    asked: Question, documents: Sequence[Document], settings: Settings, statistics: TermStatistics | None
) -> Preflight:
    n, threshold = settings.preflight_top_n, settings.iou_threshold
    if not documents:
        return Preflight(iou=None, n=n, threshold=threshold, dense_top=[], bm25_top=[], consistent=None, reason="")
    dense = [str(document.id) for document in documents]
    bm25 = [dense[place] for place in rank_by_bm25(asked["text"], documents, statistics).order]
    return Preflight(**consistency(dense, bm25, n=n, threshold=threshold), reason="")


def _decide(preflight: Preflight, settings: Settings) -> tuple[Route, str]:
    if preflight["consistent"] is None:
        return "abstain", "nothing was retrieved"
    if settings.route != "auto":
        return settings.route, f"the setting route forces {settings.route}"
    overlap = f"the overlap of the two top {preflight['n']} is {preflight['iou']:.2f}"
    if preflight["consistent"]:
        return settings.fallback, f"{overlap}, above {preflight['threshold']:.2f}: the rankings agree"
    return "map_reduce", f"{overlap}, not above {preflight['threshold']:.2f}: the rankings disagree"


def _started(branch: Partition) -> None:
    emit(
        PartitionStarted(
            event="partition_started",
            index=branch["index"],
            partitions=branch["partitions"],
            documents=len(branch["documents"]),
        )
    )


def _failed(branch: Partition, error: ModelCallError) -> Extraction:
    """Turn a failure into an extraction that says so.

    Raises:
        ModelCallError: the settings want a failure to stop the run.
    """
    if _settings().on_partition_failure == "raise":
        raise error
    return extraction_without_evidence(branch["index"], branch["documents"], "failed", error=str(error))


def _extracted(branch: Partition, extraction: Extraction, account: Account) -> Update:
    index, partitions = branch["index"], branch["partitions"]
    if extraction["status"] == "failed":
        error = extraction["error"] or ""
        emit(PartitionFailed(event="partition_failed", index=index, partitions=partitions, error=error))
    else:
        status, quotes = extraction["status"], len(extraction["quotes"])
        emit(PartitionDone(event="partition_done", index=index, partitions=partitions, status=status, quotes=quotes))
    return {"extractions": [{**extraction, "finding": _encodable(extraction["finding"])}], "calls": account.calls}


def _worth_reducing(state: State) -> bool:
    """Return whether there is anything to answer from.

    Raises:
        ModelCallError: all partitions failed, so that nothing is known.
    """
    extractions = state["extractions"]
    failed = [extraction for extraction in extractions if extraction["status"] == "failed"]
    if len(failed) == len(extractions):
        raise ModelCallError(f"All {len(failed)} partitions failed. The first: {failed[0]['error']}")
    evidence = sum(extraction["status"] == "evidence" for extraction in extractions)
    forced = _settings().force_choice and bool(state["asked"]["options"])
    if evidence or forced:
        emit(Reducing(event="reducing", evidence=evidence))
    return bool(evidence or forced)


def _answered(state: State, draft: Draft, account: Account, reader: Reader) -> Update:
    answer = compose(
        draft,
        documents=state["documents"],
        route=state["route"],
        preflight=state["preflight"],
        extractions=state["extractions"],
        retracted=state["retracted"],
        usage=_usage(state, account.calls, reader),
    )
    emit(
        Answered(
            event="answered",
            abstained=answer["abstained"],
            citations=len(answer["citations"]),
            calls=answer["usage"]["calls"],
        )
    )
    return {"answer": answer, "calls": account.calls}


def _abstained(state: State, reason: str, account: Account, reader: Reader) -> Update:
    draft = Draft(text=reason, choice=None, conflict=None, quotes=[], abstained=True, warnings=[])
    return _answered(state, draft, account, reader)


def _usage(state: State, last: Sequence[ModelCall], reader: Reader) -> Usage:
    calls = [*state["calls"], *last]
    characters = reader.vanilla_characters(state["asked"], state["documents"])
    return summarise(
        calls,
        seconds=time.time() - state["started"],
        vanilla_input_tokens=None if characters is None else estimate_tokens(characters, calls),
    )
