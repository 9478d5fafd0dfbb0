"""What the graph's nodes do."""

import asyncio
import time
from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langgraph.types import Overwrite

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Reader
from briefcontext.errors import ModelCallError
from briefcontext.graphs import resources
from briefcontext.graphs.events import Answering, PartitionStarted, Retrieved, RouteDecided, emit
from briefcontext.graphs.reasons import without_documents, without_evidence
from briefcontext.graphs.results import Update, abstained, answered, extracted, failed_extraction, worth_reducing
from briefcontext.graphs.retrieval import encodable_document, more_to_ask, without_retracted
from briefcontext.graphs.routing import compare_rankings, decide_route, with_prediction
from briefcontext.graphs.runtime import current_settings, open_account
from briefcontext.graphs.state import Partition, State
from briefcontext.retrievers.bm25 import rank_by_bm25
from briefcontext.retrievers.order import order_preserving
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.signals import TwoRankings

__all__ = ["Nodes"]


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
        self.answer = RunnableLambda(self._answer, self._aanswer)

    def _reader(self) -> Reader:
        if self._given_reader is None:
            return resources.reader(current_settings(), self._given_retriever)
        resources.refuse_model_settings(current_settings())
        return self._given_reader

    async def _areader(self) -> Reader:
        return self._reader() if self._given_reader is not None else await asyncio.to_thread(self._reader)

    def _retriever(self) -> RankingRetriever:
        given = self._given_retriever
        return given if given is not None else resources.retriever(current_settings())

    def _retrieve(self, state: State) -> Update:
        """Check the question, and retrieve k documents in the dense ranking's order."""
        asked = check_question(state.get("question"), state.get("options"))
        self._reader()  # A model that cannot be opened is reported before anything is retrieved.
        retriever, settings = self._retriever(), current_settings()
        found: Sequence[Document] = []
        wanted = settings.top_k
        while wanted:
            found = retriever.invoke(asked["text"], k=wanted)
            wanted = more_to_ask(found, wanted, settings)
        return _retrieved(asked, found)

    async def _aretrieve(self, state: State) -> Update:
        asked = check_question(state.get("question"), state.get("options"))
        await self._areader()
        retriever, settings = await asyncio.to_thread(self._retriever), current_settings()
        found: Sequence[Document] = []
        wanted = settings.top_k
        while wanted:
            found = await retriever.ainvoke(asked["text"], k=wanted)
            wanted = more_to_ask(found, wanted, settings)
        return _retrieved(asked, found)

    def preflight(self, state: State) -> Update:
        """Compare the dense ranking of the documents with BM25's, and decide the route."""
        settings = current_settings()
        retriever = self._retriever()
        text, documents, statistics = state["asked"]["text"], state["documents"], retriever.term_statistics
        if (calibration := resources.calibration(settings)) is None or not documents:
            preflight = compare_rankings(documents, rank_by_bm25(text, documents, statistics).order, settings)
        else:
            caution = calibration.check(retriever.dense_over, settings.top_k)
            rankings = TwoRankings.of(text, documents, statistics)
            compared = compare_rankings(documents, rankings.bm25_order, settings)
            preflight = with_prediction(compared, calibration.predict(rankings), caution)
        route, reason = decide_route(preflight, settings, one_ranking=retriever.ranks_by_bm25)
        emit(RouteDecided(event="route_decided", route=route, reason=reason, iou=preflight["iou"]))
        return {"preflight": {**preflight, "reason": reason}, "route": route}

    @staticmethod
    def map_fanout(state: State) -> Update:
        """Cut the documents, in order, into partitions (ContextMap); only the last may be smaller."""
        size, documents = current_settings().partition_size, state["documents"]
        return {"partitions": [documents[i : i + size] for i in range(0, len(documents), size)]}

    def _extract(self, branch: Partition) -> Update:
        """Extract from one partition; a failed call becomes a failed extraction, and the others go on."""
        reader, account = self._reader(), open_account(branch["started"])
        _started(branch)
        try:
            extraction = reader.extract(branch["asked"], branch["documents"], branch["index"], account)
        except ModelCallError as error:
            extraction = failed_extraction(branch, error)
        return extracted(branch, extraction, account)

    async def _aextract(self, branch: Partition) -> Update:
        reader, account = await self._areader(), open_account(branch["started"])
        _started(branch)
        try:
            extraction = await reader.aextract(branch["asked"], branch["documents"], branch["index"], account)
        except ModelCallError as error:
            extraction = failed_extraction(branch, error)
        return extracted(branch, extraction, account)

    def _reduce(self, state: State) -> Update:
        """Answer from the partitions that have evidence (ContextReduce), or abstain when none has."""
        reader, account = self._reader(), open_account(state["started"])
        if not worth_reducing(state):
            return abstained(state, without_evidence(state), account, reader)
        draft = reader.reduce(state["asked"], state["documents"], state["extractions"], account)
        return answered(state, draft, account, reader)

    async def _areduce(self, state: State) -> Update:
        reader, account = await self._areader(), open_account(state["started"])
        if not worth_reducing(state):
            return abstained(state, without_evidence(state), account, reader)
        draft = await reader.areduce(state["asked"], state["documents"], state["extractions"], account)
        return answered(state, draft, account, reader)

    def _answer(self, state: State) -> Update:
        """Answer in one call over the documents, in the order that the route wants."""
        reader, account = self._reader(), open_account(state["started"])
        _answering(state)
        draft = reader.answer(state["asked"], _in_order(state), state["route"], account)
        return answered(state, draft, account, reader)

    async def _aanswer(self, state: State) -> Update:
        reader, account = await self._areader(), open_account(state["started"])
        _answering(state)
        draft = await reader.aanswer(state["asked"], _in_order(state), state["route"], account)
        return answered(state, draft, account, reader)

    def abstain(self, state: State) -> Update:
        """Say that there is nothing to read."""
        return abstained(state, without_documents(state), open_account(state["started"]), self._reader())


def _retrieved(asked: Question, found: Sequence[Document]) -> Update:
    documents, retracted = without_retracted(found, current_settings())
    emit(Retrieved(event="retrieved", documents=len(documents)))
    # A thread keeps its state between runs, and the reducers would go on adding to it.
    return {
        "asked": asked,
        "started": time.time(),
        "documents": assign_keys(asked["text"], [encodable_document(document) for document in documents]),
        "retracted": retracted,
        "extractions": Overwrite([]),
        "calls": Overwrite([]),
    }


def _started(branch: Partition) -> None:
    emit(
        PartitionStarted(
            event="partition_started",
            index=branch["index"],
            partitions=branch["partitions"],
            documents=len(branch["documents"]),
        )
    )


def _answering(state: State) -> None:
    emit(Answering(event="answering", documents=len(state["documents"])))


def _in_order(state: State) -> list[Document]:
    """Return the documents as they rank, or put back in the order of their source (OP-RAG)."""
    documents = state["documents"]
    return order_preserving(documents) if state["route"] == "order_preserving" else documents
