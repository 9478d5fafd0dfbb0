"""The nodes of the graph."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langgraph.types import Overwrite

from briefcontext.chains.answer import Answer, Searched, compose
from briefcontext.chains.articles import join_articles
from briefcontext.chains.citation import assign_keys
from briefcontext.chains.claims import Claim, find_claims
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget, ModelCall, Usage, estimate_tokens, summarise
from briefcontext.chains.notes import by_level, note
from briefcontext.chains.passage_reader import PASSAGES
from briefcontext.chains.question import Question, check_earlier, check_question
from briefcontext.chains.reader import NOTHING_USED, Draft, Reader
from briefcontext.chains.verify import Verifier, cited_passages, verdict_notes
from briefcontext.errors import InputError, ModelCallError
from briefcontext.graphs.events import emit, emit_encoding
from briefcontext.graphs.resources import OF_MODELS, OF_SEARCH, Resources, linked, refuse_ignored
from briefcontext.graphs.settings import IOU, Settings, current_settings
from briefcontext.graphs.state import Partition, State
from briefcontext.graphs.steps import (
    check_rankings,
    emit_route,
    encodable_document,
    extract_from,
    fitting_parts,
    given_ranking,
    more_to_ask,
    partition,
    without_retracted,
)
from briefcontext.knowledge.store.filters import WIDEN, Filters
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.rankings import order_preserving

_ONE_CALL = ("vanilla", "order_preserving")
IN_PARTS = "read_in_parts"
"""Kind of the note on documents that exceed the model's input window."""

Update = dict[str, Any]
"""The fields of the state that a node sets."""


def async_node(
    function: Callable[[Any], Coroutine[Any, Any, Update]],
) -> RunnableLambda[Any, Update]:
    """Return an async function as a node of graphs that run synchronously or asynchronously."""
    return RunnableLambda(lambda state: wait_for(function(state)), function, function.__name__)


class Nodes:
    """The nodes of one graph. A reader or retriever of None is opened by each run's settings."""

    def __init__(
        self,
        reader: Reader | None,
        retriever: RankingRetriever | None,
        defaults: type[Settings],
        resources: Resources,
    ) -> None:
        self._given_reader = reader
        self._given_retriever = retriever
        self._defaults = defaults
        self._resources = resources

    def _settings(self) -> Settings:
        return current_settings(self._defaults)

    def _open_reader(self) -> Reader:
        if self._given_reader is None:
            return self._resources.reader(self._settings(), self._given_retriever, emit_encoding)
        refuse_ignored(self._settings(), OF_MODELS, "model or reader")
        return self._given_reader

    async def _reader(self) -> Reader:
        return await asyncio.to_thread(self._open_reader)

    async def _verifier(self, reader: Reader) -> Verifier | None:
        return await asyncio.to_thread(self._resources.verifier, self._settings(), reader)

    def _retriever(self) -> RankingRetriever:
        if self._given_retriever is not None:
            return self._given_retriever
        return self._resources.retriever(self._settings(), emit_encoding)

    def _searched(self, state: State) -> RankingRetriever | None:
        # Documents that come with the question are not from the configured knowledge base.
        return self._given_retriever if state["given"] else self._retriever()

    async def retrieve(self, state: State) -> Update:
        """Check the question and retrieve k documents, best first."""
        begun, settings = time.time(), self._settings()
        asked = check_question(state.get("question"), state.get("options"))
        if self._given_retriever is not None:
            # A calibrated preflight sets retrieval to dense.
            implied = set() if settings.preflight == IOU else {"retrieval"}
            refuse_ignored(settings, OF_SEARCH - implied, "retriever")
        # Report a model that cannot be opened before retrieval.
        reader = await self._reader()
        if settings.verify and not asked["options"]:
            await self._verifier(reader)
        budget = settings.budget()
        if earlier := _earlier(state):
            asked = await _own_question(reader, asked, earlier, budget)
        given = state.get("documents")
        if given is None:
            found = await self._found(asked, settings)
            own, resources = self._given_retriever, self._resources
            searched = await asyncio.to_thread(resources.searched, settings, own)
            if settings.filters:
                searched["filters"] = str(settings.filters)
        else:
            found = given_ranking(given, settings)
            searched = Searched(name=None, version=None, updated=None)
            settings = settings.model_copy(update={"top_k": len(found)})
        documents, retracted = without_retracted(found, settings)
        documents = [encodable_document(document) for document in documents]
        emit({"event": "retrieved", "documents": len(documents)})
        # A thread keeps its state between runs; the reducers would append to it.
        return {
            "asked": asked,
            "follow_up_to": earlier,
            "started": begun,
            "given": given is not None,
            "searched": searched,
            "ranking": assign_keys(asked["text"], documents),
            "retracted": retracted,
            "extractions": Overwrite([]),
            "calls": Overwrite(budget.calls),
        }

    async def _found(self, asked: Question, settings: Settings) -> Sequence[Document]:
        retriever = await asyncio.to_thread(self._retriever)
        found: Sequence[Document] = []
        wanted = settings.top_k
        while wanted:
            found = await retriever.ainvoke(asked["text"], k=wanted, filters=settings.filters)
            if self._given_retriever is None:
                related = await asyncio.to_thread(self._resources.related, found, settings)
                found = join_articles(found, related)
            wanted = more_to_ask(found, wanted, settings)
        return linked(found, settings)

    def preflight(self, state: State) -> Update:
        """Compare the dense ranking with BM25's and decide the route."""
        settings, asked, documents = self._settings(), state["asked"], state["ranking"]
        retriever = self._searched(state)
        preflight, route = check_rankings(
            asked,
            documents,
            settings,
            statistics=None if retriever is None else retriever.term_statistics,
            retriever=None if state["given"] else retriever,
            calibration=self._resources.calibration(settings),
        )
        too_long_for = None
        if route in _ONE_CALL:
            parts = fitting_parts(self._open_reader(), asked, documents, route, settings)
            if len(parts) > 1:
                too_long_for, route = route, "map_reduce"
                preflight["reason"] += ", but the documents exceed the model's input window"
        emit_route(preflight, route)
        return {"preflight": preflight, "route": route, "too_long_for": too_long_for}

    async def map_fanout(self, state: State) -> Update:
        """Group the documents into partitions (ContextMap) that fit the model's window."""
        settings, reader, documents = self._settings(), await self._reader(), state["ranking"]
        if state.get("too_long_for") == "order_preserving":
            documents = order_preserving(documents)
        return {"partitions": partition(reader, state["asked"], documents, settings)}

    async def extract(self, branch: Partition) -> Update:
        """Extract from one partition. A failed call becomes a failed extraction."""
        budget = self._settings().budget()
        extraction = await extract_from(await self._reader(), branch, budget)
        return {"extractions": [extraction], "calls": budget.calls}

    async def reduce(self, state: State) -> Update:
        """Answer from the partitions with evidence (ContextReduce), or abstain without any.

        Raises ModelCallError if all partitions failed.
        """
        settings, reader = self._settings(), await self._reader()
        budget, extractions = settings.budget(), state["extractions"]
        failed = [extraction for extraction in extractions if extraction["status"] == "failed"]
        if len(failed) == len(extractions):
            raise ModelCallError(
                f"All {len(failed)} partitions failed. The first: {failed[0]['error']}"
            )
        evidence = sum(extraction["status"] == "evidence" for extraction in extractions)
        forced = getattr(reader, "force_choice", False) and state["asked"]["options"]
        if not evidence and reader.name != PASSAGES and not forced:
            draft = _abstention(_no_evidence(state))
        else:
            emit({"event": "reducing", "evidence": evidence})
            draft = await reader.areduce(state["asked"], state["ranking"], extractions, budget)
        return _composed(state, draft, budget, reader, settings.filters)

    async def answer(self, state: State) -> Update:
        """Answer in one call, in rank order or in the order of the source (OP-RAG)."""
        settings, reader = self._settings(), await self._reader()
        budget = settings.budget()
        documents, route = state["ranking"], state["route"]
        emit({"event": "answering", "documents": len(documents)})
        documents = order_preserving(documents) if route == "order_preserving" else documents
        draft = await reader.aanswer(state["asked"], documents, route, budget)
        return _composed(state, draft, budget, reader, settings.filters)

    async def verify(self, state: State) -> Update:
        """Compare each cited sentence of a free answer with its passages."""
        settings, answer = self._settings(), state["answer"]
        budget = settings.budget()
        cited = {citation["key"] for citation in answer["citations"]}
        claims = [claim for claim in find_claims(answer["text"], cited) if claim.keys]
        if settings.verify and claims and not answer["abstained"] and not answer["options"]:
            answer = await self._verified(answer, claims, state, budget)
        _emit_answered(answer)
        return {"answer": answer, "calls": budget.calls}

    async def _verified(
        self, answer: Answer, claims: Sequence[Claim], state: State, budget: CallBudget
    ) -> Answer:
        """Return the answer with the verdicts. A failure becomes a note."""
        reader = await self._reader()
        verifier = await self._verifier(reader)
        # Passages are copies.
        if verifier is None or reader.name == PASSAGES:
            return answer
        emit({"event": "verifying", "sentences": len(claims)})
        passages = cited_passages(answer["citations"], state["ranking"])
        verification = await verifier.averify(answer["question"], claims, passages, budget)
        verdicts = [judged.verdict for judged in verification.judgements.values()]
        emit(
            {
                "event": "verified",
                "sentences": len(claims),
                "supported": verdicts.count("supported"),
                "partly": verdicts.count("partly"),
                "contradicted": verdicts.count("contradicted"),
                "not_stated": verdicts.count("not_stated"),
            }
        )
        notes = by_level([*answer["notes"], *verdict_notes(claims, verification, verifier.name)])
        usage = summarise(
            [*state["calls"], *budget.calls],
            seconds=time.time() - state["started"],
            vanilla_input_tokens=answer["usage"]["vanilla_input_tokens"],
            vanilla_output_tokens=answer["usage"]["vanilla_output_tokens"],
        )
        return {**answer, "notes": notes, "usage": usage}

    def abstain(self, state: State) -> Update:
        """Return an abstention, because there are no documents."""
        settings = self._settings()
        draft, budget = _abstention(_no_document(state, settings)), settings.budget()
        update = _composed(state, draft, budget, self._open_reader(), settings.filters)
        _emit_answered(update["answer"])
        return update


def _emit_answered(answer: Answer) -> None:
    emit(
        {
            "event": "answered",
            "abstained": answer["abstained"],
            "citations": len(answer["citations"]),
            "calls": answer["usage"]["calls"],
        }
    )


def _abstention(reason: str) -> Draft:
    return Draft(text=reason, choice=None, conflict=None, quotes=[], abstained=True, notes=[])


def _no_evidence(state: State) -> str:
    extractions = state["extractions"]
    failed = sum(extraction["status"] == "failed" for extraction in extractions)
    unused = sum(NOTHING_USED in (extraction["error"] or "") for extraction in extractions)
    missing = [f"{failed} could not be read"] if failed else []
    missing += [f"{unused} gave only quotes that are not in them"] if unused else []
    if not missing:
        return "The documents were read, and none of them contains evidence on this question."
    return (
        f"No evidence on this question was found, but of {len(extractions)} partitions "
        f"{' and '.join(missing)}. They may contain evidence."
    )


def _no_document(state: State, settings: Settings) -> str:
    advice = ""
    if count := len(state["retracted"]):
        how = "given with" if state["given"] else "found for"
        problem = f"All documents {how} this question are retracted articles ({count}) and were "
        problem += "left out."
    elif state["given"]:
        problem = "No document was given with this question."
    elif filters := settings.filters:
        problem = f"No document that fulfils the filters ({filters}) was retrieved for this "
        problem += "question."
        advice = f" {WIDEN}"
    else:
        problem = "No document was retrieved for this question."
        advice = " Ask in other words, and check that the knowledge base has documents."
    return f"{problem} There is nothing to answer from.{advice}"


def _earlier(state: State) -> list[str]:
    """Return the earlier questions of the input, or the last one of the thread."""
    earlier = check_earlier(state.get("earlier"))
    if earlier or not state.get("follow_up"):
        return earlier
    if "asked" not in state:
        raise InputError(
            "Nothing was asked on this thread before: ask a whole question, or give the earlier "
            "ones."
        )
    return [state["asked"]["text"]]


async def _own_question(
    reader: Reader, asked: Question, earlier: Sequence[str], budget: CallBudget
) -> Question:
    if not isinstance(reader, LLMReader):
        raise InputError(
            "A follow-up is rewritten by a model, and none is set: ask a whole question."
        )
    asked = await reader.arewrite(asked, earlier, budget)
    emit({"event": "rewritten", "question": asked["text"]})
    return asked


def _composed(
    state: State, draft: Draft, budget: CallBudget, reader: Reader, filters: Filters
) -> Update:
    notes, text = list(draft["notes"]), draft["text"]
    if state["follow_up_to"]:
        message = f"The model read the follow-up as “{state['asked']['text']}”. "
        notes.append(note("info", "rewritten", f"{message}Check that this is what you asked."))
    if state.get("too_long_for"):
        message = "The documents exceed the model's input window and were read in parts."
        notes.append(note("info", IN_PARTS, message))
    if draft["abstained"] and filters and state["ranking"]:
        text += f"\n\nOnly documents that fulfil the filters ({filters}) were searched."
    draft = {**draft, "text": text, "notes": notes}
    answer = compose(
        draft,
        asked=state["asked"],
        documents=state["ranking"],
        route=state["route"],
        preflight=state["preflight"],
        extractions=state["extractions"],
        retracted=state["retracted"],
        usage=_usage(state, draft, budget.calls, reader),
        model=reader.name,
        searched=state["searched"],
    )
    return {"answer": answer, "calls": budget.calls}


def _usage(state: State, draft: Draft, last: Sequence[ModelCall], reader: Reader) -> Usage:
    calls = [*state["calls"], *last]
    characters = reader.vanilla_characters(state["asked"], state["ranking"])
    alone = 0 if draft["abstained"] else estimate_tokens(len(draft["text"]), calls)
    written = last[-1]["output_tokens"] if last else alone
    if written and state["route"] == "map_reduce":
        quotes = {each["document_id"]: f'[key] "{each["text"]}"' for each in draft["quotes"]}
        written += estimate_tokens(len("\n".join(quotes.values())), calls) or 0
    return summarise(
        calls,
        seconds=time.time() - state["started"],
        vanilla_input_tokens=None if characters is None else estimate_tokens(characters, calls),
        vanilla_output_tokens=written or None,
    )
