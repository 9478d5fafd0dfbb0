"""The nodes of the graph."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Overwrite

from briefcontext.chains.answer import Searched
from briefcontext.chains.citation import assign_keys
from briefcontext.chains.follow_up import check_earlier
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Reader
from briefcontext.errors import InputError, ModelCallError
from briefcontext.graphs import resources
from briefcontext.graphs.events import (
    Answering,
    PartitionStarted,
    Retrieved,
    Rewritten,
    RouteDecided,
    emit,
    tell_encoding,
)
from briefcontext.graphs.results import (
    Update,
    abstained,
    answered,
    extracted,
    failed_extraction,
    without_documents,
    without_evidence,
    worth_reducing,
)
from briefcontext.graphs.retracted import encodable_document, given_ranking, more_to_ask, without_retracted
from briefcontext.graphs.routing import compare_rankings, decide_route, with_prediction
from briefcontext.graphs.runtime import current_settings, open_budget
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Partition, State
from briefcontext.retrievers.bm25 import rank_by_bm25
from briefcontext.retrievers.order import order_preserving
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.signals import TwoRankings

__all__ = ["Nodes"]


class Node(Runnable[Any, Update]):
    """An async function as a node, also of a graph that is run synchronously."""

    def __init__(self, function: Callable[[Any], Coroutine[Any, Any, Update]]) -> None:
        self._function = function

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Wait for the function in this thread."""
        return wait_for(self._function(input))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Await the function."""
        return await self._function(input)


class Nodes:
    """The nodes of one graph.

    Args:
        reader, retriever: None leaves them to each run's settings.
    """

    def __init__(self, reader: Reader | None, retriever: RankingRetriever | None) -> None:
        self._given_reader = reader
        self._given_retriever = retriever
        self.retrieve = Node(self._retrieve)
        self.extract = Node(self._extract)
        self.reduce = Node(self._reduce)
        self.answer = Node(self._answer)

    def _open_reader(self) -> Reader:
        if self._given_reader is None:
            return resources.reader(current_settings(), self._given_retriever)
        resources.refuse_model_settings(current_settings())
        return self._given_reader

    async def _reader(self) -> Reader:
        return self._open_reader() if self._given_reader is not None else await asyncio.to_thread(self._open_reader)

    def _retriever(self) -> RankingRetriever:
        given = self._given_retriever
        return given if given is not None else resources.retriever(current_settings(), tell_encoding)

    async def _retrieve(self, state: State) -> Update:
        """Check the question, and retrieve k documents in the dense ranking's order."""
        begun = time.time()
        asked = check_question(state.get("question"), state.get("options"))
        reader = await self._reader()  # A model that cannot be opened is reported before anything is retrieved.
        settings, budget = current_settings(), open_budget(begun)
        if earlier := check_earlier(state.get("earlier")):
            asked = await _own_question(reader, asked, earlier, budget)
        if (given := state.get("documents")) is not None:
            if settings.filters:
                raise InputError(
                    f"Filters ({settings.filters}) are for what is retrieved, and documents were given with the "
                    "question. Leave out the one or the other."
                )
            ranking = given_ranking(given, settings.most_documents)
            searched = Searched(name=None, version=None, updated=None)
            settings = settings.model_copy(update={"top_k": len(ranking)})
            return _retrieved(asked, ranking, settings, budget, begun, searched, given=True)
        retriever = await asyncio.to_thread(self._retriever)
        found: Sequence[Document] = []
        wanted = settings.top_k
        while wanted:
            found = resources.linked(
                await retriever.ainvoke(asked["text"], k=wanted, filters=settings.filters), settings
            )
            wanted = more_to_ask(found, wanted, settings)
        searched = await asyncio.to_thread(resources.searched, settings, self._given_retriever)
        return _retrieved(asked, found, settings, budget, begun, searched, given=False)

    def preflight(self, state: State) -> Update:
        """Compare the dense ranking of the documents with BM25's, and decide the route."""
        settings = current_settings()
        given = state["given"]
        # Documents that the caller gave are of no knowledge base that the settings name.
        retriever = self._given_retriever if given else self._retriever()
        statistics = None if retriever is None else retriever.term_statistics
        text, documents = state["asked"]["text"], state["ranking"]
        if (calibration := resources.calibration(settings)) is None or not documents:
            preflight = compare_rankings(documents, rank_by_bm25(text, documents, statistics).scores, settings)
        else:
            caution = calibration.check(None if given or retriever is None else retriever.dense_over, settings.top_k)
            rankings = TwoRankings.of(text, documents, statistics)
            compared = compare_rankings(documents, rankings.bm25.tolist(), settings)
            preflight = with_prediction(compared, calibration.predict(rankings), caution)
        one_ranking = not given and retriever is not None and retriever.ranks_by_bm25
        route, reason = decide_route(preflight, settings, one_ranking=one_ranking)
        emit(RouteDecided(event="route_decided", route=route, reason=reason, iou=preflight["iou"]))
        return {"preflight": {**preflight, "reason": reason}, "route": route}

    @staticmethod
    def map_fanout(state: State) -> Update:
        """Cut the documents, in order, into partitions (ContextMap); only the last may be smaller."""
        size, documents = current_settings().partition_size, state["ranking"]
        return {"partitions": [documents[i : i + size] for i in range(0, len(documents), size)]}

    async def _extract(self, branch: Partition) -> Update:
        """Extract from one partition; a failed call becomes a failed extraction, and the others go on."""
        reader, budget = await self._reader(), open_budget(branch["started"])
        _started(branch)
        try:
            extraction = await reader.aextract(branch["asked"], branch["documents"], branch["index"], budget)
        except ModelCallError as error:
            extraction = failed_extraction(branch, error)
        return extracted(branch, extraction, budget)

    async def _reduce(self, state: State) -> Update:
        """Answer from the partitions that have evidence (ContextReduce), or abstain when none has."""
        reader, budget = await self._reader(), open_budget(state["started"])
        if not worth_reducing(state):
            return abstained(state, without_evidence(state), budget, reader)
        draft = await reader.areduce(state["asked"], state["ranking"], state["extractions"], budget)
        return answered(state, draft, budget, reader)

    async def _answer(self, state: State) -> Update:
        """Answer in one call over the documents, in the order that the route wants."""
        reader, budget = await self._reader(), open_budget(state["started"])
        emit(Answering(event="answering", documents=len(state["ranking"])))
        draft = await reader.aanswer(state["asked"], _in_order(state), state["route"], budget)
        return answered(state, draft, budget, reader)

    def abstain(self, state: State) -> Update:
        """Say that there is nothing to read."""
        reason = without_documents(state, current_settings().filters)
        return abstained(state, reason, open_budget(state["started"]), self._open_reader())


async def _own_question(reader: Reader, asked: Question, earlier: Sequence[str], budget: CallBudget) -> Question:
    """Rewrite a follow-up by the reader's model.

    Raises:
        InputError: the reader has none.
    """
    if not isinstance(reader, LLMReader):
        raise InputError("A follow-up is rewritten by a model, and none is set: ask a whole question.")
    asked = await reader.arewrite(asked, earlier, budget)
    emit(Rewritten(event="rewritten", question=asked["text"]))
    return asked


def _retrieved(
    asked: Question,
    found: Sequence[Document],
    settings: Settings,
    budget: CallBudget,
    begun: float,
    searched: Searched,
    *,
    given: bool,
) -> Update:
    documents, retracted = without_retracted(found, settings)
    emit(Retrieved(event="retrieved", documents=len(documents)))
    # A thread keeps its state between runs, and the reducers would go on adding to it.
    return {
        "asked": asked,
        "started": begun,
        "given": given,
        "searched": searched,
        "ranking": assign_keys(asked["text"], [encodable_document(document) for document in documents]),
        "retracted": retracted,
        "extractions": Overwrite([]),
        "calls": Overwrite(budget.calls),
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


def _in_order(state: State) -> list[Document]:
    """Return the documents as they rank, or put back in the order of their source (OP-RAG)."""
    documents = state["ranking"]
    return order_preserving(documents) if state["route"] == "order_preserving" else documents
