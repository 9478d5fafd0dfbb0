"""Partitions that are read in parts, of which some fail: what was read is kept, and what was not is named."""

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Extraction, Quote
from briefcontext.errors import ModelCallError
from briefcontext.evaluation.methods.models import StrictReader
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply, faithful

WINDOW = 1500
"""Tokens; with the instructions, a part holds two of the documents below."""

FAILURES = {"broken": Reply(status=500), "too many": Reply("content policy", status=403), "silent": Reply("")}


def make_documents(count: int, *, sentences: int = 20) -> list[Document]:
    """Make documents of which few fit into the window at once."""
    return [
        Document(
            id=f"doc-{place}",
            page_content=f"Aspirin lowers the risk of stroke in group {place}. "
            + " ".join(f"Patient {place}.{number} took part in the trial to its end." for number in range(sentences)),
            metadata={"source_id": f"src-{place}", "title": f"Title {place}"},
        )
        for place in range(count)
    ]


def failing(words: str, failure: Reply) -> Any:
    """Fail to extract from what has certain words."""
    return lambda call: failure if call.stage == "extract" and words in call.prompt else faithful(call)


def parts(server: OpenAIServer) -> list[Call]:
    """Return the calls that read a part."""
    return [call for call in server.calls if call.stage == "extract"]


def read_ids(calls: list[Call]) -> set[str]:
    """Return the ids of the documents that calls read."""
    return {f"doc-{text[6]}" for call in calls for _, text in call.documents}


@pytest.fixture
def budget() -> CallBudget:
    """A budget of a model with a small window."""
    return CallBudget(retry_wait=0, max_retries=0, max_input_tokens=WINDOW)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_part_that_fails_is_named_and_the_others_are_kept(
    failure: str, asynchronous: bool, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = failing("in group 5", FAILURES[failure])
    documents = assign_keys(QUESTION, make_documents(6))
    reader, question = LLMReader(chat_model), check_question(QUESTION)
    extraction = (
        asyncio.run(reader.aextract(question, documents, 2, budget))
        if asynchronous
        else wait_for(reader.aextract(question, documents, 2, budget))
    )
    lost = read_ids([call for call in parts(server) if "in group 5" in call.prompt])
    read = {str(document.id) for document in documents} - lost
    assert 0 < len(lost) < 6
    assert (extraction["index"], extraction["status"]) == (2, "evidence")
    assert extraction["document_ids"] == [document.id for document in documents]
    assert set(extraction["unread_ids"]) == lost
    assert {quote["document_id"] for quote in extraction["quotes"]} == read
    assert f"Not read, or not all of it: {', '.join(sorted(lost))}. " in (extraction["error"] or "")
    assert len(server.calls) == len(budget.calls)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("on_failure", ["report", "raise"])
@pytest.mark.parametrize("route", ["vanilla", "order_preserving", "map_reduce"])
def test_the_answer_names_the_documents_that_were_not_read_or_the_setting_ends_it(
    route: Any, on_failure: Any, asynchronous: bool, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = failing("in group 5", Reply(status=500))
    built = build_graph(reader=chat_model, retriever=FixedRetriever(documents=make_documents(6)))
    context = Settings(
        route=route, partition_size=6, max_input_tokens=WINDOW, max_retries=0, on_partition_failure=on_failure
    )
    asked: Any = {"question": QUESTION}

    def run() -> Any:
        result = (
            asyncio.run(built.ainvoke(asked, context=context)) if asynchronous else built.invoke(asked, context=context)
        )
        return result["answer"]

    if on_failure == "raise":
        with pytest.raises(ModelCallError, match="was called once and failed"):
            run()
        return
    answer = run()
    lost = read_ids([call for call in parts(server) if "in group 5" in call.prompt])
    named = f"Not read, or not all of it: {', '.join(sorted(lost))}. "
    assert sum(named in warning for warning in answer["warnings"]) == 1
    assert {citation["document_id"] for citation in answer["citations"]} == {f"doc-{n}" for n in range(6)} - lost
    assert answer["usage"]["calls"] == len(server.calls)


def test_a_document_of_which_one_piece_was_not_read_is_named(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = failing("Patient 0.199 ", Reply(status=500))
    documents = assign_keys(QUESTION, make_documents(1, sentences=200))
    extraction = wait_for(LLMReader(chat_model).aextract(check_question(QUESTION), documents, 0, budget))
    assert len(parts(server)) > 2
    assert extraction["unread_ids"] == ["doc-0"]
    assert len(extraction["quotes"]) == len(parts(server)) - 1


def test_where_the_parts_that_were_read_have_nothing_the_others_are_named(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    def script(call: Call) -> Reply:
        return Reply(status=500) if "in group 5" in call.prompt else Reply('{"relevant": false}')

    server.script = script
    documents = assign_keys(QUESTION, make_documents(6))
    extraction = wait_for(LLMReader(chat_model).aextract(check_question(QUESTION), documents, 0, budget))
    assert extraction["status"] == "none"
    assert "doc-5" in extraction["unread_ids"]
    assert "doc-5" in (extraction["error"] or "")


def test_an_abstention_does_not_claim_that_what_was_read_in_part_was_read(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        return Reply(status=500) if "in group 5" in call.prompt else Reply('{"relevant": false}')

    server.script = script
    built = build_graph(reader=chat_model, retriever=FixedRetriever(documents=make_documents(6)))
    context = Settings(route="map_reduce", partition_size=6, max_input_tokens=WINDOW, max_retries=0)
    answer = built.invoke({"question": QUESTION}, context=context)["answer"]
    assert answer["abstained"]
    assert "of 1 partitions of the documents 1 could be read only in part" in answer["text"]
    assert any("Not read, or not all of it: " in warning for warning in answer["warnings"])


def test_all_parts_failing_is_a_failure(chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget) -> None:
    server.script = lambda call: Reply(status=500)
    documents = assign_keys(QUESTION, make_documents(6))
    with pytest.raises(ModelCallError, match="was called once and failed"):
        wait_for(LLMReader(chat_model).aextract(check_question(QUESTION), documents, 0, budget))
    assert len(server.calls) == len(budget.calls) > 1


@pytest.mark.parametrize("step", ["extract", "answer"])
async def test_an_experiment_takes_no_part_for_the_whole(
    step: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = failing("in group 5", Reply(status=500))
    documents = assign_keys(QUESTION, make_documents(6))
    read: Any = getattr(StrictReader(chat_model), f"a{step}")
    rest: Any = (0, budget) if step == "extract" else ("vanilla", budget)
    with pytest.raises(ModelCallError, match="was called once and failed"):
        await read(check_question(QUESTION), documents, *rest)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_condensed_evidence_that_was_cut_off_is_no_evidence(
    finish: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Reply("Half of what the evi", finish=finish)
    documents = assign_keys(QUESTION, make_documents(6, sentences=40))
    extractions = [
        Extraction(
            index=index,
            document_ids=[str(document.id)],
            status="evidence",
            finding="",
            quotes=[Quote(text=document.page_content, document_id=str(document.id), start=0, end=1, match="exact")],
            choice=None,
            confidence=None,
            error=None,
        )
        for index, document in enumerate(documents)
    ]
    with pytest.raises(ModelCallError, match="Condensed evidence was cut off by"):
        wait_for(LLMReader(chat_model).areduce(check_question(QUESTION), documents, extractions, budget))
    assert all("condense" in call.system for call in server.calls)
